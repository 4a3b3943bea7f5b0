package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

// grouped is a store with a clock. Its groups wait 5 s before the first message and 60 s
// between two messages.
type grouped struct {
	*Store
	t        *testing.T
	dir      string
	clock    *testingclock.FakePassiveClock
	position uint64
}

func newGrouped(t *testing.T) *grouped {
	g := &grouped{t: t, dir: t.TempDir(), clock: testingclock.NewFakePassiveClock(day)}
	g.Store = open(t, g.dir, WithClock(g.clock))
	return g
}

// restart closes the store and opens it again.
func (g *grouped) restart() {
	g.t.Helper()
	must(g.t, g.Close())
	g.Store = open(g.t, g.dir, WithClock(g.clock))
}

// at sets the clock, in seconds.
func (g *grouped) at(seconds int) { g.clock.SetTime(day.Add(time.Duration(seconds) * time.Second)) }

// occur commits an occurrence in each of the groups, at a second.
func (g *grouped) occur(seconds int, change func(*Entry), groups ...string) {
	g.t.Helper()
	g.position++
	batch := Batch{Position: g.position}
	for _, name := range groups {
		e := entries("r", int(g.position), 1)[0]
		e.Key += name
		e.Member = &Membership{Group: name, By: []byte(name), At: day.Add(time.Duration(seconds) * time.Second), Wait: 5 * time.Second, Interval: time.Minute}
		if change != nil {
			change(&e)
		}
		batch.Entries = append(batch.Entries, e)
	}
	batch.Oldest = batch.Entries[0].Member.At
	must(g.t, g.Commit(context.Background(), batch))
}

// sendDue releases the messages that are due, acknowledges them, and returns their groups
// and counts.
func (g *grouped) sendDue() (messages []string) {
	g.t.Helper()
	ctx := context.Background()
	_, err := g.Release(ctx, func(group Group, parts []Entry, count int64) (string, []byte, error) {
		text := fmt.Sprintf("%s: %d of %d", group.By, count, group.Total)
		if group.First {
			text += ", first"
		}
		if group.Resolved {
			text += ", resolved"
		}
		payload, err := json.Marshal(text)
		return parts[0].Key + "+", payload, err
	})
	must(g.t, err)
	for g.Backlog("r").Entries > 0 {
		a := prepare(g.t, g.Store, "r", 1)
		g.restart() // everything must be in the file
		e, err := g.Acknowledge(ctx, a)
		must(g.t, err)
		messages = append(messages, fmt.Sprint(a.Group, "=", e["Alarm/shop/rollouts"]))
	}
	return messages
}

func TestAGroupsFirstMessageWaitsAndTheNextComesAfterTheInterval(t *testing.T) {
	g := newGrouped(t)
	for _, step := range []struct {
		at     int
		occurs []string
		want   []string
	}{
		{at: 0, occurs: []string{"a", "b"}},
		{at: 5, occurs: []string{"a"}},
		{at: 6, want: []string{"a=2", "b=1"}},
		{at: 7, occurs: []string{"a"}},
		{at: 50, occurs: []string{"a", "c"}},
		{at: 56, want: []string{"c=1"}},
		{at: 65},
		{at: 66, want: []string{"a=2"}},
		{at: 125, occurs: []string{"a"}},
		{at: 126}, // the interval is over, but not the wait
		{at: 131, want: []string{"a=1"}},
		{at: 500, occurs: []string{"a"}},
		{at: 506, want: []string{"a=1"}},
	} {
		g.at(step.at)
		if step.occurs != nil {
			g.occur(step.at, nil, step.occurs...)
		}
		if diff := cmp.Diff(step.want, g.sendDue()); diff != "" {
			t.Errorf("at %d: %s", step.at, diff)
		}
	}
}

// releaseDue releases the messages that are due and describes them.
func (g *grouped) releaseDue() (texts []string) {
	g.t.Helper()
	_, err := g.Release(context.Background(), func(group Group, _ []Entry, count int64) (string, []byte, error) {
		texts = append(texts, fmt.Sprintf("%s: %d of %d since %s, first %t, resolved %t", group.By, count, group.Total,
			group.Since.Sub(day), group.First, group.Resolved))
		return fmt.Sprint(g.position, "+", group.ID), nil, nil
	})
	must(g.t, err)
	return texts
}

func TestAMessageDescribesItsGroupUntilTheGroupIsOver(t *testing.T) {
	g := newGrouped(t)
	resolves := func(e *Entry) { e.Member.Resolves = true }
	for _, step := range []struct {
		occurs, released int
		change           func(*Entry)
		want             string
	}{
		{0, 10, nil, "a: 1 of 1 since 0s, first true, resolved false"},
		{20, 100, nil, "a: 1 of 2 since 0s, first false, resolved false"},
		{200, 300, resolves, "a: 1 of 3 since 0s, first false, resolved true"},
		{301, 400, resolves, "a: 1 of 1 since 5m1s, first true, resolved false"}, // a new group
		{4001, 4100, nil, "a: 1 of 1 since 1h6m41s, first true, resolved false"}, // a new group, after an hour
	} {
		g.at(step.occurs)
		g.occur(step.occurs, step.change, "a")
		g.at(step.released)
		if diff := cmp.Diff([]string{step.want}, g.releaseDue()); diff != "" {
			t.Error(diff)
		}
		g.restart()
	}
}

func TestAnOccurrenceIsHeldOnlyOnce(t *testing.T) {
	g := newGrouped(t)
	again := func() { // a replay
		g.position--
		g.occur(0, nil, "a")
	}
	g.occur(0, nil, "a")
	again()
	g.at(10)
	if diff := cmp.Diff([]string{"a: 1 of 1 since 0s, first true, resolved false"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
	again()
	g.at(1000)
	if again := g.releaseDue(); again != nil {
		t.Errorf("released again: %s", again)
	}
	if held, _, err := g.HeldKeys(context.Background(), 10); err != nil || len(held["r"]) != 1 || held["r"]["1a"] != 1 {
		t.Errorf("%v, %+v", err, held)
	}
	g.sendDue()
	if held, _, err := g.HeldKeys(context.Background(), 10); err != nil || len(held) != 0 {
		t.Errorf("after the acknowledgement: %v, %+v", err, held)
	}
}

func TestTheNextMessageOfAGroupGetsTheReferenceOfTheLast(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	g.occur(0, nil, "a")
	g.at(10)
	g.releaseDue()
	a := prepare(t, g.Store, "r", 1)
	a.Reference = "channel/1"
	_, err := g.Acknowledge(ctx, a)
	must(t, err)
	g.occur(70, nil, "a", "b")
	g.restart()
	for group, want := range map[string]string{"a": "channel/1", "b": ""} {
		got, err := g.Reference(ctx, "r", group)
		must(t, err)
		if got != want {
			t.Errorf("of %s: got %q, want %q", group, got, want)
		}
	}
	// An hour later, a new group begins. The last message of the former one can still wait.
	g.occur(70+3601, nil, "a")
	if got, err := g.Reference(ctx, "r", "a"); err != nil || got != "channel/1" {
		t.Errorf("when the next group has begun: got %q, %v", got, err)
	}
}

func TestADroppedReceiverHasNoGroups(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	g.occur(0, nil, "a", "b")
	if g.Waiting("r") != 2 || g.Groups("Alarm/shop/rollouts") != 2 {
		t.Errorf("%d wait in %d groups", g.Waiting("r"), g.Groups("Alarm/shop/rollouts"))
	}
	counts, err := g.DropReceiver(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2}, counts); diff != "" {
		t.Error(diff)
	}
	g.restart()
	if g.Waiting("r") != 0 || g.Groups("Alarm/shop/rollouts") != 0 {
		t.Errorf("%d wait in %d groups", g.Waiting("r"), g.Groups("Alarm/shop/rollouts"))
	}
}

// Group a has three occurrences, and group b has one. Another leader delivered the second
// of a.
func TestDeliveredPartsOfAGroupAreNotSentAgain(t *testing.T) {
	served := DeliveredOffsets{Default: 4, Waiting: map[string]Held{"r": {"1a": 1, "3a": 3, "4b": 4}}}
	for name, tc := range map[string]struct {
		made, prepared bool
	}{
		"in the group":        {},
		"in its message":      {made: true},
		"in one that is sent": {made: true, prepared: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, g := context.Background(), newGrouped(t)
			for _, group := range []string{"a", "a", "a", "b"} {
				g.occur(0, nil, group)
			}
			g.at(10)
			if tc.made {
				g.releaseDue()
			}
			if tc.prepared {
				prepare(t, g.Store, "r", 1)
			}
			must(t, g.DropHeld(ctx, served))
			g.restart()
			if n := g.Waiting("r") - g.Backlog("r").Entries; n != 3 {
				t.Errorf("%d wait, want 3", n)
			}
			g.releaseDue()
			if diff := cmp.Diff([]string{"4b", "1a 3a"}, g.messageParts()); tc.made && diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"1a 3a", "4b"}, g.messageParts()); !tc.made && diff != "" {
				t.Error(diff)
			}
			if a, err := g.Prepared(ctx, "r"); a != nil || err != nil {
				t.Errorf("a message with a delivered part is still prepared: %v, %v", a, err)
			}
			if sent := len(g.sendDue()); sent != 2 {
				t.Errorf("%d messages, want 2", sent)
			}
			if g.Waiting("r") != 0 {
				t.Errorf("after all is sent, %d wait", g.Waiting("r"))
			}
		})
	}
}

// messageParts returns the keys of the parts of each message, in the order of the
// messages.
func (g *grouped) messageParts() (parts []string) {
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

// A rate limit can put messages of several groups into one digest.
func TestADigestOfGroupsLeavesNothingBehind(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	g.occur(0, nil, "a", "b")
	g.occur(1, nil, "a")
	g.at(10)
	if n := len(g.releaseDue()); n != 2 {
		t.Fatalf("%d messages", n)
	}
	a := prepare(t, g.Store, "r", 2)
	if a.Group != "" {
		t.Errorf("the digest is of group %s", a.Group)
	}
	counts, err := g.Acknowledge(ctx, a)
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 3}, counts); diff != "" {
		t.Error(diff)
	}
	if held, _, err := g.HeldKeys(ctx, 10); err != nil || len(held) != 0 || g.Waiting("r") != 0 {
		t.Errorf("%d wait: %v, %v", g.Waiting("r"), held, err)
	}
}

func TestHeldKeysReadsOneMoreThanTheLimit(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	for i := range 12 {
		g.occur(0, nil, strings.Repeat("a", 1+i%3), fmt.Sprint("other-", i))
	}
	if held, n, err := g.HeldKeys(ctx, 10); err != nil || n != 11 || len(held["r"]) != 11 {
		t.Errorf("%d, %v: %v", n, err, held)
	}
	if lowest, err := g.LowestHeld(ctx); err != nil || lowest["r"] != 1 {
		t.Errorf("%v, %v", err, lowest)
	}
}
