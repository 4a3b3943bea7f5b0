package outbox

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// accept acknowledges the messages that are in the outbox, all as one with digest.
func (g *grouped) accept(digest bool) {
	g.t.Helper()
	for g.Backlog("r").Entries > 0 {
		n := 1
		if digest {
			n = int(g.Backlog("r").Entries)
		}
		_, err := g.Finish(context.Background(), prepare(g.t, g.Store, "r", n), Outcome{})
		must(g.t, err)
	}
}

func resolvesIt(e *Entry) { e.Count, e.Member.Event.Kind = 0, group.OnlyResolution }

// pacedStep is what happens at a second, in this order: an occurrence, a restart, messages that
// are made, and an acknowledgement of all.
type pacedStep struct {
	at                 int
	occurs, resolves   bool
	restarts           bool
	want               []string
	accepted, digested bool
	wantNext           int // seconds; 0 is not known
}

// The receiver accepts the first message late. The others that became due are one message.
func TestTheIntervalBeginsWhenTheReceiverAcceptsAMessage(t *testing.T) {
	const first = "a: 1 of 1 since 0s, first true, resolved false"
	late := []pacedStep{
		{at: 0, occurs: true, wantNext: 6},
		{at: 6, want: []string{first}},
		{at: 10, occurs: true, wantNext: 66},
		{at: 66},
		{at: 100, occurs: true, wantNext: 126},
		{at: 126},
	}
	for name, steps := range map[string][]pacedStep{
		"recovers": {
			{at: 200, accepted: true},
			{at: 201, wantNext: 260},
			{at: 259, wantNext: 260},
			{at: 260, want: []string{"a: 2 of 3 since 0s, first false, resolved false"}},
			{at: 261, accepted: true},
			{at: 270, occurs: true, wantNext: 276},
			{at: 280, wantNext: 321},
			{at: 321, want: []string{"a: 1 of 4 since 0s, first false, resolved false"}},
		},
		"is restarted before and after": {
			{at: 199, restarts: true},
			{at: 200, restarts: true, accepted: true},
			{at: 201, restarts: true, wantNext: 260},
			{at: 259, restarts: true, wantNext: 260},
			{at: 260, restarts: true, want: []string{"a: 2 of 3 since 0s, first false, resolved false"}},
		},
		"accepts a digest": {
			{at: 200, digested: true},
			{at: 259, wantNext: 260},
			{at: 260, want: []string{"a: 2 of 3 since 0s, first false, resolved false"}},
		},
		"the clock is set back": {
			{at: 200, accepted: true},
			{at: 201, wantNext: 260},
			{at: 130, wantNext: 190},
			{at: 190, want: []string{"a: 2 of 3 since 0s, first false, resolved false"}},
		},
		"a resolution does not wait": {
			{at: 180, resolves: true, wantNext: 181},
			{at: 181, want: []string{"a: 2 of 3 since 0s, first false, resolved true"}},
			{at: 200, accepted: true},
			{at: 201, occurs: true, wantNext: 207},
			{at: 207, want: []string{"a: 1 of 1 since 3m21s, first true, resolved false"}},
		},
		"a resolution does not wait for the interval": {
			{at: 200, accepted: true},
			{at: 201, wantNext: 260},
			{at: 202, resolves: true, wantNext: 203},
			{at: 203, want: []string{"a: 2 of 3 since 0s, first false, resolved true"}},
		},
		"the group begins again and is resolved again": {
			{at: 180, resolves: true, wantNext: 181},
			{at: 181, want: []string{"a: 2 of 3 since 0s, first false, resolved true"}},
			{at: 187, occurs: true, wantNext: 193},
			{at: 193, want: []string{"a: 1 of 1 since 3m7s, first true, resolved false"}},
			{at: 194, occurs: true, wantNext: 253},
			{at: 253},
			{at: 254, resolves: true, wantNext: 255},
			{at: 255, want: []string{"a: 1 of 2 since 3m7s, first false, resolved true"}},
		},
		"another group begins after an hour": {
			{at: 4000, occurs: true, wantNext: 4006},
			{at: 4006},
			{at: 4010, accepted: true},
			{at: 4070, want: []string{"a: 2 of 3 since 0s, first false, resolved false"}},
			{at: 4070, accepted: true},
			{at: 4129, wantNext: 4130},
			{at: 4130, want: []string{"a: 1 of 1 since 1h6m40s, first true, resolved false"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			for _, step := range slices.Concat(late, steps) {
				g.pacedStep(step)
			}
		})
	}
}

func (g *grouped) pacedStep(step pacedStep) {
	g.t.Helper()
	g.at(step.at)
	if step.occurs {
		g.occur(step.at, nil, "a")
	}
	if step.resolves {
		g.occur(step.at, resolvesIt, "a")
	}
	if step.restarts {
		g.restart()
	}
	if diff := cmp.Diff(step.want, g.releaseDue()); diff != "" {
		g.t.Errorf("at %d: %s", step.at, diff)
	}
	next, err := g.NextDue(g.t.Context())
	must(g.t, err)
	var want time.Time
	if step.wantNext > 0 {
		want = day.Add(time.Duration(step.wantNext) * time.Second)
	}
	if len(step.want) == 0 && !step.accepted && !step.digested && !next.Equal(want) {
		g.t.Errorf("at %d: the next is due at %s, want %s", step.at, next, want)
	}
	if step.accepted || step.digested {
		g.accept(step.digested)
	}
}

// Nothing made messages for a while, for example because no replica led.
func TestWhatBecameDueMeanwhileIsOneMessage(t *testing.T) {
	g := newGrouped(t)
	for _, at := range []int{0, 10, 100, 200} {
		g.occur(at, nil, "a")
	}
	g.occur(300, resolvesIt, "a")
	g.occur(400, nil, "a")
	g.occur(500, nil, "a")
	g.at(1000)
	want := []string{
		"a: 4 of 4 since 0s, first true, resolved false",
		"a: 0 of 4 since 0s, first false, resolved true",
		"a: 2 of 2 since 6m40s, first true, resolved false",
	}
	if diff := cmp.Diff(want, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// A Node flaps. Only the last thing that happened says whether the group is resolved.
func TestAResolutionThatDidNotLastDoesNotEndTheInterval(t *testing.T) {
	g := newGrouped(t)
	flap := func(at int) {
		g.occur(at, nil, "a")
		g.occur(at+1, resolvesIt, "a")
		g.occur(at+1, nil, "a")
	}
	for _, step := range []struct {
		at       int
		flaps    bool
		accepted bool
		want     []string
	}{
		{at: 0, flaps: true},
		{at: 6, want: []string{"a: 2 of 2 since 0s, first true, resolved false"}},
		{at: 10, flaps: true},
		{at: 66}, // the first message is not accepted
		{at: 100, accepted: true},
		{at: 159},
		{at: 160, want: []string{"a: 2 of 4 since 0s, first false, resolved false"}, accepted: true},
		{at: 170, flaps: true},
		{at: 219},
		{at: 220, want: []string{"a: 2 of 6 since 0s, first false, resolved false"}},
	} {
		g.at(step.at)
		if step.flaps {
			flap(step.at)
		}
		if diff := cmp.Diff(step.want, g.releaseDue()); diff != "" {
			t.Errorf("at %d: %s", step.at, diff)
		}
		if step.accepted {
			g.accept(false)
		}
	}
}

// The end of a group is due, but the Events before it are read only later.
func TestAnEndIsNotHeldBackByAMessageThatWaits(t *testing.T) {
	g := newGrouped(t)
	g.occurQuiet(0, nil, "a")
	g.at(6)
	g.releaseDue()
	g.occurQuiet(60, nil, "a")
	g.at(200)
	if early := g.releaseDue(); early != nil {
		t.Errorf("at 200: %s", early)
	}
	g.ReadUpTo(g.clock.Now())
	if diff := cmp.Diff([]string{"a: 1 of 2 since 0s, first false, resolved true"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// A message that was dropped or refused did not reach the receiver.
func TestTheNextMessageDoesNotWaitForOneThatWasDropped(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, nil, "a")
	g.at(6)
	g.releaseDue()
	g.occur(10, nil, "a")
	g.at(100)
	if early := g.releaseDue(); early != nil {
		t.Errorf("two messages wait for the receiver: %s", early)
	}
	_, err := g.Finish(t.Context(), prepare(t, g.Store, "r", 1), Outcome{GivenUp: true})
	must(t, err)
	select {
	case <-g.Groups.Sent():
	default:
		t.Error("the release of messages is not announced")
	}
	if diff := cmp.Diff([]string{"a: 1 of 2 since 0s, first false, resolved false"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// The group that begins after a resolution does not wait, even if that did not reach the receiver.
func TestAGroupDoesNotWaitIfTheResolutionBeforeItWasDropped(t *testing.T) {
	for name, drop := range map[string]func(*grouped) error{
		"refused": func(g *grouped) error {
			_, err := g.Finish(t.Context(), prepare(t, g.Store, "r", 1), Outcome{GivenUp: true})
			return err
		},
		"refused in a batch": func(g *grouped) error {
			a := prepare(t, g.Store, "r", 1)
			_, err := g.Discard(t.Context(), a, a.Entries...)
			return err
		},
		"too old": func(g *grouped) error {
			_, err := g.DropOlderThan(t.Context(), "r", MainLane, g.clock.Now().Add(time.Hour))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			g.occur(0, nil, "a")
			g.at(6)
			g.releaseDue()
			g.at(100)
			g.accept(false)
			g.occur(101, resolvesIt, "a")
			g.at(107)
			g.releaseDue()
			must(t, drop(g))
			g.occur(108, nil, "a")
			g.at(114)
			if diff := cmp.Diff([]string{"a: 1 of 1 since 1m48s, first true, resolved false"}, g.releaseDue()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A receiver recovers after hours, in which other groups came. The group is removed after the
// interval only.
func TestAGroupIsKeptUntilItsIntervalIsOver(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, nil, "a")
	g.at(6)
	g.releaseDue()
	g.occur(8000, func(e *Entry) { e.Receiver = "other" }, "b") // what ended is removed
	g.at(9000)
	g.accept(false)
	g.occur(9001, nil, "b") // what ended is removed
	g.occur(9002, nil, "a")
	g.at(9059)
	if diff := cmp.Diff([]string{"b: 1 of 1 since 2h30m1s, first true, resolved false"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
	g.at(9060)
	if diff := cmp.Diff([]string{"a: 1 of 1 since 2h30m2s, first true, resolved false"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// The clock of the node was days ahead for a while.
func TestAGroupIsRemovedAlthoughItWasAcceptedInTheFuture(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, nil, "a")
	g.at(6)
	g.releaseDue()
	g.at(900_000)
	g.accept(false)
	g.releaseDue()
	g.at(100)
	g.releaseDue()
	g.occur(9000, nil, "b") // what ended is removed
	if n := g.Groups.Count("Alarm/shop/rollouts"); n != 1 {
		t.Errorf("%d groups, want only the new one", n)
	}
}

// The clock of the node was days ahead for a while. Messages keep their distance from each other.
func TestAGroupContinuesAfterTheClockWasSetBack(t *testing.T) {
	const (
		days  = 900_000
		first = "a: 1 of 1 since 250h0m0s, first true, resolved false"
	)
	for name, steps := range map[string][]pacedStep{
		"the message waits": {
			{at: days + 2, wantNext: days + 6},
			{at: 103, wantNext: 109},
			{at: 109, want: []string{first}},
		},
		"the receiver accepted the message": {
			{at: days + 6, want: []string{first}, accepted: true},
			{at: 100},
			{at: 110, occurs: true, wantNext: 176},
			{at: 176, want: []string{"a: 1 of 2 since 250h0m0s, first false, resolved false"}, accepted: true},
			{at: 200, occurs: true, wantNext: 236},
		},
		"the receiver accepted the message, and a new process starts": {
			{at: days + 6, want: []string{first}, accepted: true},
			{at: 100, restarts: true},
			{at: 110, occurs: true, wantNext: 176},
			{at: 176, want: []string{"a: 1 of 2 since 250h0m0s, first false, resolved false"}},
		},
		"the group is resolved": {
			{at: days + 6, want: []string{first}, accepted: true},
			{at: 110, resolves: true, wantNext: 117},
			{at: 117, want: []string{"a: 0 of 1 since 250h0m0s, first false, resolved true"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			g.pacedStep(pacedStep{at: days, occurs: true, wantNext: days + 6})
			for _, step := range steps {
				g.pacedStep(step)
			}
		})
	}
}

// The clock of the node is days ahead while an occurrence of another group is stored.
func TestAGroupEndsIfTheClockIsSetForward(t *testing.T) {
	g := newGrouped(t)
	g.pacedStep(pacedStep{at: 0, occurs: true, wantNext: 6})
	g.pacedStep(pacedStep{at: 6, want: []string{"a: 1 of 1 since 0s, first true, resolved false"}, accepted: true})
	g.at(900_000)
	g.occur(900_000, nil, "b")
	for _, step := range []pacedStep{
		{at: 900_006, want: []string{"b: 1 of 1 since 250h0m0s, first true, resolved false"}, accepted: true},
		{at: 20, resolves: true},
		{at: 30, occurs: true, wantNext: 36},
		{at: 36, want: []string{"a: 1 of 1 since 30s, first true, resolved false"}},
	} {
		g.pacedStep(step)
	}
}

// Another replica knows from the checkpoint what waits, but not when the last message was
// accepted.
func TestAnotherReplicaDoesNotKnowWhenAMessageWasAccepted(t *testing.T) {
	g := newGrouped(t)
	g.occur(0, func(e *Entry) { e.Member.Event.Message = group.Sent }, "a") // accepted late, at 99
	g.occur(10, nil, "a")
	g.at(100)
	if diff := cmp.Diff([]string{"a: 1 of 2 since 0s, first false, resolved false"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// A receiver can have very many groups, and occurrences that wait in them.
func TestAnAcknowledgementReadsOnlyItsGroups(t *testing.T) {
	s := open(t, t.TempDir())
	var trigger string
	must(t, s.readers.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = 'message_of_group_deleted'`).Scan(&trigger))
	_, trigger, _ = strings.Cut(trigger, "BEGIN")
	trigger = strings.NewReplacer("OLD.receiver", "?1", "OLD.group_id", "?2", "END", "").Replace(trigger)
	const ofMessage = "SEARCH held USING INDEX held_by_entry (entry=?)"
	for query, want := range map[string]string{
		trigger:        "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=?",
		selectMessages: ofMessage,
	} {
		if plan := explain(t, s, query); !strings.Contains(plan, want) || strings.Contains(plan, "(receiver=?)") {
			t.Errorf("%s:\n%s", query, plan)
		}
	}
}
