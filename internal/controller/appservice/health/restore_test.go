package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

func TestARestartContinuesFromTheStatus(t *testing.T) {
	pods := []health.Pod{pod("a", row("P")), pod("b", row("PFFFFF")), pod("c", row("PUUU")), pod("d", row("X"))}
	status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, pods, time.Time{}, at(100)), pods)
	for what, tc := range map[string]struct {
		pod, uid string
		then     string
		want     string
	}{
		"healthy":                          {"a", "uid-a", "", "Healthy"},
		"healthy, then two failures":       {"a", "uid-a", "FF", "Healthy"},
		"healthy, then three":              {"a", "uid-a", "FFF", "Unhealthy HealthCheckFailed 3 F2"},
		"unhealthy":                        {"b", "uid-b", "", "Unhealthy HealthCheckFailed 5 F5"},
		"unhealthy, and fails":             {"b", "uid-b", "F", "Unhealthy HealthCheckFailed 6 F0"},
		"unhealthy, then a pass":           {"b", "uid-b", "P", "Unhealthy HealthCheckFailed 0 F5"},
		"unhealthy, then two":              {"b", "uid-b", "PP", "Healthy"},
		"unhealthy, for another reason":    {"b", "uid-b", "L", "Unhealthy HealthCheckFailed 6 F5"},
		"not reached":                      {"c", "uid-c", "", "Unknown HealthCheckUnreachable 3 U3"},
		"not reached, and still not":       {"c", "uid-c", "U", "Unknown HealthCheckUnreachable 4 U0"},
		"not reached, then two failures":   {"c", "uid-c", "FF", "Unknown HealthCheckUnreachable 0 U3"},
		"forbidden":                        {"d", "uid-d", "", "Unknown ExecForbidden 1 X0"},
		"another of the same name":         {"b", "other", "", "Unknown NotChecked 0 the pod was not checked yet"},
		"another, which passes":            {"b", "other", "P", "Healthy"},
		"one that the status does not say": {"e", "uid-e", "", "Unknown NotChecked 0 the pod was not checked yet"},
	} {
		t.Run(what, func(t *testing.T) {
			r := observed(health.Restore(status, tc.pod, types.UID(tc.uid)), at(200), tc.then)
			if diff := cmp.Diff(tc.want, brief(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPodThatIsNotListedWasHealthyOnlyIfTheListWasNotFull(t *testing.T) {
	for what, tc := range map[string]struct {
		pods []health.Pod
		want v1alpha1.PodHealth
	}{
		"room":         {many(3, 20, 29), healthy},
		"no room left": {many(3, 20, 30), healthy},
		"too many":     {many(3, 20, 31), unknown},
	} {
		t.Run(what, func(t *testing.T) {
			status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, tc.pods, time.Time{}, at(100)), tc.pods)
			if got := health.Restore(status, "c0001", "uid-c0001"); got.Health != tc.want {
				t.Errorf("%+v, want %s", got, tc.want)
			}
		})
	}
	t.Run("never checked", func(t *testing.T) {
		status := &v1alpha1.AppServiceStatus{Nodes: []string{"a"}}
		if got := health.Restore(status, "a", "uid-a"); got.Health != unknown {
			t.Errorf("%+v", got)
		}
	})
}

// A new leader computes the same status from the status.
func TestATakeoverChangesNothing(t *testing.T) {
	pods := append(many(900, 20, 10), pod("d", health.Record{}), pod("e", row("LLL")), pod("f", row("FFFP")))
	status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, pods, time.Time{}, at(100.9)), pods)
	for i := range pods {
		pods[i].Record = health.Record{}
	}
	s := health.Summarize(status, pods, time.Time{}, at(4000))
	if diff := cmp.Diff(status, written(t, s, pods)); diff != "" {
		t.Error(diff)
	}
	if got := s.Transitions; len(got.Failed)+len(got.Recovered)+len(got.Unchecked) > 0 {
		t.Errorf("reported %+v", got)
	}
}

// The count comes from the former process, and so does the time.
func TestATakeoverKeepsTheTimeOfTheLastCheck(t *testing.T) {
	pods := []health.Pod{pod("a", row("FFF"))}
	status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, pods, time.Time{}, at(100)), pods)
	pods[0].Record = health.Restore(status, "a", "uid-a")
	for what, tc := range map[string]struct {
		checks string
		count  int32
		want   time.Time
	}{
		"not checked since": {"", 3, at(20)},
		"checked since":     {"FF", 5, at(210)},
	} {
		t.Run(what, func(t *testing.T) {
			pods := []health.Pod{pod("a", observed(pods[0].Record, at(200), tc.checks))}
			e := health.Summarize(status, pods, at(100), at(1000)).PodStatuses[0]
			if e.ConsecutiveFailures != tc.count || e.LastCheckTime == nil || !e.LastCheckTime.Time.Equal(tc.want) {
				t.Errorf("%d failures as of %v, want %d as of %v", e.ConsecutiveFailures, e.LastCheckTime, tc.count, tc.want)
			}
		})
	}
}

// The former process may have ended between the write of the status and an Event. The Event
// has the name of an entry of the status, so that the API server refuses it if it exists.
func TestATakeoverRepeatsRecentEvents(t *testing.T) {
	pods := []health.Pod{pod("a", row("PFFF")), pod("b", row("PUUU")), pod("c", row("PX")), pod("d", health.Record{}), pod("e", row("P"))}
	first := health.Summarize(&v1alpha1.AppServiceStatus{}, pods, time.Time{}, at(100))
	status := written(t, first, pods)
	if again := health.Summarize(status, pods, at(100), at(110)).Transitions; len(again.Failed)+len(again.Unchecked) > 0 {
		t.Errorf("the same process reported %+v again", again)
	}
	for i := range pods {
		pods[i].Record = health.Record{}
	}
	got := health.Summarize(status, pods, time.Time{}, at(110)).Transitions
	want := health.Transitions{Failed: []v1alpha1.PodStatus{status.PodStatuses[0]}, Unchecked: []v1alpha1.PodStatus{status.PodStatuses[1]}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
