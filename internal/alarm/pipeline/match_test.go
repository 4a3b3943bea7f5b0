package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// costly is an expression near the cost limit.
const costly = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a + b + c + event.count > 0)))"

func TestExpensiveAlarmDelaysNoOtherNamespace(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	m := matcher{alarms: NewAlarms(), enricher: noop{}, budget: newBudget(clock)}
	compiler, err := match.NewCompiler()
	must(t, err)
	for namespace, spec := range map[string]v1alpha1.EventMatch{"greedy": {Expression: costly}, "modest": {Expression: "event.count > 0"}} {
		compiled, err := compiler.Compile(match.Definition{
			ID: alarm.ID{Kind: alarm.KindAlarm, Namespace: namespace, Name: "all"}, UID: namespace,
			Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{spec}}, Receivers: []string{"hook"},
		})
		must(t, err)
		m.alarms.Set(namespace, "1", compiled)
	}
	over := func(n int) []string {
		t.Helper()
		return matchAll(t, &m, n)
	}
	if got := over(10); len(got) > 0 {
		t.Errorf("over budget after ten occurrences: %v", got)
	}
	if diff := cmp.Diff([]string{"greedy"}, over(3000)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"greedy"}, over(1)); diff != "" {
		t.Errorf("in the next batch: %s", diff)
	}
	clock.Step(time.Minute)
	if got := over(10); len(got) > 0 {
		t.Errorf("over budget after a minute: %v", got)
	}
}

// matchAll matches a batch with n occurrences in each namespace, and returns the namespaces
// that are over their budget.
func matchAll(t *testing.T, m *matcher, n int) (over []string) {
	t.Helper()
	var occurrences []alarm.Occurrence
	for range n {
		for _, namespace := range []string{"greedy", "modest"} {
			occurrences = append(occurrences, alarm.Occurrence{Increase: 1, Position: 1, Event: alarm.Event{
				Namespace: namespace, Count: 1, Note: "the text of an Event",
				Regarding: alarm.Reference{Kind: "Pod", Namespace: namespace, Name: "web-0"},
			}})
		}
	}
	evaluations, skipped, err := m.match(context.Background(), occurrences, outbox.DeliveredOffsets{})
	must(t, err)
	matched := 0
	for i := range evaluations {
		for _, e := range evaluations[i] {
			if e.outcome == match.Matched && e.alarm.ID.Namespace == "modest" {
				matched++
			}
		}
	}
	if matched != n {
		t.Errorf("%d of %d matched in the modest namespace", matched, n)
	}
	for _, a := range skipped {
		over = append(over, a.ID.Namespace)
	}
	return over
}
