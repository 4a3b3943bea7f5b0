package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
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

// unreadable is an Enricher whose reads fail until a time.
type unreadable struct {
	until time.Time
	reads int
}

var errUnavailable = errors.New("the server is unavailable")

func (u *unreadable) Context(context.Context, *alarm.Event) alarm.Context {
	if u.reads++; time.Now().Before(u.until) {
		return alarm.Context{ReadError: errUnavailable}
	}
	return alarm.Context{Resolved: true, Object: alarm.Object{Metadata: alarm.ObjectMeta{Labels: map[string]string{"app": "web"}}}}
}

func TestFailedReadDelaysTheOccurrenceAndLosesNothing(t *testing.T) {
	selector := v1alpha1.EventMatch{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	all := v1alpha1.EventMatch{Reasons: []string{"BackOff"}}
	byLabel := &v1alpha1.AlarmGroup{By: []string{"object.labels[app]"}}
	for name, tc := range map[string]struct {
		match    v1alpha1.EventMatch
		group    *v1alpha1.AlarmGroup
		fails    time.Duration
		want     match.Outcome
		atLeast  time.Duration
		atMost   time.Duration
		reported error
	}{
		"for a minute":                   {selector, nil, time.Minute, match.Matched, time.Minute, 75 * time.Second, nil},
		"for longer than the limit":      {selector, nil, time.Hour, match.Failed, readPatience - 15*time.Second, readPatience, errUnavailable},
		"in a label of an expression":    {v1alpha1.EventMatch{Expression: `object.metadata.labels.app == "web"`}, nil, time.Minute, match.Matched, time.Minute, 75 * time.Second, nil},
		"in the number of nodes":         {v1alpha1.EventMatch{Expression: `cluster.nodes >= 0`}, nil, time.Hour, match.Failed, readPatience - 15*time.Second, readPatience, errUnavailable},
		"in a label of the group":        {all, byLabel, time.Minute, match.Matched, time.Minute, 75 * time.Second, nil},
		"of an object that no one needs": {all, nil, time.Hour, match.Matched, 0, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				real := clock.RealClock{}
				m := matcher{
					alarms: NewAlarms(), enricher: &unreadable{until: began.Add(tc.fails)}, budget: newBudget(real),
					patience: readPatience, clock: real, log: logr.Discard(),
				}
				compiler, err := match.NewCompiler()
				must(t, err)
				compiled, err := compiler.Compile(match.Definition{
					ID: alarm.ID{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}, UID: "1",
					Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{tc.match}, Group: tc.group}, Receivers: []string{"hook"},
				})
				must(t, err)
				m.alarms.Set("web", "1", compiled)
				occurrences := []alarm.Occurrence{{Increase: 1, Position: 1, Event: alarm.Event{
					Namespace: "shop", Count: 1, Reason: "BackOff", Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: "web-0"},
				}}}
				evaluations, _, err := m.match(t.Context(), occurrences, outbox.DeliveredOffsets{})
				must(t, err)
				if len(evaluations[0]) != 1 || evaluations[0][0].outcome != tc.want || !errors.Is(evaluations[0][0].err, tc.reported) {
					t.Errorf("got %+v, want outcome %v and error %v", evaluations[0], tc.want, tc.reported)
				}
				if took := time.Since(began); took < tc.atLeast || took > tc.atMost {
					t.Errorf("the match took %v, want %v to %v", took, tc.atLeast, tc.atMost)
				}
			})
		})
	}
}
