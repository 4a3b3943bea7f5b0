package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Three wait in group a, and one in b; another leader has served the second of a.
func TestWhatAnotherLeaderServedOfAGroupIsNotSentAndTheRestIs(t *testing.T) {
	served := DeliveredOffsets{Default: 4, Waiting: map[string]Held{"r": {"1a": 1, "3a": 3, "4b": 4}}}
	for name, tc := range map[string]struct {
		made, frozen bool // before it is known
	}{
		"in the group":        {},
		"in its message":      {made: true},
		"in one that is sent": {made: true, frozen: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, g := context.Background(), newGrouped(t)
			for _, group := range []string{"a", "a", "a", "b"} {
				g.happens(0, nil, group)
			}
			g.at(10)
			if tc.made {
				g.said()
			}
			if tc.frozen {
				freeze(t, g.Store, "r", 1)
			}
			must(t, g.DropHeld(ctx, served))
			g.restart()
			if n := g.Waiting("r") - g.Backlog("r").Entries; n != 3 {
				t.Errorf("%d wait, want 3", n)
			}
			g.said()
			if diff := cmp.Diff([]string{"4b", "1a 3a"}, g.parts()); tc.made && diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"1a 3a", "4b"}, g.parts()); !tc.made && diff != "" {
				t.Error(diff)
			}
			if a, err := g.Prepared(ctx, "r"); a != nil || err != nil {
				t.Errorf("a message that tells what was told is still to be sent: %v, %v", a, err)
			}
			if told := len(g.told()); told != 2 {
				t.Errorf("%d messages, want 2", told)
			}
			if g.Waiting("r") != 0 {
				t.Errorf("after all is sent, %d wait", g.Waiting("r"))
			}
		})
	}
}

// parts are what the messages in the outbox are made of, in the order of these.
func (g *grouped) parts() (parts []string) {
	g.t.Helper()
	entries, err := g.Pending(context.Background(), "r", 0, 10)
	must(g.t, err)
	for _, e := range entries {
		rows, err := g.readers.QueryContext(context.Background(), `SELECT group_concat(key, ' ') FROM held WHERE entry = ? ORDER BY position`, e.ID)
		must(g.t, err)
		var keys string
		for rows.Next() {
			must(g.t, rows.Scan(&keys))
		}
		must(g.t, rows.Err())
		parts = append(parts, keys)
	}
	return parts
}

// A digest of a rate limit stands for several messages of groups.
func TestADigestOfGroupsLeavesNothingBehind(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	g.happens(0, nil, "a", "b")
	g.happens(1, nil, "a")
	g.at(10)
	if n := len(g.said()); n != 2 {
		t.Fatalf("%d messages", n)
	}
	a := freeze(t, g.Store, "r", 2)
	if a.Group != "" {
		t.Errorf("the digest is of group %s", a.Group)
	}
	tally, err := g.Acknowledge(ctx, a)
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 3}, tally); diff != "" {
		t.Error(diff)
	}
	if held, _, err := g.HeldKeys(ctx, 10); err != nil || len(held) != 0 || g.Waiting("r") != 0 {
		t.Errorf("%d wait: %v, %v", g.Waiting("r"), held, err)
	}
}

func TestNoMoreThanALimitOfWhatWaitsIsRead(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	for i := range 12 {
		g.happens(0, nil, strings.Repeat("a", 1+i%3), fmt.Sprint("other-", i))
	}
	if held, n, err := g.HeldKeys(ctx, 10); err != nil || n != 11 || len(held["r"]) != 11 {
		t.Errorf("%d, %v: %v", n, err, held)
	}
	if lowest, err := g.LowestHeld(ctx); err != nil || lowest["r"] != 1 {
		t.Errorf("%v, %v", err, lowest)
	}
}
