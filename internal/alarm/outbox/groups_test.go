package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// grouped is a store with a clock. Its groups wait 5 s before the first message and 60 s
// between two messages.
type grouped struct {
	*Store
	t        *testing.T
	dir      string
	clock    *testingclock.FakePassiveClock
	position uint64
	released int64 // the newest message that releaseDue returned
}

// ofGroups is the rule of the groups.
var ofGroups = group.Rule{Wait: 5 * time.Second, Interval: time.Minute}

// describe is the Composer of these tests.
func describe(group Group, _ []Entry, count int64) ([]byte, error) {
	return fmt.Appendf(nil, "%s: %d of %d since %s, first %t, resolved %t", group.By, count, group.Total,
		group.Since.Sub(day), group.First, group.Resolved), nil
}

func newGrouped(t *testing.T) *grouped {
	g := &grouped{t: t, dir: t.TempDir(), clock: testingclock.NewFakePassiveClock(day)}
	g.Store = open(t, g.dir, WithClock(g.clock), WithComposer(describe))
	return g
}

// restart closes the store and opens it again.
func (g *grouped) restart() {
	g.t.Helper()
	must(g.t, g.Close())
	g.Store = open(g.t, g.dir, WithClock(g.clock), WithComposer(describe))
}

// at sets the clock, in seconds.
func (g *grouped) at(seconds int) { g.clock.SetTime(day.Add(time.Duration(seconds) * time.Second)) }

// occur commits an occurrence in each of the groups, at a second.
func (g *grouped) occur(seconds int, change func(*Entry), groups ...string) {
	g.t.Helper()
	g.position++
	batch := Change{Events: &EventStep{Position: g.position}}
	for _, name := range groups {
		e := entries("r", int(g.position), 1)[0]
		e.Key += name
		e.Member = &Membership{Group: name, By: []byte(name), Rule: ofGroups, Event: group.Event{At: day.Add(time.Duration(seconds) * time.Second)}}
		if change != nil {
			change(&e)
		}
		batch.Entries = append(batch.Entries, e)
	}
	batch.Events.Oldest = batch.Entries[0].Member.Event.At
	must(g.t, g.Commit(context.Background(), batch))
}

// groupOf returns the group of the first entry of a message.
func groupOf(t testing.TB, s *Store, a *Attempt) (group string) {
	t.Helper()
	must(t, s.readers.QueryRow(`SELECT group_id FROM entry WHERE id = ?`, a.Entries[0]).Scan(&group))
	return group
}

// sendDue releases the messages that are due, acknowledges them, and returns their groups
// and counts.
func (g *grouped) sendDue() (messages []string) {
	g.t.Helper()
	ctx := context.Background()
	_, err := g.Release(ctx)
	must(g.t, err)
	for g.Backlog("r").Entries > 0 {
		a := prepare(g.t, g.Store, "r", 1)
		group := groupOf(g.t, g.Store, a)
		g.restart() // everything must be in the file
		e, err := g.Finish(ctx, a, Outcome{})
		must(g.t, err)
		messages = append(messages, fmt.Sprint(group, "=", e["Alarm/shop/rollouts"]))
	}
	return messages
}

// A new leader reads occurrences again that the former one sent. They belong to messages
// that are due when they were before, so the next message is not late.
func TestServedOccurrencesDoNotDelayTheNextMessage(t *testing.T) {
	skipIfShort(t)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		former, successor := newGrouped(t), newGrouped(t)
		var seconds []int
		for at := 0; len(seconds) < 12; at += random.IntN(40) {
			seconds = append(seconds, at)
		}
		change := func(i int, served bool) func(*Entry) {
			return func(e *Entry) {
				if i > 0 && (int(seed)+i)%5 == 0 {
					e.Member.Event.Kind = group.Resolution
				}
				if served {
					e.Member.Event.Message = group.Sent
				}
			}
		}
		for i, at := range seconds {
			former.at(at)
			former.sendDue()
			former.occur(at, change(i, false), "a")
		}
		waits := waitingEvents(t, former.Store)
		successor.at(seconds[len(seconds)-1])
		for i, at := range seconds {
			_, unsent := waits["r"][fmt.Sprintf("%da", i+1)]
			successor.occur(at, change(i, !unsent), "a")
		}
		if diff := cmp.Diff(former.dues(), successor.dues()); diff != "" {
			t.Fatalf("seed %d: occurrences at %v: due (seconds):\n%s", seed, seconds, diff)
		}
	}
}

// dues returns when the waiting occurrences are due, in seconds.
func (g *grouped) dues() (dues []int) {
	g.t.Helper()
	rows, err := g.readers.QueryContext(g.t.Context(), `SELECT due FROM held WHERE entry IS NULL ORDER BY position`)
	must(g.t, each(rows, err, func(rows *sql.Rows) error {
		var due time.Time
		err := rows.Scan(timestamp{&due})
		dues = append(dues, int(due.Sub(day).Seconds()))
		return err
	}))
	return dues
}

func TestAReportedGroupIsResolvedAtOnce(t *testing.T) {
	const reported = "a: 1 of 1 since 0s, first true, resolved false"
	type step struct {
		at               int
		occurs, resolves bool
		want             []string
	}
	for name, steps := range map[string][]step{
		"without waiting": {
			{at: 6, want: []string{reported}},
			{at: 10, resolves: true},
			{at: 11, want: []string{"a: 0 of 1 since 0s, first false, resolved true"}},
		},
		"with the occurrences that wait": {
			{at: 6, want: []string{reported}},
			{at: 8, occurs: true},
			{at: 9, occurs: true},
			{at: 10, resolves: true},
			{at: 11, want: []string{"a: 2 of 3 since 0s, first false, resolved true"}},
			{at: 66},
		},
		"after the first message, which is not the end": {
			{at: 2, resolves: true},
			{at: 6, want: []string{reported}},
			{at: 7, want: []string{"a: 0 of 1 since 0s, first false, resolved true"}},
			{at: 66},
		},
		"but not if it occurs again before the first message": {
			{at: 2, resolves: true},
			{at: 3, occurs: true},
			{at: 6, want: []string{"a: 2 of 2 since 0s, first true, resolved false"}},
			{at: 8, resolves: true},
			{at: 9, want: []string{"a: 0 of 2 since 0s, first false, resolved true"}},
		},
		"after its first message, which is late": {
			{at: 10, resolves: true, want: []string{reported}},
			{at: 11, want: []string{"a: 0 of 1 since 0s, first false, resolved true"}},
		},
		"and the next problem keeps the interval": {
			{at: 6, want: []string{reported}},
			{at: 10, resolves: true},
			{at: 11, want: []string{"a: 0 of 1 since 0s, first false, resolved true"}},
			{at: 20, occurs: true},
			{at: 25, resolves: true},
			{at: 30, occurs: true},
			{at: 66, want: []string{"a: 2 of 2 since 20s, first true, resolved false"}},
			{at: 70, resolves: true},
			{at: 71, want: []string{"a: 0 of 2 since 20s, first false, resolved true"}},
		},
		"and the next problem keeps the interval since what was sent with the resolution": {
			{at: 6, want: []string{reported}},
			{at: 8, occurs: true},
			{at: 10, resolves: true},
			{at: 11, want: []string{"a: 1 of 2 since 0s, first false, resolved true"}},
			{at: 20, occurs: true},
			{at: 66},
			{at: 71, want: []string{"a: 1 of 1 since 20s, first true, resolved false"}},
		},
		"and a problem after the interval is reported": {
			{at: 6, want: []string{reported}},
			{at: 100, resolves: true},
			{at: 101, want: []string{"a: 0 of 1 since 0s, first false, resolved true"}},
			{at: 102, occurs: true},
			{at: 108, want: []string{"a: 1 of 1 since 1m42s, first true, resolved false"}},
		},
		"but not if it occurs again in the same second": {
			{at: 6, want: []string{reported}},
			{at: 10, resolves: true},
			{at: 10, occurs: true},
			{at: 65},
			{at: 66, want: []string{"a: 1 of 2 since 0s, first false, resolved false"}},
		},
		"although its last message was sent before the resolution was read": {
			{at: 4, occurs: true},
			{at: 6, want: []string{"a: 2 of 2 since 0s, first true, resolved false"}},
			{at: 5, resolves: true},
			{at: 7, want: []string{"a: 0 of 2 since 0s, first false, resolved true"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			g.occur(0, nil, "a")
			for _, step := range steps {
				g.at(step.at)
				if step.occurs {
					g.occur(step.at, nil, "a")
				}
				if step.resolves {
					g.occur(step.at, resolvesIt, "a")
				}
				if diff := cmp.Diff(step.want, g.releaseDue()); diff != "" {
					t.Errorf("at %d: %s", step.at, diff)
				}
				g.accept(false)
				g.restart()
			}
		})
	}
}

// A stream of Events that resolve is one message per interval, as of any group.
func TestResolutionsWithoutAnOpenGroupKeepTheInterval(t *testing.T) {
	g := newGrouped(t)
	var at []int
	for second := range 300 {
		g.at(second)
		released, err := g.Release(t.Context())
		must(t, err)
		if released["r"].Messages > 0 {
			at = append(at, second)
		}
		if second%10 == 0 {
			g.occur(second, func(e *Entry) { e.Member.Event.Kind = group.Resolution }, "a")
		}
	}
	if diff := cmp.Diff([]int{6, 66, 126, 186, 246}, at); diff != "" {
		t.Errorf("messages (seconds): %s", diff)
	}
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
	_, err := g.Release(context.Background())
	must(g.t, err)
	released, err := g.Pending(context.Background(), Query{Receiver: "r", Lane: MainLane, After: g.released, Limit: 1_000})
	must(g.t, err)
	for _, e := range released {
		texts = append(texts, string(e.Payload))
		g.released = e.ID
	}
	return texts
}

func TestAMessageDescribesItsGroupUntilTheGroupIsOver(t *testing.T) {
	g := newGrouped(t)
	resolves := func(e *Entry) { e.Member.Event.Kind = group.Resolution }
	for _, step := range []struct {
		occurs, released int
		change           func(*Entry)
		want             string
	}{
		{0, 10, nil, "a: 1 of 1 since 0s, first true, resolved false"},
		{20, 100, nil, "a: 1 of 2 since 0s, first false, resolved false"},
		{200, 300, resolves, "a: 1 of 3 since 0s, first false, resolved true"},
		{301, 400, resolves, "a: 1 of 1 since 5m1s, first true, resolved true"}, // a new group, about a problem that is not known
		{302, 500, nil, "a: 1 of 1 since 5m2s, first true, resolved false"},
		{4001, 4100, nil, "a: 1 of 1 since 1h6m41s, first true, resolved false"}, // a new group, after an hour
	} {
		g.at(step.occurs)
		g.occur(step.occurs, step.change, "a")
		g.at(step.released)
		if diff := cmp.Diff([]string{step.want}, g.releaseDue()); diff != "" {
			t.Error(diff)
		}
		g.sendDue()
	}
}

// occurQuiet is occur for a group that is resolved after it was quiet for 100 s. With change,
// the end is changed too.
func (g *grouped) occurQuiet(seconds int, change func(*Entry), name string) {
	g.t.Helper()
	g.position++
	e := entries("r", int(g.position), 1)[0]
	e.Member = &Membership{
		Group: name, By: []byte(name), Rule: ofGroups, Event: group.Event{At: day.Add(time.Duration(seconds) * time.Second)},
	}
	e.Member.Rule.Quiet = 100 * time.Second
	end, member := e, *e.Member
	end.Key, end.Count, end.Member = EndKey(e.Key), 0, &member
	member.Event.Kind = group.End
	for _, part := range []*Entry{&e, &end} {
		if change != nil {
			change(part)
		}
	}
	must(g.t, g.Commit(context.Background(), Change{Events: &EventStep{Position: g.position, Oldest: e.Member.Event.At}, Entries: []Entry{e, end}}))
}

func TestAGroupIsResolvedAfterItWasQuiet(t *testing.T) {
	g := newGrouped(t)
	for _, step := range []struct {
		at     int
		occurs bool
		want   []string
	}{
		{at: 0, occurs: true},
		{at: 6, want: []string{"a: 1 of 1 since 0s, first true, resolved false"}},
		{at: 60, occurs: true},
		{at: 150, want: []string{"a: 1 of 2 since 0s, first false, resolved false"}},
		{at: 160},
		{at: 161, want: []string{"a: 0 of 2 since 0s, first false, resolved true"}},
		{at: 500},
		{at: 600, occurs: true}, // a new group
		{at: 606, want: []string{"a: 1 of 1 since 10m0s, first true, resolved false"}},
		{at: 607, occurs: true},
		{at: 666, want: []string{"a: 1 of 2 since 10m0s, first false, resolved false"}},
		{at: 707},
		{at: 708, want: []string{"a: 0 of 2 since 10m0s, first false, resolved true"}},
		{at: 5000},
	} {
		g.at(step.at)
		if step.occurs {
			g.occurQuiet(step.at, nil, "a")
		}
		g.ReadUpTo(g.clock.Now())
		if diff := cmp.Diff(step.want, g.releaseDue()); diff != "" {
			t.Errorf("at %d: %s", step.at, diff)
		}
		g.sendDue()
		g.restart()
	}
	if waits := waitingEvents(t, g.Store); len(waits) != 0 || g.Waiting("r") != 0 {
		t.Errorf("after all was sent, %d wait: %v", g.Waiting("r"), waits)
	}
}

// After a restart, or while the API server does not answer, something can have happened that
// was not read.
func TestAnEndWaitsUntilEventsAreRead(t *testing.T) {
	g := newGrouped(t)
	g.occurQuiet(0, nil, "a")
	g.at(10)
	g.ReadUpTo(g.clock.Now())
	g.releaseDue()
	g.restart()
	g.at(1000)
	if early := g.releaseDue(); early != nil {
		t.Errorf("resolved without knowing: %s", early)
	}
	if due, err := g.NextDue(t.Context()); err != nil || !due.IsZero() {
		t.Errorf("the next is due at %s, %v", due, err)
	}
	g.occurQuiet(90, nil, "a") // it was read late
	g.ReadUpTo(g.clock.Now())
	if diff := cmp.Diff([]string{"a: 1 of 2 since 0s, first false, resolved true"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// An occurrence that is parked can be one of the group.
func TestAnEndWaitsForParkedOccurrences(t *testing.T) {
	g := newGrouped(t)
	ofTenant := func(e *Entry) { e.Tenant = "Alarm/shop/" }
	g.occurQuiet(0, ofTenant, "a")
	g.at(10)
	g.releaseDue()
	parked := Parked{Key: "k", Alarm: "uid", Object: "o", Namespace: "shop", Tenant: "Alarm/shop/", Position: 2, Receivers: map[string]string{}, Data: []byte("{}")}
	other := parked
	other.Key, other.Tenant = "other", "Alarm/other/"
	must(t, g.Commit(t.Context(), Change{Events: &EventStep{Position: 2}, Parked: []Parked{parked, other}}))
	g.at(1000)
	g.ReadUpTo(g.clock.Now())
	if early := g.releaseDue(); early != nil {
		t.Errorf("resolved while an occurrence waits: %s", early)
	}
	if due, err := g.NextDue(t.Context()); err != nil || !due.IsZero() {
		t.Errorf("the next is due at %s, %v", due, err)
	}
	rows, err := g.Parking.Of(t.Context(), "shop", "o", 1)
	must(t, err)
	must(t, g.Commit(t.Context(), Change{Unparked: rows}))
	if diff := cmp.Diff([]string{"a: 0 of 1 since 0s, first false, resolved true"}, g.releaseDue()); diff != "" {
		t.Error(diff)
	}
}

// A new leader knows from the checkpoint whether the end was sent.
func TestAnEndIsSentOnceAfterAFailover(t *testing.T) {
	for name, tc := range map[string]struct {
		sent bool
		want []string
	}{
		"it was sent": {sent: true},
		"it waits":    {want: []string{"a: 0 of 2 since 0s, first false, resolved true"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			served := func(e *Entry) {
				// The checkpoint never lists the end of the first occurrence, which the second replaced.
				if e.Member.Event.Kind != group.End || tc.sent || g.position == 1 {
					e.Member.Event.Message = group.Sent
				}
			}
			g.occurQuiet(0, served, "a")
			g.occurQuiet(60, served, "a")
			g.at(1000)
			g.ReadUpTo(g.clock.Now())
			if diff := cmp.Diff(tc.want, g.releaseDue()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The resolution of a thread can wait longer than an hour for its receiver.
func TestAGroupKeepsItsReferenceUntilItsMessagesAreSent(t *testing.T) {
	g := newGrouped(t)
	send := func() {
		a := prepare(t, g.Store, "r", 1_000)
		_, err := g.Finish(t.Context(), a, Outcome{Groups: []GroupState{{Group: groupOf(t, g.Store, a), Reference: "thread"}}})
		must(t, err)
	}
	g.occur(0, nil, "a")
	g.at(10)
	g.releaseDue()
	send()
	g.occur(100, func(e *Entry) { e.Member.Event.Kind = group.Resolution }, "a")
	g.at(200)
	g.releaseDue()
	g.occur(9000, nil, "b") // what ended is removed
	if reference, err := g.Reference(t.Context(), "r", "a"); err != nil || reference != "thread" {
		t.Errorf("the thread is %q, %v", reference, err)
	}
	send()
	g.occur(9060, nil, "b")
	if reference, err := g.Reference(t.Context(), "r", "a"); err != nil || reference != "" {
		t.Errorf("the group is kept: %q, %v", reference, err)
	}
}

func TestOnlyAnOpenGroupIsResolved(t *testing.T) {
	g := newGrouped(t)
	only := func(e *Entry) { e.Count, e.Member.Event.Kind = 0, group.OnlyResolution }
	for _, step := range []struct {
		at     int
		change func(*Entry)
		want   []string
	}{
		{0, only, nil},
		{10, nil, []string{"a: 1 of 1 since 10s, first true, resolved false"}},
		{100, only, []string{"a: 0 of 1 since 10s, first false, resolved true"}},
		{200, only, nil},
		{300, nil, []string{"a: 1 of 1 since 5m0s, first true, resolved false"}},
		{9000, only, nil}, // the group ended by its hour
	} {
		g.occur(step.at, step.change, "a")
		g.at(step.at + 70)
		if diff := cmp.Diff(step.want, g.releaseDue()); diff != "" {
			t.Errorf("at %d: %s", step.at, diff)
		}
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
	if held := waitingEvents(t, g.Store); len(held["r"]) != 1 || held["r"]["1a"] != 1 {
		t.Errorf("%+v", held)
	}
	g.sendDue()
	if held := waitingEvents(t, g.Store); len(held) != 0 {
		t.Errorf("after the acknowledgement: %+v", held)
	}
}

func TestTheNextMessageOfAGroupGetsTheReferenceOfTheLast(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	g.occur(0, nil, "a")
	g.at(10)
	g.releaseDue()
	a := prepare(t, g.Store, "r", 1)
	_, err := g.Finish(ctx, a, Outcome{Groups: []GroupState{{Group: groupOf(t, g.Store, a), Reference: "channel/1"}}})
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
	if g.Waiting("r") != 2 || g.Groups.Count("Alarm/shop/rollouts") != 2 {
		t.Errorf("%d wait in %d groups", g.Waiting("r"), g.Groups.Count("Alarm/shop/rollouts"))
	}
	counts, err := g.DropReceiver(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2}, counts); diff != "" {
		t.Error(diff)
	}
	g.restart()
	if g.Waiting("r") != 0 || g.Groups.Count("Alarm/shop/rollouts") != 0 {
		t.Errorf("%d wait in %d groups", g.Waiting("r"), g.Groups.Count("Alarm/shop/rollouts"))
	}
}

// Group a has three occurrences, and group b has one. Another leader delivered the second
// of a.
func TestDeliveredPartsOfAGroupAreNotSentAgain(t *testing.T) {
	served := progress.Offsets{Position: 4, Waiting: progress.Waiting{"r": {"1a": 1, "3a": 3, "4b": 4}}}
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
			must(t, g.drop(ctx, offsets{"": served}))
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
			if a, err := g.Prepared(ctx, "r", MainLane); a != nil || err != nil {
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
	entries, err := g.Pending(context.Background(), Query{Receiver: "r", Lane: MainLane, Limit: 10})
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
	counts, err := g.Finish(ctx, prepare(t, g.Store, "r", 2), Outcome{KeepEntries: true})
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 3}, counts); diff != "" {
		t.Error(diff)
	}
	if held := waitingEvents(t, g.Store); len(held) != 0 || g.Waiting("r") != 0 {
		t.Errorf("%d wait: %v", g.Waiting("r"), held)
	}
}

func TestWaitingKeysAreThoseOfAllOtherReceivers(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	to := func(receiver string) func(*Entry) { return func(e *Entry) { e.Receiver = receiver } }
	g.occur(0, to("r"), "a", "b")
	g.occur(1, to("other"), "a")
	g.occur(2, to("third"), "a")
	g.occur(3, to("r"), "a")
	counts, err := g.CountWaiting(ctx)
	want := map[string]Waiting{"r": {Events: 3, Lowest: 1}, "other": {Events: 1, Lowest: 2}, "third": {Events: 1, Lowest: 3}}
	if diff := cmp.Diff(want, counts); diff != "" || err != nil {
		t.Error(diff, err)
	}
	held, err := g.WaitingKeys(ctx, []string{"other", "unknown"}, nil)
	if diff := cmp.Diff(progress.Waiting{"r": {"1a": 1, "1b": 1, "4a": 4}, "third": {"3a": 3}}, held[""]); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, none := range [][]string{nil, {}} {
		if held, err := g.WaitingKeys(ctx, none, nil); len(held[""]) != 3 || err != nil {
			t.Errorf("without an exception: %v, %v", held, err)
		}
	}
}

// fillWithState commits groups and windows, without a message, until there is no space. It
// returns the batch that failed.
func fillWithState(t *testing.T, s *Store) Change {
	t.Helper()
	for from := 1; ; from += 100 {
		batch := Change{Events: &EventStep{Position: uint64(from + 99), Oldest: day}, Entries: entries("r", from, 100)}
		for i := range batch.Entries {
			id := fmt.Sprintf("%032d", from+i)
			batch.Entries[i].Member = &Membership{Group: id, Event: group.Event{Message: group.Sent, At: day}}
			batch.Windows = append(batch.Windows, Window{ID: id, Alarm: batch.Entries[i].Alarm, Until: day, State: []byte("state")})
		}
		if err := s.Commit(context.Background(), batch); errors.Is(err, file.ErrFull) {
			return batch
		} else if err != nil || from > 100_000 {
			t.Fatalf("after %d groups: %v, want ErrFull", from, err)
		}
	}
}

func TestGroupsThatFillTheFileAreForgottenAfterTheirEnd(t *testing.T) {
	skipIfShort(t)
	ctx, dir, clock := context.Background(), t.TempDir(), testingclock.NewFakeClock(day)
	s := open(t, dir, WithMaxBytes(4<<20), WithClock(clock))
	batch := fillWithState(t, s)
	must(t, s.Close())
	s = open(t, dir, WithMaxBytes(4<<20), WithClock(clock))
	if err := s.Commit(ctx, batch); !errors.Is(err, file.ErrFull) {
		t.Fatalf("before the groups end: %v, want ErrFull", err)
	}
	clock.Step(GroupLife + endLife + time.Second)
	must(t, s.Commit(ctx, batch)) // the same batch, whose occurrences are older
	if size := s.Size(); size.Groups != 100 || size.Windows != 100 {
		t.Errorf("%+v, want only what the batch has", size)
	}
}

// PagerDuty and Alertmanager know both by the same key: an end behind the next problem would close
// that.
func TestALateEndIsSentBeforeTheNextProblem(t *testing.T) {
	g := newGrouped(t)
	g.occurQuiet(0, nil, "a")
	g.at(10)
	g.ReadUpTo(g.clock.Now())
	g.releaseDue()
	g.at(1000)
	g.occurQuiet(995, nil, "a") // the API server sent nothing in between
	var got []string
	for _, second := range []int{1000, 1001, 1006, 1066} {
		g.at(second)
		g.ReadUpTo(g.clock.Now())
		got = append(got, g.releaseDue()...)
	}
	want := []string{"a: 0 of 1 since 0s, first false, resolved true", "a: 1 of 1 since 16m35s, first true, resolved false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAGroupCanStayOpenForADayForItsResolution(t *testing.T) {
	opened := func(e *Entry) { e.Member.Rule.Open = 24 * time.Hour }
	ready := func(e *Entry) { e.Member.Rule.Open, e.Member.Event.Kind = 24*time.Hour, group.OnlyResolution }
	const day = 24 * 3600
	for name, tc := range map[string]struct {
		open   func(*Entry)
		after  int
		listed int64
		want   []string
	}{
		"after three hours":         {opened, 3 * 3600, 1, []string{"a: 1 of 2 since 0s, first false, resolved true"}},
		"after a day":               {opened, day, 1, []string{"a: 1 of 2 since 0s, first false, resolved true"}},
		"after more than a day":     {opened, day + 1, 0, nil},
		"not a group that does not": {nil, 3 * 3600, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			g.occur(0, tc.open, "a")
			g.at(10)
			g.sendDue()
			g.at(tc.after)
			g.occur(tc.after, nil, "b") // removes what ended
			g.restart()
			_, listed, err := g.Groups.List(t.Context(), "Alarm/shop/rollouts", 10)
			must(t, err)
			if listed != tc.listed+1 {
				t.Errorf("%d groups are open, want %d and another one", listed, tc.listed)
			}
			g.occur(tc.after, ready, "a")
			g.at(tc.after + 100)
			got := slices.DeleteFunc(g.releaseDue(), func(text string) bool { return text[0] != 'a' })
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGroupsAreCountedByTheirTenant(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	const alarm, other = "Alarm/shop/rollouts", "Alarm/shop/rollout"
	g.occur(0, nil, "a", "b", "c")
	tenant := ""
	check := func(when string, in, beyond int64) {
		t.Helper()
		if got := g.Groups.CountIn(tenant, alarm); got != in {
			t.Errorf("%s: %d groups in the tenant, want %d", when, got, in)
		}
		if got := g.Groups.CountBeyond(alarm, 1); got != beyond {
			t.Errorf("%s: %d groups beyond the first, want %d", when, got, beyond)
		}
		if got := g.Groups.CountIn(tenant, other) + g.Groups.CountIn("another", alarm) + g.Groups.CountBeyond(other, 0); got != 0 {
			t.Errorf("%s: %d groups of others", when, got)
		}
	}
	check("at first", 3, 2)
	g.restart()
	check("after a restart", 3, 2)
	_, err := g.DropReceiver(ctx, "r")
	must(t, err)
	check("without the receiver", 0, 0)
}
