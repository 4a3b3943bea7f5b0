package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// routed is a pipeline with one alarm. It chooses among the receivers a, b and other by the label
// team, and sends everything to all.
type routed struct {
	*Pipeline
	*unreadables

	t *testing.T
	// teams are the labels of namespaces. Without an entry, a namespace does not exist. Those in
	// unread cannot be read.
	teams  map[string]string
	unread map[string]bool
	// positions counts the occurrences, and errs are what the alarm reported.
	positions uint64
	errs      []string
}

func (r *routed) Labels(name string) (map[string]string, bool, alarm.Unread) {
	if r.unread[name] {
		return nil, false, "the API server does not answer"
	}
	team, exists := r.teams[name]
	if team == "" {
		return nil, exists, ""
	}
	return map[string]string{"team": team}, true, ""
}

// Evaluated implements Reporter.
func (r *routed) Evaluated(_ kube.Key, _ match.Outcome, err error, _ int64) {
	if _, ok := errors.AsType[*match.NoReceiverError](err); ok {
		r.errs = append(r.errs, err.Error())
	}
}

func newRouted(t *testing.T, spec v1alpha1.AlarmSpec, objects bool) *routed {
	t.Helper()
	r := &routed{t: t, unreadables: &unreadables{}, teams: map[string]string{}, unread: map[string]bool{}}
	r.Pipeline = newParkingLot(t, r.unreadables, nil)
	compiler, err := match.NewCompiler()
	must(t, err)
	route := match.NewRoute("team", "other")
	for _, name := range []string{"a", "b"} {
		if !route.Add(name, []string{name}, objects) {
			t.Fatal("a limit is reached")
		}
	}
	spec.Match = everything.Match
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "routed"}, UID: "routed", Spec: spec, Receivers: []string{"all"}, Route: route,
	})
	must(t, err)
	r.Alarms.Set("routed", "1", compiled)
	r.matcher.namespaces, r.Pipeline.Namespaces, r.Reporter = r, r, r
	return r
}

// happen handles one occurrence about an object NAMESPACE/NAME with a reason.
func (r *routed) happen(object, reason string) {
	r.t.Helper()
	occ := happened(object)[0]
	r.positions++
	occ.Position, occ.ObservedAt = r.positions, r.Clock.Now()
	occ.Event.UID, occ.Event.Reason = fmt.Sprint("event-", r.positions), reason
	r.handleAll(r.t, []alarm.Occurrence{occ})
}

// waiting returns the number of occurrences that wait for a receiver, in groups or as messages.
func waiting(t *testing.T, s *outbox.Store, receiver string) int64 {
	t.Helper()
	keys := map[string]bool{}
	pending, err := s.Pending(t.Context(), outbox.Query{Receiver: receiver, Lane: outbox.MainLane, Limit: 1_000})
	must(t, err)
	for i := range pending {
		keys[pending[i].Key] = true
	}
	if len(s.Parking.Namespaces()) == 0 { // parked occurrences are listed too
		listed, err := s.WaitingKeys(t.Context(), nil, nil)
		must(t, err)
		for key := range listed[""][receiver] {
			keys[key] = true
		}
	}
	return int64(len(keys))
}

// want checks how many occurrences wait for a, b and other.
func (r *routed) want(a, b, other int64) {
	r.t.Helper()
	got := []int64{waiting(r.t, r.Outbox, "a"), waiting(r.t, r.Outbox, "b"), waiting(r.t, r.Outbox, "other")}
	if diff := cmp.Diff([]int64{a, b, other}, got); diff != "" {
		r.t.Errorf("for a, b and other: %s", diff)
	}
}

func TestTheLabelOfTheNamespaceChoosesReceivers(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{}, false)
	r.teams = map[string]string{"shop": "a", "bank": "b", "none": "", "typo": "c"}
	for _, object := range []string{"shop/web", "shop/db", "bank/web", "none/web", "typo/web", "deleted/web", "/node"} {
		r.happen(object, "")
	}
	r.want(2, 1, 4)
	if got := waiting(r.t, r.Outbox, "all"); got != 7 {
		t.Errorf("a receiver of spec.receivers got %d occurrences, want all 7", got)
	}
	want := "namespace typo has the label team=c, which chooses no receiver: correct the label"
	if len(r.errs) != 1 || !strings.HasPrefix(r.errs[0], want) {
		t.Errorf("reported %q", r.errs)
	}
}

// A tenant can write Events that regard objects of other namespaces.
func TestAnEventAboutAnotherNamespaceGoesToTheDefaultReceiver(t *testing.T) {
	for _, objects := range []bool{false, true} {
		r := newRouted(t, v1alpha1.AlarmSpec{}, objects)
		r.teams = map[string]string{"shop": "a", "bank": "b"}
		forged := happened("shop/web")
		forged[0].Event.Regarding.Namespace = "bank"
		r.handleAll(t, forged)
		r.want(0, 0, 1)
	}
}

func TestAnOccurrenceWaitsUntilTheLabelIsRead(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{}, false)
	r.teams, r.unread = map[string]string{"shop": "a"}, map[string]bool{"shop": true}
	r.happen("shop/web", "")
	r.want(0, 0, 0)
	clear(r.unread)
	r.retryOnce(t)
	r.want(1, 0, 0)
}

var (
	groupOfAnObject = &v1alpha1.AlarmGroup{By: []string{"regarding.namespace", "regarding.name"}, WaitSeconds: new(int32)}
	whenFixed       = &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Fixed"}}}}
)

// The label chose the receiver a for the begin.
func TestAGroupEndsAtTheReceiversThatHaveIt(t *testing.T) {
	spec := v1alpha1.AlarmSpec{Group: groupOfAnObject, Resolve: whenFixed}
	for name, tc := range map[string]struct {
		change      func(r *routed)
		b, other    int64 // occurrences after the change
		bEnd, otEnd int64 // with the end
	}{
		"the label changes":        {func(r *routed) { r.teams["shop"] = "b" }, 1, 0, 2, 0},
		"the label is removed":     {func(r *routed) { r.teams["shop"] = "" }, 0, 1, 0, 2},
		"the namespace is deleted": {func(r *routed) { delete(r.teams, "shop") }, 0, 1, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouted(t, spec, false)
			r.teams["shop"] = "a"
			r.happen("shop/web", "Broken")
			r.want(1, 0, 0)
			tc.change(r)
			r.happen("shop/web", "Broken")
			r.want(1, tc.b, tc.other)
			r.happen("shop/web", "Fixed")
			r.want(2, tc.bEnd, tc.otEnd)
			r.Clock.(*clocktesting.FakeClock).Step(time.Minute)
			r.happen("shop/web", "Fixed") // of nothing
			r.want(2, tc.bEnd, tc.otEnd)
		})
	}
}

// A tenant can write such Events.
func TestAnEventAboutAnotherNamespaceDoesNotEndAGroupOfAChosenReceiver(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{Group: groupOfAnObject, Resolve: whenFixed}, false)
	r.teams = map[string]string{"shop": "a", "evil": "b"}
	r.happen("shop/web", "Broken")
	forged := happened("evil/web")
	forged[0].Position, forged[0].Event.Reason, forged[0].Event.Regarding.Namespace, forged[0].ObservedAt = 9, "Fixed", "shop", r.Clock.Now()
	r.handleAll(t, forged)
	r.want(1, 0, 0)
}

// Otherwise, a team would get the Events of others.
func TestAGroupOfSeveralNamespacesHasAMessageForEachReceiver(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{Group: &v1alpha1.AlarmGroup{By: []string{"reason"}, WaitSeconds: new(int32)}}, false)
	r.teams = map[string]string{"shop": "a", "bank": "b"}
	for _, object := range []string{"shop/web", "bank/web", "/node", "shop/db"} {
		r.happen(object, "Broken")
	}
	r.want(2, 1, 1)
}

// Each object has the label team=NAME.
func TestTheLabelOfAnObjectChoosesReceiversThatAllowIt(t *testing.T) {
	for objects, want := range map[bool][3]int64{true: {2, 2, 0}, false: {0, 3, 1}} {
		r := newRouted(t, v1alpha1.AlarmSpec{}, objects)
		r.teams["bank"] = "b"
		r.matcher.enricher = &simulation{reliable: true, reads: map[string]int{}}
		for _, object := range []string{"bank/a", "bank/b", "bank/c", "/a"} {
			r.happen(object, "")
		}
		r.want(want[0], want[1], want[2])
	}
}

func TestAReceiverThatIsCreatedLaterGetsNoEarlierOccurrence(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{}, false)
	r.teams["shop"] = "a"
	r.matcher.receiver = func(key string) (Receiver, bool) {
		if key == "a" {
			return Receiver{ID: key, Since: r.Clock.Now().Add(time.Second)}, true
		}
		return Receiver{ID: key}, true
	}
	r.happen("shop/web", "")
	r.want(0, 0, 1)
}

func TestTheDefaultGetsWhatIsForAReceiverThatDoesNotExist(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{}, false)
	r.teams["shop"] = "a"
	r.matcher.receiver = func(key string) (Receiver, bool) { return Receiver{ID: key}, key != "a" }
	r.happen("shop/web", "")
	r.want(0, 0, 1)
}

func TestWhatWaitsForAnObjectFollowsTheLabelAtTheEnd(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{}, true)
	r.teams["shop"] = "a"
	reader := &simulation{reads: map[string]int{}}
	r.matcher.enricher = reader
	for range 20 { // most reads fail
		r.happen("shop/web", "")
	}
	if r.Outbox.Size().Parked == 0 {
		t.Fatal("nothing waits")
	}
	sent := waiting(r.t, r.Outbox, "a")
	r.teams["shop"] = "b"
	reader.reliable = true
	r.retryOnce(t)
	r.want(sent, 20-sent, 0)
}

// The receiver can be chosen only after the occurrence was set aside.
func TestWhatWaitsForALabelReachesAReceiverThatOptsInLater(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{}, false)
	r.teams["shop"], r.unread = "c", map[string]bool{"shop": true}
	r.happen("shop/web", "")
	route := match.NewRoute("team", "other")
	route.Add("c", []string{"c"}, false)
	compiled, _ := r.Alarms.withUID("routed")
	r.Alarms.Set("routed", "2", compiled.WithRoute(route))
	clear(r.unread)
	r.retryOnce(t)
	r.want(0, 0, 0)
	if got := waiting(r.t, r.Outbox, "c"); got != 1 {
		t.Errorf("the receiver got %d occurrences, want 1", got)
	}
}

// The disk is lost. The checkpoint says that a is behind, and that b and other are not.
func TestAReplayFollowsTheLabelAsItIsThen(t *testing.T) {
	for team, want := range map[string][3]int64{"a": {1, 1, 0}, "b": {0, 1, 0}} { // what waited for a is lost
		r := newRouted(t, v1alpha1.AlarmSpec{}, false)
		r.teams = map[string]string{"shop": team, "bank": "b"}
		occurrences := happened("shop/web", "shop/db", "bank/web")
		waiting := progress.Waiting{"b": {alarm.Key("b", "routed", &occurrences[2]): 3}}
		must(t, r.Outbox.Replay(t.Context(), outbox.Replay{Handled: progress.Offsets{Position: 3, Behind: map[string]uint64{"a": 1}, Waiting: waiting}}))
		r.handleAll(t, occurrences)
		r.want(want[0], want[1], want[2])
	}
	t.Run("a group", func(t *testing.T) {
		for team, want := range map[string][3]int64{"a": {1, 0, 0}, "b": {0, 1, 0}} {
			r := newRouted(t, v1alpha1.AlarmSpec{Group: groupOfAnObject, Resolve: whenFixed}, false)
			must(t, r.Outbox.Replay(t.Context(), outbox.Replay{Handled: progress.Offsets{Position: 1}}))
			r.teams["shop"] = team
			r.happen("shop/web", "Broken") // a has it
			r.want(0, 0, 0)
			r.happen("shop/web", "Fixed")
			r.want(want[0], want[1], want[2])
		}
	})
}

func TestAStateEndsAtTheReceiverThatGotItsBegin(t *testing.T) {
	for name, next := range map[string]func(w *stateWorld){
		"the same process":   func(*stateWorld) {},
		"after a restart":    (*stateWorld).restart,
		"with an empty disk": (*stateWorld).failover,
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.route = match.NewRoute("team", "other")
			w.route.Add("a", []string{"a"}, false)
			w.route.Add("b", []string{"b"}, false)
			w.team, w.receiver = "a", "a"
			w.setAlarm("2")
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
			w.team = "b"
			next(w)
			w.after(time.Second)
			w.set("web", "Good")
			w.want("good web")
			w.receiver = "b"
			w.want()
			w.set("web", "Bad")
			w.after(stateWait)
			w.want("bad web")
		})
	}
}
