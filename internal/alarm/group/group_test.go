package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// day is when the tests begin. Their times are the seconds since then.
var day = time.Unix(1_800_000_000, 0).UTC()

func at(second int) time.Time { return day.Add(time.Duration(second) * time.Second) }

// rule is that of all tests, if they have no other.
var rule = Rule{Wait: 5 * time.Second, Interval: time.Minute}

func TestWhenTheMessageOfAnEventIsDue(t *testing.T) {
	acknowledged := &Acknowledgement{Token: 7, Until: at(0)}
	quiet := rule
	quiet.Quiet = 100 * time.Second
	lasts := rule
	lasts.Lasts = true
	opened := rule
	opened.Open = 24 * time.Hour
	problem, resolution := Event{At: at(0), Count: 1}, Event{Kind: OnlyResolution, At: at(10)}
	for name, tc := range map[string]struct {
		rule   Rule
		before []Event
		event  Event
		// due is 0 if the event has no part.
		due, total int
		want       Actions // without Hold
	}{
		"the first problem":                             {rule, nil, problem, 6, 1, Actions{Hasten: true}},
		"a problem joins the first message":             {rule, []Event{problem}, Event{At: at(5), Count: 2}, 6, 3, Actions{Hasten: true}},
		"the next problem waits for the interval":       {rule, []Event{problem}, Event{At: at(6), Count: 1}, 66, 2, Actions{}},
		"a problem after the interval waits again":      {rule, []Event{problem}, Event{At: at(100), Count: 1}, 106, 2, Actions{}},
		"the problem is resolved at once":               {rule, []Event{problem}, resolution, 11, 1, Actions{Hasten: true}},
		"the first message is never the end":            {rule, []Event{problem}, Event{Kind: Resolution, At: at(3)}, 7, 1, Actions{Hasten: true}},
		"the problem occurs again before it":            {rule, []Event{problem, {Kind: Resolution, At: at(3)}}, Event{At: at(4), Count: 1}, 6, 2, Actions{Hasten: true}},
		"the next group keeps the interval":             {rule, []Event{problem, resolution}, Event{At: at(20), Count: 1}, 66, 1, Actions{Hasten: true, Forget: true}},
		"nothing to resolve":                            {rule, nil, resolution, 0, 0, Actions{}},
		"it was resolved":                               {rule, []Event{problem, resolution}, Event{Kind: OnlyResolution, At: at(20)}, 0, 1, Actions{}},
		"a resolution without a problem":                {rule, nil, Event{Kind: Resolution, At: at(0), Count: 1}, 6, 1, Actions{Hasten: true}},
		"resolutions keep the interval":                 {rule, []Event{{Kind: Resolution, At: at(0), Count: 1}}, Event{Kind: Resolution, At: at(6), Count: 1}, 66, 1, Actions{Hasten: true, Forget: true}},
		"a problem that was sent":                       {rule, nil, Event{Message: Sent, At: at(0), Count: 1}, 0, 1, Actions{Remember: true}},
		"a resolution that was sent":                    {rule, []Event{problem}, Event{Kind: Resolution, Message: Sent, At: at(10)}, 0, 1, Actions{Forget: true}},
		"a problem that waits already":                  {rule, nil, Event{Message: Waits, At: at(0), Count: 1}, 0, 1, Actions{}},
		"a problem that is suppressed":                  {rule, []Event{problem}, Event{Message: Suppressed, At: at(7), Count: 3}, 0, 4, Actions{}},
		"the first that is not suppressed":              {rule, []Event{{Message: Suppressed, At: at(0), Count: 3}}, Event{At: at(7), Count: 1}, 13, 4, Actions{Hasten: true}},
		"nothing resolves what was suppressed":          {rule, []Event{{Message: Suppressed, At: at(0), Count: 3}}, resolution, 0, 3, Actions{}},
		"a new group after an hour":                     {rule, []Event{problem}, Event{At: at(3601), Count: 1}, 3607, 1, Actions{Hasten: true, Forget: true}},
		"a group that is open for a day":                {opened, []Event{problem}, Event{At: at(24 * 3600), Count: 1}, 24*3600 + 6, 2, Actions{}},
		"a state lasts longer":                          {lasts, []Event{problem}, Event{At: at(9_000), Count: 1}, 9_006, 2, Actions{}},
		"the end waits until it was quiet":              {quiet, []Event{problem}, Event{Kind: End, Key: "end", At: at(0)}, 101, 1, Actions{}},
		"the end comes after the last message":          {quiet, []Event{problem, {At: at(7), Count: 1}, {At: at(100), Count: 1}}, Event{Kind: End, Key: "end", At: at(100)}, 201, 3, Actions{}},
		"something happens before the end":              {quiet, []Event{problem, {Kind: End, Key: "end", At: at(0)}}, Event{At: at(50), Count: 1}, 66, 2, Actions{DropEnd: "end"}},
		"something happens after the end":               {quiet, []Event{problem, {Kind: End, Key: "end", At: at(0)}}, Event{At: at(101), Count: 1}, 107, 1, Actions{Hasten: true, Forget: true}},
		"the end was sent":                              {quiet, []Event{problem}, Event{Kind: End, Message: Sent, Key: "end", At: at(0)}, 0, 1, Actions{Forget: true}},
		"the end waits already":                         {quiet, []Event{problem}, Event{Kind: End, Message: Waits, Key: "end", At: at(0)}, 0, 1, Actions{}},
		"a resolved group has no end":                   {quiet, []Event{problem, resolution}, Event{Kind: End, Key: "end", At: at(10)}, 0, 1, Actions{}},
		"an acknowledgement with a notice":              {rule, []Event{problem}, Event{Kind: Notice, At: at(50), Acknowledgement: acknowledged}, 50, 1, Actions{DropWaiting: true}},
		"an acknowledgement without one":                {rule, []Event{problem}, Event{Kind: Notice, Message: Suppressed, At: at(50), Acknowledgement: acknowledged}, 0, 1, Actions{DropWaiting: true}},
		"an acknowledgement that is in force":           {rule, []Event{problem, {Kind: Notice, At: at(50), Acknowledgement: acknowledged}}, Event{Kind: Notice, At: at(60), Acknowledgement: acknowledged}, 0, 1, Actions{}},
		"an acknowledgement of an earlier group":        {rule, []Event{{At: at(1), Count: 1}}, Event{Kind: Notice, At: at(50), Acknowledgement: acknowledged}, 0, 1, Actions{}},
		"an acknowledgement of a resolved group":        {rule, []Event{problem, resolution}, Event{Kind: Notice, At: at(50), Acknowledgement: acknowledged}, 0, 1, Actions{}},
		"a problem of an acknowledged group":            {rule, []Event{problem}, Event{At: at(50), Count: 1, Acknowledgement: acknowledged}, 0, 2, Actions{Silenced: true}},
		"a problem of it that was sent":                 {rule, []Event{problem}, Event{Message: Sent, At: at(50), Count: 1, Acknowledgement: acknowledged}, 0, 2, Actions{Remember: true}},
		"the resolution of an acknowledged group":       {rule, []Event{problem}, Event{Kind: Resolution, At: at(50), Acknowledgement: acknowledged}, 51, 1, Actions{Hasten: true}},
		"a resolution of it that did not last":          {rule, []Event{problem, resolution}, Event{At: at(10), Count: 1, Acknowledgement: acknowledged}, 0, 2, Actions{Silenced: true, DropResolutions: true}},
		"a problem of the group after the acknowledged": {rule, []Event{problem, resolution}, Event{At: at(20), Count: 1, Acknowledgement: acknowledged}, 66, 1, Actions{Hasten: true, Forget: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, e := range tc.before {
				s, _ = Next(s, tc.rule, e)
			}
			s, got := Next(s, tc.rule, tc.event)
			due := 0
			if got.Hold != nil {
				due = int(got.Hold.Due.Sub(day).Seconds())
			}
			if due != tc.due || s.Total != int64(tc.total) {
				t.Errorf("due at %d with a total of %d, want %d and %d", due, s.Total, tc.due, tc.total)
			}
			got.Hold = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatOneMessageContains(t *testing.T) {
	first, problem := Part{First: true, Count: 1}, Part{Count: 1}
	resolution, notice := Part{Resolves: true}, Part{}
	for name, tc := range map[string]struct {
		due      []Part
		last     *Part
		accepted int
		want     int
		until    time.Time
	}{
		"nothing is due":                       {},
		"the first message":                    {due: []Part{first}, want: 1},
		"all that is late":                     {due: []Part{first, problem, problem}, want: 3},
		"until the resolution":                 {due: []Part{problem, resolution, first}, want: 2},
		"the resolution after the first":       {due: []Part{first, resolution}, want: 1},
		"until the next group":                 {due: []Part{problem, first}, want: 1},
		"a notice alone":                       {due: []Part{notice, problem}, want: 1},
		"until a notice":                       {due: []Part{problem, notice}, want: 1},
		"while the last is not sent":           {due: []Part{problem}, last: &Part{}},
		"a resolution while it is not sent":    {due: []Part{problem, resolution}, last: &Part{}, want: 2},
		"a notice while it is not sent":        {due: []Part{notice}, last: &Part{}, want: 1},
		"while a resolution is not sent":       {due: []Part{first}, last: &Part{Resolves: true}, want: 1},
		"before the interval is over":          {due: []Part{problem}, accepted: 50, until: at(110)},
		"a resolution before it is over":       {due: []Part{resolution}, accepted: 50, want: 1},
		"after the interval is over":           {due: []Part{problem}, accepted: 40, want: 1},
		"while a resolution is not sent in it": {due: []Part{first}, last: &Part{Resolves: true}, accepted: 50, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Interval: rule.Interval}
			if tc.accepted > 0 {
				s.Accepted = at(tc.accepted)
			}
			n, until := s.Message(tc.due, tc.last, at(100))
			if n != tc.want || !until.Equal(tc.until) {
				t.Errorf("%d parts, or none until %v, want %d and %v", n, until, tc.want, tc.until)
			}
		})
	}
}

func TestOnlyAResolutionForgetsWhenAMessageWasAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		resolves bool
		at, want time.Time
	}{
		"accepted":             {false, at(10), at(10)},
		"dropped":              {false, time.Time{}, at(1)},
		"a resolution":         {true, at(10), time.Time{}},
		"a dropped resolution": {true, time.Time{}, time.Time{}},
	} {
		s := State{Accepted: at(1)}
		if s.Accept(tc.resolves, tc.at); !s.Accepted.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", name, s.Accepted, tc.want)
		}
	}
}

func TestAGroupIsSetBackByWholeSeconds(t *testing.T) {
	s := State{Since: at(90), Newest: at(100), Due: at(106), First: at(106), Paced: at(106), Over: at(3700)}
	if by := s.SetBack(at(40).Add(time.Millisecond)); by != 59*time.Second {
		t.Errorf("by %v", by)
	}
	want := State{Since: at(90), Newest: at(41), Due: at(47), First: at(47), Paced: at(47), Over: at(3700)}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

// waiting is a part that waits in a group.
type waiting struct {
	Part
	key   string
	event Event
	ends  bool
	since time.Time
}

// sent is a message.
type sent struct {
	at    time.Time
	parts []waiting
}

func (m *sent) last() waiting { return m.parts[len(m.parts)-1] }

// distance returns the time since a message about a problem. The first message of a group keeps the
// interval since that was due, even if it was late.
func (m *sent) distance(problem *sent, begins bool) time.Duration {
	if !begins {
		return m.at.Sub(problem.at)
	}
	var due time.Time
	for _, w := range problem.parts {
		if w.Count > 0 {
			due = w.Due
		}
	}
	return m.parts[0].Due.Sub(due)
}

// simulation is a group, what waits in it, and the receiver, which accepts each message at once.
type simulation struct {
	t        *testing.T
	rule     Rule
	state    State
	waits    []waiting
	messages []sent
	held     map[string]bool // by Event.Key, true for ends
}

func (sim *simulation) event(e Event) {
	next, do := Next(sim.state, sim.rule, e)
	if do.Hasten {
		for i := range sim.waits {
			if w := &sim.waits[i]; !w.ends && w.Due.After(do.Hold.Due) {
				w.Due = do.Hold.Due
			}
		}
	}
	sim.waits = slices.DeleteFunc(sim.waits, func(w waiting) bool {
		return w.ends && w.key == do.DropEnd || !w.ends && w.since.Equal(next.Since) && (do.DropWaiting || do.DropResolutions && w.Resolves)
	})
	if do.Hold != nil {
		sim.held[e.Key] = e.Kind == End
		sim.waits = append(sim.waits, waiting{*do.Hold, e.Key, e, e.Kind == End, next.Since})
	}
	slices.SortStableFunc(sim.waits, func(a, b waiting) int { return a.Due.Compare(b.Due) })
	sim.state = next
}

// parts returns what waits and is due, by due time, and how much waits of each.
func (sim *simulation) parts(now time.Time) (parts []Part, counts []int) {
	for _, w := range sim.waits {
		switch n := len(parts); {
		case w.Due.After(now):
		case n > 0 && parts[n-1].Due.Equal(w.Due):
			parts[n-1].First = parts[n-1].First || w.First
			parts[n-1].Resolves = w.Resolves
			parts[n-1].Count += w.Count
			counts[n-1]++
		default:
			parts, counts = append(parts, w.Part), append(counts, 1)
		}
	}
	return parts, counts
}

// release makes all messages that can be made, and the receiver accepts them.
func (sim *simulation) release(now time.Time) {
	for {
		parts, counts := sim.parts(now)
		n, _ := sim.state.Message(parts, nil, now)
		if n == 0 {
			return
		}
		all := 0
		for _, count := range counts[:n] {
			all += count
		}
		m := sent{now, slices.Clone(sim.waits[:all])}
		sim.waits = slices.Delete(sim.waits, 0, all)
		ends := slices.ContainsFunc(m.parts, func(w waiting) bool { return w.key == sim.state.Ending })
		sim.state.Release(parts[n-1].Due, ends)
		sim.state.Accept(parts[n-1].Resolves, now)
		sim.messages = append(sim.messages, m)
	}
}

// randomEvents returns events of a group, in order.
func randomEvents(random *rand.Rand, r Rule) (all []Event) {
	second, longest := 0, 5+random.IntN(90)
	for i := range 40 {
		second += random.IntN(longest)
		if random.IntN(20) == 0 {
			second += int(alarm.GroupLife / time.Second)
		}
		e := Event{At: at(second), Count: 1, Key: fmt.Sprint(i)}
		switch random.IntN(8) {
		case 0, 1:
			e.Kind, e.Count = OnlyResolution, 0
		case 2:
			e.Message = Suppressed
		}
		all = append(all, e)
		if r.Quiet > 0 && e.Kind == Problem && e.Message == New {
			all = append(all, Event{Kind: End, At: e.At, Key: e.Key + " end"})
		}
	}
	return all
}

// run lets the events happen, one second after the other, and releases messages.
func run(t *testing.T, r Rule, events []Event, each func(sim *simulation)) *simulation {
	sim := &simulation{t: t, rule: r, held: map[string]bool{}}
	for second := 0; len(events) > 0 || len(sim.waits) > 0; second++ {
		sim.release(at(second))
		for len(events) > 0 && !events[0].At.After(at(second)) {
			sim.event(events[0])
			events = events[1:]
			each(sim)
		}
		if len(events) > 0 && len(sim.waits) == 0 {
			second = max(second, int(events[0].At.Sub(day).Seconds())-1)
		}
	}
	return sim
}

func randomRule(random *rand.Rand) Rule {
	r := Rule{Wait: time.Duration(random.IntN(8)) * time.Second, Interval: time.Duration(random.IntN(100)) * time.Second}
	if random.IntN(2) == 0 {
		r.Quiet = time.Duration(10+random.IntN(200)) * time.Second
	}
	return r
}

func TestMessagesOfRandomGroups(t *testing.T) {
	for seed := range uint64(2_000) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := randomRule(random)
		sim := run(t, r, randomEvents(random, r), func(*simulation) {})
		sim.check(seed)
		if t.Failed() {
			return
		}
	}
}

// check reports messages that are wrong.
func (sim *simulation) check(seed uint64) {
	sim.t.Helper()
	inMessages := map[string]int{}
	var before, problem *sent // the message before, and the last one with a problem
	for i := range sim.messages {
		m := &sim.messages[i]
		isProblem := false
		for _, w := range m.parts {
			inMessages[w.key]++
			isProblem = isProblem || w.Count > 0
			if w.Due.After(m.at) {
				sim.t.Errorf("seed %d: message %d contains %s before that is due", seed, i, w.key)
			}
		}
		last := m.last()
		begins := before == nil || before.last().Resolves || !before.last().since.Equal(last.since)
		if m.parts[0].First != begins || begins && last.Resolves {
			sim.t.Errorf("seed %d: message %d is the first: %t, want %t; it resolves the group: %t", seed, i, m.parts[0].First, begins, last.Resolves)
		}
		if problem != nil && !last.Resolves && m.distance(problem, begins) < sim.rule.Interval {
			sim.t.Errorf("seed %d: message %d comes %v after another one, want %v", seed, i, m.distance(problem, begins), sim.rule.Interval)
		}
		soonest := last.event.At
		if before != nil && before.at.After(soonest) {
			soonest = before.at
		}
		if last.Resolves && !last.ends && m.at.After(soonest.Add(time.Second)) {
			sim.t.Errorf("seed %d: message %d resolves the group %v after that was possible", seed, i, m.at.Sub(soonest))
		}
		if before = m; isProblem {
			problem = m
		}
	}
	for key, ends := range sim.held {
		if n := inMessages[key]; n > 1 || n == 0 && !ends {
			sim.t.Errorf("seed %d: %s is in %d messages", seed, key, n)
		}
	}
}

// Another leader sent everything. The state is the same, except when a message was accepted.
func TestAReplayOfWhatWasSentComesToTheSameState(t *testing.T) {
	for seed := range uint64(2_000) {
		random := rand.New(rand.NewPCG(seed, 2))
		r := randomRule(random)
		r.Quiet = 0 // what became of an end says the checkpoint
		events := randomEvents(random, r)
		var states []State
		run(t, r, events, func(sim *simulation) { states = append(states, sim.state) })
		var again State
		for i, e := range events {
			if e.Message == New {
				e.Message = Sent
			}
			again, _ = Next(again, r, e)
			got, want := again, states[i]
			got.Released, want.Released, want.Accepted = time.Time{}, time.Time{}, time.Time{}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: after %d events: %s", seed, i+1, diff)
			}
		}
	}
}
