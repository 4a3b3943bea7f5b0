package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// send sends the message of a group that is due, and lets change decide what is stored of it.
func (g *grouped) send(change func(*GroupState)) {
	g.t.Helper()
	ctx := context.Background()
	_, err := g.Release(ctx)
	must(g.t, err)
	a := prepare(g.t, g.Store, "r", 1)
	state := GroupState{Group: groupOf(g.t, g.Store, a)}
	change(&state)
	_, err = g.Finish(ctx, a, Outcome{Groups: []GroupState{state}})
	must(g.t, err)
}

func remembering(data string) func(*GroupState) {
	return func(a *GroupState) { a.Remember = []byte(data) }
}

// again returns what must be sent again that was last sent until now, after a restart.
func (g *grouped) again() string {
	g.t.Helper()
	used := g.used(ledger.Groups, "")
	g.restart()
	if stored := g.used(ledger.Groups, ""); stored != used {
		g.t.Errorf("%d bytes are used after the restart, were %d", stored, used)
	}
	var rows int64
	must(g.t, g.readers.QueryRow(`SELECT count(*) FROM open_group WHERE (last IS NULL) <> (repeated = 0)`).Scan(&rows))
	if rows > 0 {
		g.t.Errorf("%d messages do not count for their group", rows)
	}
	must(g.t, g.readers.QueryRow(`SELECT count(*) FROM content WHERE refs <> (SELECT count(*) FROM (
		SELECT content AS used FROM entry UNION ALL SELECT content FROM held UNION ALL SELECT content FROM attempt UNION ALL SELECT last FROM open_group)
		WHERE used = content.id)`).Scan(&rows))
	if rows > 0 {
		g.t.Errorf("%d contents have a wrong number of rows", rows)
	}
	g.ReadUpTo(g.clock.Now())
	all, err := g.Repeated(context.Background(), "r", g.clock.Now(), 10, 1<<20)
	must(g.t, err)
	var texts []string
	for _, r := range all {
		text := r.Group + "=" + string(r.Data)
		if r.Ended {
			text += " (ended)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

func (g *grouped) expect(want string) {
	g.t.Helper()
	if got := g.again(); got != want {
		g.t.Errorf("to be sent again: %q, want %q", got, want)
	}
}

func TestOnlyTheLastMessageOfAnOpenGroupIsSentAgain(t *testing.T) {
	g := newGrouped(t)
	used := func() int64 { return g.used(ledger.Groups, "") }
	g.occur(0, nil, "a")
	empty := used()
	g.at(6)
	g.expect("")
	g.send(remembering("one"))
	g.expect("a=one")

	g.occur(20, nil, "a")
	g.at(30)
	g.expect("a=one")
	g.at(66)
	_, err := g.Release(t.Context())
	must(t, err)
	g.expect("") // the next message is on its way
	g.send(remembering("two, which is longer"))
	g.expect("a=two, which is longer")

	must(t, g.SetRepeated(t.Context(), "r", []Repeated{{Group: "a"}}, g.clock.Now().Add(time.Second)))
	g.expect("")
	g.at(67)
	g.expect("a=two, which is longer")

	g.occur(68, func(e *Entry) { e.Member.Event.Kind = group.Resolution }, "a")
	g.expect("")
	g.at(130)
	g.send(func(a *GroupState) { a.Resolves = true })
	g.expect("")
	if got := used(); got != empty {
		t.Errorf("%d bytes are used, want %d", got, empty)
	}

	g.occur(200, nil, "a")
	g.at(206)
	g.send(remembering("three"))
	g.expect("a=three")
	g.at(200 + int(GroupLife/time.Second))
	g.expect("a=three")
	g.at(201 + int(GroupLife/time.Second))
	g.occur(201+int(GroupLife/time.Second), nil, "b")
	g.expect("a=three (ended)")
	g.at(230 + int(GroupLife/time.Second))
	g.send(remembering("of b"))
	must(t, g.SetRepeated(t.Context(), "r", []Repeated{{Group: "a", Ended: true}, {Group: "b", Ended: true}}, g.clock.Now()))
	g.expect("")
	g.occur(300+int(GroupLife/time.Second), nil, "a")
	g.occur(900+int(GroupLife/time.Second), nil, "c")
	if got := used(); got != 3*empty {
		t.Errorf("%d bytes are used, want %d", got, 3*empty)
	}
}

func TestAGroupThatWaitsForItsEndIsSentAgain(t *testing.T) {
	g := newGrouped(t)
	quiet := func(e *Entry) { e.Member.Rule.Quiet = GroupLife }
	g.occur(0, quiet, "a")
	g.occur(0, func(e *Entry) {
		quiet(e)
		e.Key, e.Count, e.Member.Event.Kind = EndKey(e.Key), 0, group.End
	}, "a")
	g.at(6)
	g.send(remembering("one"))
	g.at(10 + int(GroupLife/time.Second))
	g.expect("a=one") // what happened since then is not read
	g.ReadUpTo(g.clock.Now())
	g.send(func(a *GroupState) { a.Resolves = true })
	g.expect("")
}

// A new leader does not know the messages that the former one sent.
func TestWhatAnotherLeaderSentIsSentAgain(t *testing.T) {
	served := func(e *Entry) { e.Member.Event.Message, e.Member.Repeats = group.Sent, true }
	for name, tc := range map[string]struct {
		happens func(g *grouped)
		want    string
	}{
		"an open group": {func(g *grouped) { g.occur(0, served, "a") }, "a=a: 1 of 1 since 0s, first false, resolved false"},
		"two occurrences": {func(g *grouped) {
			g.occur(0, served, "a")
			g.occur(100, served, "a")
		}, "a=a: 1 of 2 since 0s, first false, resolved false"},
		"a resolved group": {func(g *grouped) {
			g.occur(0, served, "a")
			g.occur(100, func(e *Entry) { served(e); e.Member.Event.Kind = group.Resolution }, "a")
		}, ""},
		"a group with an end that was sent": {func(g *grouped) {
			g.occur(0, served, "a")
			g.occur(0, func(e *Entry) { served(e); e.Member.Event.Kind = group.End }, "a")
		}, ""},
		"an occurrence that was not for the receiver": {func(g *grouped) {
			g.occur(0, func(e *Entry) { served(e); e.Payload = nil }, "a")
		}, ""},
		"a receiver that does not repeat": {func(g *grouped) {
			g.occur(0, func(e *Entry) { served(e); e.Member.Repeats = false }, "a")
		}, ""},
		"an occurrence that waits": {func(g *grouped) { g.occur(0, nil, "a") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			tc.happens(g)
			g.at(200)
			g.expect(tc.want)
		})
	}
}

func TestAMessageToRepeatIsRemovedWithItsGroup(t *testing.T) {
	for name, remove := range map[string]func(g *grouped) error{
		"the group ended long ago":   func(g *grouped) error { g.occur(7300, nil, "b"); return nil },
		"the receiver was deleted":   func(g *grouped) error { _, err := g.DropReceiver(g.t.Context(), "r"); return err },
		"another replica takes over": func(g *grouped) error { return g.Replay(g.t.Context(), Replay{Position: 7}) },
		"the outbox is reset":        func(g *grouped) error { return g.Reset(g.t.Context(), "cluster", 7) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			g.occur(0, nil, "a")
			g.at(6)
			g.send(remembering("one"))
			g.expect("a=one")
			must(t, remove(g))
			g.expect("")
			var rows int
			must(t, g.readers.QueryRow(`SELECT count(*) FROM content WHERE id NOT IN (SELECT content FROM held)`).Scan(&rows))
			if rows > 0 {
				t.Errorf("%d rows are left", rows)
			}
		})
	}
}

func TestMessagesToRepeatHaveALimitInBytes(t *testing.T) {
	const groups = 600
	var names []string
	for i := range groups {
		names = append(names, fmt.Sprint("group-", i))
	}
	large := []byte(strings.Repeat("x", 10_000))
	for name, fill := range map[string]func(g *grouped){
		"messages that are sent": func(g *grouped) {
			g.occur(0, nil, names...)
			g.at(6)
			for g.send(remembering(string(large))); g.Backlog("r").Entries > 0; {
				g.send(remembering(string(large)))
			}
		},
		"messages that another leader sent": func(g *grouped) {
			g.occur(0, func(e *Entry) { e.Member.Event.Message, e.Member.Repeats, e.Payload = group.Sent, true, large }, names...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &grouped{t: t, dir: t.TempDir(), clock: testingclock.NewFakePassiveClock(day)}
			g.Store = open(t, g.dir, WithClock(g.clock), WithMaxBytes(64<<20), WithComposer(
				func(_ Group, parts []Entry, _ int64) ([]byte, error) { return parts[0].Payload, nil }))
			const limit = 1 << 20 // a sixteenth of a quarter of the file
			fill(g)
			used := g.used(ledger.Groups, "")
			groupsOnly := int64(groups) * GroupBytes("r", "Alarm/shop/rollouts", "", "")
			if used-groupsOnly > limit/2 || used <= groupsOnly+int64(len(large)) { // Commit does not limit groups
				t.Errorf("%d bytes are used, half of %d can be, and %d by groups", used, limit, groupsOnly)
			}
			all, err := g.Repeated(t.Context(), "r", g.clock.Now(), groups, 1<<30)
			must(t, err)
			if len(all) == 0 || len(all) == groups {
				t.Errorf("%d of %d groups have a message", len(all), groups)
			}
			few, err := g.Repeated(t.Context(), "r", g.clock.Now(), groups, 3*len(large))
			must(t, err)
			one, err := g.Repeated(t.Context(), "r", g.clock.Now(), groups, 1)
			must(t, err)
			two, err := g.Repeated(t.Context(), "r", g.clock.Now(), 2, 1<<30)
			must(t, err)
			if len(few) != 3 || len(one) != 1 || len(two) != 2 {
				t.Errorf("got %d, %d and %d messages, want 3, 1 and 2", len(few), len(one), len(two))
			}
		})
	}
}

func TestCaughtUpAfterAReplayAndAllEarlierEvents(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Replay(t.Context(), Replay{Position: 5, Handled: progress.Offsets{Position: 10}}))
	if s.CaughtUp(day) {
		t.Error("before anything is read")
	}
	s.ReadUpTo(day)
	if s.CaughtUp(day) {
		t.Error("during the replay")
	}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 10}}))
	if !s.CaughtUp(day) || s.CaughtUp(day.Add(time.Second)) {
		t.Error("after the replay")
	}
}
