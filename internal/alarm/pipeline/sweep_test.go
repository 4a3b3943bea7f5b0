package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// costlyIf returns an expression that is costly if another one is true.
func costlyIf(expression string) string {
	return expression + " && " + strings.ReplaceAll(costly, "event.count > 0", "[1,2,3,4,5,6,7].map(d, d)[0] > 0")
}

// overBudgetReporter counts the reports that an alarm is over its budget.
type overBudgetReporter struct {
	noop
	late, full int
}

func (r *overBudgetReporter) Evaluated(_ kube.Key, _ match.Outcome, err error, _ int64) {
	if e, ok := errors.AsType[*match.OverBudgetError](err); ok && e.States {
		r.full++
	} else if ok {
		r.late++
	}
}

// knownCluster is a cluster with namespaces of one team.
type knownCluster struct {
	noop
	unread alarm.Unread
	team   string
	nodes  int64
}

func (c *knownCluster) Labels(string) (map[string]string, bool, alarm.Unread) {
	return map[string]string{"team": c.team}, true, c.unread
}

func (c *knownCluster) Context(context.Context, *alarm.Event) alarm.Context {
	return alarm.Context{Cluster: alarm.Cluster{Nodes: c.nodes}}
}

// setCostly makes the alarm costly, and adds so many objects in a phase.
func (w *stateWorld) setCostly(expression string, n int, phase string) {
	w.t.Helper()
	w.spec.States[0].Expression, w.spec.States[0].ForSeconds = costlyIf(expression), 3600
	w.setAlarm("2")
	for i := range n {
		w.objects[fmt.Sprintf("web-%03d", i)] = phase
	}
	w.list()
}

// rows returns how many states are stored.
func (w *stateWorld) rows() int {
	w.t.Helper()
	rows, err := w.store.States.Page(w.t.Context(), time.Time{}, time.Time{}, 0, 100_000)
	must(w.t, err)
	return len(rows)
}

func (w *stateWorld) wantRows(want int, when string) {
	w.t.Helper()
	if got := w.rows(); got != want {
		w.t.Fatalf("%s, %d states are stored, want %d", when, got, want)
	}
}

// An expensive state delays the evaluation of many objects, but skips none of them.
func TestEveryStateBeginsAndEndsWhateverThatCosts(t *testing.T) {
	w := newStateWorld(t)
	w.setCostly(`object.status.phase != "Good"`, 100, "Bad")
	if n := w.rows(); n == 100 {
		t.Fatalf("%d cost only %d: the test proves nothing", n, w.costs("shop"))
	}
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(100, "after a minute")
	w.spec.States[0].Expression = costlyIf(`object.status.phase in ["Bad"]`)
	w.setAlarm("3") // all states end, and others begin
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(100, "after an edit")
	w.spec.States[0].Expression = costlyIf(`object.status.phase == "Good"`)
	w.setAlarm("4")
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(0, "at the end")
	w.stop()
}

// Objects that change all the time must not keep the others from being evaluated.
func TestABusyNamespaceIsEvaluatedToItsEnd(t *testing.T) {
	w := newStateWorld(t)
	w.setCostly(`object.status.phase != "Good"`, 100, "Bad")
	for i := range 160 {
		for j := range 20 {
			w.objects[fmt.Sprintf("web-%03d", j)] += "!"
		}
		w.list()
		w.passing.Step(250 * time.Millisecond)
		if i%4 == 0 {
			_, err := w.pipeline.sweep(t.Context())
			must(t, err)
		}
	}
	w.wantRows(100, "after 40 seconds")
	w.stop()
}

// An object can change after its turn, before the others had theirs.
func TestAnObjectThatChangesWhileOthersAreEvaluatedIsEvaluatedAgain(t *testing.T) {
	w := newStateWorld(t)
	w.setCostly(`object.status.phase != "Good"`, 100, "Bad")
	w.after(3 * time.Second)
	w.after(3 * time.Second)
	if n := w.rows(); n < 10 || n == 100 {
		t.Fatalf("%d states are stored: the test proves nothing", n)
	}
	w.set("web-000", "Good")
	for range 15 {
		w.after(3 * time.Second)
	}
	w.wantRows(99, "after its end")
	w.stop()
}

// The present time is read for the last object too.
func TestASweepReachesTheLastObject(t *testing.T) {
	w := newStateWorld(t)
	w.setCostly(`object.status.phase == "Aging" && now > timestamp("2027-01-15T09:00:00Z")`, 80, "Aging")
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(0, "before the time")
	w.passing.SetTime(time.Date(2027, 1, 15, 9, 0, 1, 0, time.UTC))
	for range 9 {
		w.after(3 * time.Second)
	}
	w.wantRows(80, "after the time")
	w.stop()
}

// addResource adds a state of another resource, whose present objects are the first ones of those.
func (w *stateWorld) addResource(resource string, n int) {
	w.t.Helper()
	second := w.spec.States[0]
	second.Resource.Resource = resource
	w.spec.States = append(w.spec.States, second)
	w.setAlarm("3")
	phase := w.objects["web-000"]
	w.objects, w.resource = map[string]string{}, resource
	for i := range n {
		w.objects[fmt.Sprintf("web-%03d", i)] = phase
	}
	w.list()
}

// afterBoth is after, with a bookmark of Deployments too.
func (w *stateWorld) afterBoth(d time.Duration) {
	w.t.Helper()
	second := w.resource
	w.resource = "deployments"
	w.batch(nil)
	w.resource = second
	w.after(d)
}

// The streams of a namespace share its budget.
func TestStatesOfTwoResourcesAreEvaluatedInTurn(t *testing.T) {
	w := newStateWorld(t)
	w.setCostly(`object.status.phase == "Aging" && now > timestamp("2027-01-15T09:00:00Z")`, 260, "Aging")
	w.addResource("statefulsets", 60)
	w.passing.SetTime(time.Date(2027, 1, 15, 9, 0, 1, 0, time.UTC))
	for range 9 {
		w.afterBoth(3 * time.Second)
	}
	rows, err := w.store.States.Of(t.Context(), "statefulsets.apps", "u-web-059")
	must(t, err)
	if n := w.rows(); len(rows) == 0 || n == 320 {
		t.Errorf("of the last object of the second resource, %d states are stored, and %d of all", len(rows), n)
	}
	w.stop()
}

// One object can have more states than the budget allows.
func TestEveryStateOfAnObjectIsEvaluated(t *testing.T) {
	w := newStateWorld(t)
	for i := range 60 {
		w.addAlarm(kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: fmt.Sprint(i)}, costlyIf(fmt.Sprintf(`object.status.phase == "Bad" && %d > 0`, i+1)))
	}
	w.set("web", "Bad")
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(61, "after a minute")
	w.stop()
}

// A large object uses the budget before an expression is evaluated.
func TestStatesOfManyLargeObjectsAreEvaluated(t *testing.T) {
	w := newStateWorld(t)
	w.spec.States[0].Expression = `object.status.phase != "Good"`
	w.setAlarm("2")
	for i := range 60 {
		w.objects[fmt.Sprintf("web-%03d", i)] = strings.Repeat("x", 1<<20)
	}
	w.list()
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(60, "after a minute")
	w.stop()
}

// A report whose time has come must not be late because of others.
func TestAReportOverTheBudgetIsSentLater(t *testing.T) {
	w := newStateWorld(t)
	w.spec.States[0].Expression = costlyIf(`object.status.phase == "Bad"`)
	w.setAlarm("2")
	for i := range 100 {
		w.set(fmt.Sprintf("web-%03d", i), "Bad")
		w.passing.Step(time.Second)
	}
	w.after(10 * time.Minute)
	for range 8 { // less than stateTick
		w.after(3 * time.Second)
	}
	if got := w.receive(); len(got) != 100 {
		t.Errorf("%d of 100 states are reported", len(got))
	}
}

func TestStatesThatAreEvaluatedLateAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		objects int
		want    bool
	}{
		"a minute": {500, true}, "less": {80, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := newStateWorld(t), &overBudgetReporter{}
			w.pipeline.Reporter = r
			w.setCostly(`object.status.phase != "Good"`, tc.objects, "Bad")
			for range 60 {
				w.after(3 * time.Second)
			}
			w.wantRows(tc.objects, "in the end")
			if (r.late > 0) != tc.want {
				t.Errorf("%d reports", r.late)
			}
			w.stop()
		})
	}
}

// States with the present time are due again before the others were evaluated.
func TestAPassDoesNotRepeatAllStates(t *testing.T) {
	w := newStateWorld(t)
	aging := w.spec.States[0]
	w.setCostly(`object.status.phase != "Good"`, 150, "Bad")
	aging.Expression = `object.status.phase == "Good" && now > timestamp("2027-01-15T09:00:00Z")`
	w.spec.States = append(w.spec.States, aging)
	w.setAlarm("3")
	for range 20 {
		w.after(3 * time.Second)
	}
	w.wantRows(150, "after a minute")
	if n := len(w.pipeline.states.todo[deployments].tenants); n > 0 {
		t.Errorf("%d passes are not complete", n)
	}
	w.stop()
}

// Each pass takes less than a minute. It was due half a minute before it began.
func TestStatesWithTheTimeThatAreAlwaysLateAreReported(t *testing.T) {
	w, r := newStateWorld(t), &overBudgetReporter{}
	w.pipeline.Reporter = r
	w.setCostly(`object.status.phase == "Aging" && now > timestamp("2027-01-01T09:00:00Z")`, 250, "Aging")
	for range 35 {
		w.after(3 * time.Second)
	}
	if r.late == 0 {
		t.Error("a state was evaluated after a minute, and that is not reported")
	}
	w.stop()
}

// An outage says nothing about expressions.
func TestAnOutageDoesNotMakeAnAlarmOverItsBudget(t *testing.T) {
	for name, fail := range map[string]func(w *stateWorld){
		"of the API server": func(w *stateWorld) {
			_, err := w.pipeline.sweep(t.Context()) // the stream is not current
			must(t, err)
		},
		"of the disk": func(w *stateWorld) {
			w.batch(nil)
			states, _ := w.alarms.statesByStream()
			streams, err := w.store.Streams.All(t.Context())
			must(t, err)
			w.stop()
			if err := w.pipeline.sweepStreams(t.Context(), streams, states, false); err == nil {
				t.Fatal("the disk does not fail")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStateWorld(t)
			w.setCostly(`object.status.phase != "Good"`, 20, "Bad")
			w.passing.Step(10 * time.Minute)
			if len(w.pipeline.states.late(deployments, w.clock.Now())) == 0 {
				t.Fatal("the states are not late: the test proves nothing")
			}
			fail(w)
			if late := w.pipeline.states.late(deployments, w.clock.Now().Add(stateTick)); len(late) > 0 {
				t.Errorf("late are %v", late)
			}
		})
	}
}

// An Event over the budget is lost, and a state is only late.
func TestStatesThatAreLateLeaveABudgetForEvents(t *testing.T) {
	w := newStateWorld(t)
	w.setCostly(`object.status.phase != "Good"`, 200, "Bad")
	w.addResource("statefulsets", 200)
	w.after(time.Minute)
	for range 8 {
		w.afterBoth(2 * time.Second)
		if left := costBurst - w.costs("shop"); left < costPerBatch/2 {
			t.Fatalf("%d are left for Events", left)
		}
	}
	if n := w.rows(); n == 400 {
		t.Error("all were evaluated: the test proves nothing")
	}
	w.stop()
}

// setClusterAlarm replaces the alarm by a ClusterAlarm on the namespaces of a team.
func (w *stateWorld) setClusterAlarm(expression string) {
	w.t.Helper()
	compiler, err := match.NewCompiler()
	must(w.t, err)
	w.spec.States[0].Expression, w.spec.States[0].ForSeconds = expression, 0
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "unavailable"}, UID: "alarm", Receivers: []string{"hook"}, Spec: w.spec,
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
	})
	must(w.t, err)
	w.alarms.Set("unavailable", "2", compiled)
}

func TestAStateFollowsTheLabelsOfItsNamespaceAndTheNumberOfNodes(t *testing.T) {
	for name, tc := range map[string]struct{ begin, end func(c *knownCluster) }{
		"labels": {func(c *knownCluster) { c.team = "shop" }, func(c *knownCluster) { c.team = "other" }},
		"nodes":  {func(c *knownCluster) { c.team, c.nodes = "shop", 3 }, func(c *knownCluster) { c.nodes = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newStateWorld(t), &knownCluster{team: "none", nodes: 2}
			if name == "labels" {
				c.nodes = 3
			}
			w.pipeline.matcher.enricher, w.pipeline.Enricher, w.pipeline.Namespaces = c, c, c
			w.setClusterAlarm(`object.status.phase == "Bad" && cluster.nodes > 2`)
			w.set("web", "Bad")
			fiveMinutes := func() {
				for range 10 {
					w.after(stateTick)
				}
			}
			fiveMinutes()
			w.want()
			tc.begin(c)
			fiveMinutes()
			w.want("bad web")
			tc.end(c)
			fiveMinutes()
			w.want("good web")
		})
	}
}

func TestAStateIsEvaluatedWhenTheLabelsOfItsNamespaceAreRead(t *testing.T) {
	w, c := newStateWorld(t), &knownCluster{team: "shop", unread: "not read"}
	w.pipeline.Namespaces = c
	w.setClusterAlarm(`object.status.phase == "Bad"`)
	w.set("web", "Bad")
	w.want()
	c.unread = ""
	w.after(stateTick)
	w.want("bad web")
}

func TestAStateWithoutSpaceBeginsWhenThereIsSpace(t *testing.T) {
	w := newStateWorld(t)
	w.stop()
	store, err := outbox.Open(t.Context(), w.dir, outbox.WithClock(w.clock), outbox.WithMaxBytes(4<<20))
	must(t, err)
	w.store, w.pipeline.Outbox = store, store
	w.spec.States[0].ForSeconds = 3600
	w.setAlarm("2")
	for i := range 250 {
		w.objects[fmt.Sprintf("web-%03d", i)] = "Bad"
	}
	w.list()
	w.after(stateTick)
	full := w.rows()
	if full == 250 {
		t.Fatal("there is space for all: the test proves nothing")
	}
	for i := range 40 {
		w.delete(fmt.Sprintf("web-%03d", i))
	}
	w.wantRows(full-40, "after 40 ended")
	w.after(stateTick)
	w.after(stateTick)
	if got := w.rows(); got < full || got == 210 {
		t.Errorf("%d states are stored, want at least %d, and not all", got, full)
	}
	w.stop()
}

// hookedEnricher calls a function once when a context is read.
type hookedEnricher struct {
	noop
	once sync.Once
	hook func()
}

func (e *hookedEnricher) Context(ctx context.Context, event *alarm.Event) alarm.Context {
	e.once.Do(e.hook)
	return e.noop.Context(ctx, event)
}

func TestAStateThatIsStoredDuringASweepAfterItsAlarmWasDeletedIsForgotten(t *testing.T) {
	w, swept := newStateWorld(t), make(chan struct{})
	w.after(time.Second)
	w.pipeline.Enricher = &hookedEnricher{hook: func() {
		w.alarms.Delete("unavailable")
		go func() {
			defer close(swept)
			if _, err := w.pipeline.sweep(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		select {
		case <-swept: // it did not wait for the change
		case <-time.After(200 * time.Millisecond):
		}
	}}
	w.set("web", "Bad")
	<-swept
	w.wantRows(0, "after the sweep")
	w.stop()
}
