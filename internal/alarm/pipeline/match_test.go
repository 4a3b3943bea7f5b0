package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// costly is an expression near the cost limit.
const costly = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a + b + c + event.count > 0)))"

// newTestMatcher returns a matcher with a clock that stands still. Each expression becomes an
// alarm in the namespace that is its key, or a ClusterAlarm if the key is "".
func newTestMatcher(t *testing.T, expressions map[string]string) (*matcher, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	m := newMatcher(NewAlarms(), nil, noop{}, clock)
	compiler, err := match.NewCompiler()
	must(t, err)
	for namespace, expression := range expressions {
		id := kube.Key{Kind: alarm.KindAlarm, Namespace: namespace, Name: "all"}
		if namespace == "" {
			id = kube.Key{Kind: alarm.KindClusterAlarm, Name: "all"}
		}
		compiled, err := compiler.Compile(match.Definition{
			ID: id, UID: namespace, Receivers: []string{"hook"},
			Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Expression: expression}}},
		})
		must(t, err)
		m.alarms.Set(namespace, "1", compiled)
	}
	return m, clock
}

// matchAll matches a batch with n occurrences in each namespace. It returns how many alarms
// of each kind and namespace matched, and what was skipped, without alarms.
func matchAll(t *testing.T, m *matcher, n int, namespaces ...string) (matched map[string]int, over []string) {
	t.Helper()
	var occurrences []alarm.Occurrence
	for range n {
		for _, namespace := range namespaces {
			occurrences = append(occurrences, alarm.Occurrence{Increase: 1, Position: 1, Event: alarm.Event{
				Namespace: namespace, Count: 1, Note: "the text of an Event",
				Regarding: alarm.Reference{Kind: "Pod", Namespace: namespace, Name: "web-0"},
			}})
		}
	}
	evaluations, skipped, err := m.match(context.Background(), occurrences, progress.Offsets{})
	must(t, err)
	matched = map[string]int{}
	for i := range evaluations {
		for _, e := range evaluations[i] {
			if e.outcome == match.Matched {
				matched[e.alarm.ID.Kind+" "+occurrences[i].Event.Namespace]++
			}
		}
	}
	for _, s := range skipped {
		if len(s.alarms) != 1 || s.alarms[0].ID.Kind != s.why.Kind {
			t.Errorf("skipped %v because of %+v", s.alarms, s.why)
		}
		over = append(over, s.why.Kind+" "+s.why.Namespace)
	}
	return matched, over
}

const cheap = "event.count > 0"

func TestExpensiveAlarmDelaysNoOtherNamespace(t *testing.T) {
	m, clock := newTestMatcher(t, map[string]string{"greedy": costly, "modest": cheap})
	over := func(n int) []string {
		t.Helper()
		matched, over := matchAll(t, m, n, "greedy", "modest")
		if got := matched["Alarm modest"]; got != n {
			t.Errorf("%d of %d matched in the modest namespace", got, n)
		}
		return over
	}
	if got := over(10); len(got) > 0 {
		t.Errorf("over budget after ten occurrences: %v", got)
	}
	for range costBurst/costPerBatch + 1 {
		if diff := cmp.Diff([]string{"Alarm greedy"}, over(1000)); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"Alarm greedy"}, over(1)); diff != "" {
		t.Errorf("in the next batch: %s", diff)
	}
	clock.Step(time.Minute)
	if got := over(10); len(got) > 0 {
		t.Errorf("over budget after a minute: %v", got)
	}
}

func TestOneBatchIsDelayedALittleByANamespace(t *testing.T) {
	m, _ := newTestMatcher(t, map[string]string{"greedy": costly})
	matchAll(t, m, 1000, "greedy")
	if spent := m.spent("greedy"); spent < costPerBatch || spent > 2*costPerBatch {
		t.Errorf("the namespace cost %d, the limit is %d", spent, costPerBatch)
	}
}

// spent returns the cost of the Alarms of a namespace since the clock began.
func (m *matcher) spent(namespace string) int {
	return costBurst - int(m.ofAlarms.limiter(namespace).TokensAt(m.ofAlarms.clock.Now()))
}

func TestManyNamespacesTogetherDelayABatchALittle(t *testing.T) {
	expressions := map[string]string{"modest": cheap}
	namespaces := []string{"modest"}
	for i := range 30 {
		namespace := fmt.Sprintf("greedy-%d", i)
		expressions[namespace] = costly
		namespaces = append(namespaces, namespace)
	}
	m, _ := newTestMatcher(t, expressions)
	matched, over := matchAll(t, m, 100, namespaces...)
	if got := matched["Alarm modest"]; got != 100 {
		t.Errorf("%d of 100 matched in the modest namespace", got)
	}
	if len(over) != 30 {
		t.Errorf("%d namespaces are over budget, want 30: %v", len(over), over)
	}
	sum := 0
	for _, namespace := range namespaces {
		sum += m.spent(namespace)
	}
	if sum < totalCostPerBatch || sum > 2*totalCostPerBatch {
		t.Errorf("the batch cost %d, the limit is %d", sum, totalCostPerBatch)
	}
}

func TestATenantsAlarmsDoNotCountAgainstClusterAlarms(t *testing.T) {
	m, _ := newTestMatcher(t, map[string]string{"": cheap, "greedy": costly})
	for range 2 * costBurst / costPerBatch {
		matched, over := matchAll(t, m, 1000, "greedy")
		if got := matched["ClusterAlarm greedy"]; got != 1000 {
			t.Errorf("the ClusterAlarm matched %d of 1000", got)
		}
		if diff := cmp.Diff([]string{"Alarm greedy"}, over); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAnExpensiveClusterAlarmIsLimitedForTheEventsOfEachNamespace(t *testing.T) {
	m, _ := newTestMatcher(t, map[string]string{"": costly, "flooded": cheap, "quiet": cheap})
	for range 2 * costBurst / costPerBatch {
		matched, over := matchAll(t, m, 1000, "flooded")
		if got := matched["Alarm flooded"]; got != 1000 {
			t.Errorf("the Alarm matched %d of 1000", got)
		}
		if diff := cmp.Diff([]string{"ClusterAlarm flooded"}, over); diff != "" {
			t.Error(diff)
		}
	}
	matched, over := matchAll(t, m, 10, "quiet")
	if got := matched["ClusterAlarm quiet"]; got != 10 || len(over) > 0 {
		t.Errorf("the ClusterAlarm matched %d of 10 Events of another namespace; over budget: %v", got, over)
	}
}
