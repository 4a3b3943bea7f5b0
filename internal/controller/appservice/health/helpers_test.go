package health_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

var (
	noon       = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	thresholds = health.Thresholds{Failure: 3, Success: 2}
)

const (
	healthy   = health.Healthy
	unhealthy = v1alpha1.PodUnhealthy
	unknown   = v1alpha1.PodHealthUnknown
)

// at is a time so many seconds after noon.
func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

var outcomes = map[rune]health.Outcome{
	'P': health.Passed, 'F': health.Failed, 'L': health.Leaked, 'U': health.Unreachable, 'X': health.Forbidden,
}

// observed adds observations to a record: one every ten seconds from a time on, named
// by their letters.
func observed(r health.Record, from time.Time, row string) health.Record {
	for i, letter := range row {
		o := health.Observation{At: from.Add(time.Duration(i) * 10 * time.Second), Outcome: outcomes[letter]}
		if letter != 'P' {
			o.Message = fmt.Sprintf("%c%d", letter, i)
		}
		r = r.Add(o, thresholds)
	}
	return r
}

func row(letters string) health.Record { return observed(health.Record{}, noon, letters) }

// brief says what a record says.
func brief(r health.Record) string {
	if r.Reason == "" {
		return string(r.Health)
	}
	return fmt.Sprintf("%s %s %d %s", r.Health, r.Reason, r.Count(), r.Message)
}

func pod(name string, r health.Record) health.Pod {
	return health.Pod{Name: name, UID: types.UID("uid-" + name), Ready: true, Record: r}
}

// written is the status that a summary is written to, as the API server keeps it.
func written(t testing.TB, s health.Summary, pods []health.Pod) *v1alpha1.AppServiceStatus {
	t.Helper()
	status := &v1alpha1.AppServiceStatus{}
	for _, p := range pods {
		status.Nodes = append(status.Nodes, p.Name)
	}
	s.Write(status)
	for i := range status.PodStatuses {
		e := &status.PodStatuses[i]
		if !e.LastTransitionTime.Equal(new(e.LastTransitionTime.Rfc3339Copy())) {
			t.Errorf("%s turned at %s, which a status does not keep", e.Name, e.LastTransitionTime.Format(time.RFC3339Nano))
		}
		e.LastTransitionTime = metav1.NewTime(e.LastTransitionTime.UTC())
	}
	return status
}
