package health_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

func TestASummaryCountsAllPodsAndListsThoseThatAreNotHealthy(t *testing.T) {
	s := health.Summarize(&v1alpha1.AppServiceStatus{}, []health.Pod{
		pod("d", row("PXX")), pod("b", row("PFFF")), pod("a", row("P")), pod("c", health.Record{}),
	}, time.Time{}, at(100.5))
	if got := [3]int32{s.Healthy, s.Unhealthy, s.Unknown}; got != [3]int32{1, 1, 2} {
		t.Errorf("counts %v", got)
	}
	var got []string
	for _, e := range s.PodStatuses {
		got = append(got, fmt.Sprint(e.Name, " ", e.PodUID, " ", e.Health, " ", e.Reason, " ", e.ConsecutiveFailures, " ",
			e.LastTransitionTime.Sub(noon), " ", e.Message))
	}
	if diff := cmp.Diff([]string{
		"b uid-b Unhealthy HealthCheckFailed 3 30s F3",
		"c uid-c Unknown NotChecked 0 1m40s the pod was not checked yet",
		"d uid-d Unknown ExecForbidden 2 10s X2",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// many returns pods with these numbers of each health. Those with unknown health come first
// by name.
func many(healthyOnes, unhealthyOnes, unknownOnes int) []health.Pod {
	var pods []health.Pod
	for i := range unknownOnes {
		pods = append(pods, pod(fmt.Sprintf("a%04d", i), row("PUUU")))
	}
	for i := range unhealthyOnes {
		pods = append(pods, pod(fmt.Sprintf("b%04d", i), row("PFFF")))
	}
	for i := range healthyOnes {
		pods = append(pods, pod(fmt.Sprintf("c%04d", i), row("P")))
	}
	return pods
}

func TestFiftyPodsAreListedTheUnhealthyFirst(t *testing.T) {
	for what, tc := range map[string]struct {
		unhealthy, unknown         int
		wantUnhealthy, wantUnknown int
	}{
		"room for all":    {20, 30, 20, 30},
		"one too many":    {20, 31, 20, 30},
		"all unhealthy":   {800, 100, 50, 0},
		"all are healthy": {0, 0, 0, 0},
		"all are unknown": {0, 900, 0, 50},
	} {
		t.Run(what, func(t *testing.T) {
			pods := many(50, tc.unhealthy, tc.unknown)
			slices.Reverse(pods)
			s := health.Summarize(&v1alpha1.AppServiceStatus{}, pods, time.Time{}, at(100))
			var got [2]int
			for _, e := range s.PodStatuses {
				if e.Health == unhealthy {
					got[0]++
				} else {
					got[1]++
				}
			}
			if want := [2]int{tc.wantUnhealthy, tc.wantUnknown}; got != want {
				t.Errorf("%v unhealthy and unknown are listed, want %v", got, want)
			}
			if !slices.IsSortedFunc(s.PodStatuses, func(a, b v1alpha1.PodStatus) int { return cmpNames(a.Name, b.Name) }) {
				t.Error("they are not in order of their names")
			}
			if int(s.Healthy) != 50 || int(s.Unhealthy) != tc.unhealthy || int(s.Unknown) != tc.unknown {
				t.Errorf("counted %d, %d, %d", s.Healthy, s.Unhealthy, s.Unknown)
			}
		})
	}
}

func cmpNames(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func TestASettledFailureIsWrittenEveryFiveMinutes(t *testing.T) {
	pods := []health.Pod{pod("a", row("P")), pod("b", health.Record{})}
	status := &v1alpha1.AppServiceStatus{}
	var refreshed time.Time
	writes := 0
	for i := range 6 * 60 { // an hour
		now := at(float64(10 * i))
		pods[1].Record = pods[1].Record.Add(health.Observation{At: now, Outcome: health.Failed, Message: fmt.Sprint("no ", i)}, thresholds)
		s := health.Summarize(status, pods, refreshed, now)
		refreshed = s.Refreshed
		if after := written(t, s, pods); !cmp.Equal(status, after) {
			writes++
			status = after
		}
		if status.Unhealthy == 1 && (s.Next.Before(now) || s.Next.Sub(now) > 5*time.Minute) {
			t.Fatalf("at %s the next look is at %s", now, s.Next)
		}
	}
	if writes < 12 || writes > 14 { // not checked, unhealthy, and every five minutes
		t.Errorf("%d writes in an hour", writes)
	}
	e := status.PodStatuses[0]
	if e.ConsecutiveFailures < 320 || e.Message == "no 2" || e.LastTransitionTime.Sub(noon) != 20*time.Second {
		t.Errorf("after an hour the status says %+v", e)
	}
	if want := at(float64(10 * (e.ConsecutiveFailures - 1))); !e.LastCheckTime.Time.Equal(want) {
		t.Errorf("%d failures as of %v, want %v", e.ConsecutiveFailures, e.LastCheckTime, want)
	}
}

func TestOnlyPodsWhoseHealthChangedAreUpdated(t *testing.T) {
	before := []health.Pod{pod("a", row("PFFF")), pod("b", row("P"))}
	status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, before, time.Time{}, at(40)), before)
	after := []health.Pod{
		pod("a", observed(before[0].Record, at(40), "FF")),
		pod("b", observed(before[1].Record, at(40), "FFF")),
	}
	s := health.Summarize(status, after, at(40), at(70))
	if diff := cmp.Diff(status.PodStatuses[0], s.PodStatuses[0]); diff != "" {
		t.Error(diff)
	}
	if got := s.PodStatuses[1]; got.Name != "b" || got.ConsecutiveFailures != 3 {
		t.Errorf("%+v", got)
	}
}

func TestAPodThatChangedTwiceSinceTheLastWriteIsUpdated(t *testing.T) {
	before := []health.Pod{pod("a", row("PFFF"))}
	status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, before, time.Time{}, at(40)), before)
	after := []health.Pod{pod("a", observed(before[0].Record, at(40), "PPFFF"))}
	s := health.Summarize(status, after, at(40), at(90))
	if got := s.PodStatuses[0].LastTransitionTime.Sub(noon); got != 80*time.Second {
		t.Errorf("unhealthy since %s after noon", got)
	}
	if len(s.Transitions.Failed) != 1 {
		t.Errorf("reported %+v", s.Transitions)
	}
}

func TestTransitions(t *testing.T) {
	names := func(all []v1alpha1.PodStatus) (names []string) {
		for _, e := range all {
			names = append(names, e.Name+" "+e.Reason)
		}
		return names
	}
	for what, tc := range map[string]struct {
		before, after                []health.Pod
		failed, unchecked, recovered []string
	}{
		"a new app": {
			after: []health.Pod{pod("a", health.Record{}), pod("b", health.Record{})},
		},
		"some fail": {
			before: []health.Pod{pod("a", row("P")), pod("b", row("PFFF")), pod("c", row("P"))},
			after:  []health.Pod{pod("a", row("PFFF")), pod("b", row("PFFF")), pod("c", row("PLLL"))},
			failed: []string{"a HealthCheckFailed", "c ExecLeaked"},
		},
		"one recovers": {
			before:    []health.Pod{pod("a", row("PFFF")), pod("b", row("PFFF"))},
			after:     []health.Pod{pod("a", row("PFFFPP")), pod("b", row("PFFF"))},
			recovered: []string{"a HealthCheckFailed"},
		},
		"one is replaced by another of its name": {
			before: []health.Pod{{Name: "a", UID: "former", Record: row("PFFF")}},
			after:  []health.Pod{pod("a", row("P"))},
		},
		"its successor fails too": {
			before: []health.Pod{{Name: "a", UID: "former", Record: row("PFFF")}},
			after:  []health.Pod{pod("a", row("PFFF"))},
			failed: []string{"a HealthCheckFailed"},
		},
		"one is gone": {
			before: []health.Pod{pod("a", row("PFFF")), pod("b", row("P"))},
			after:  []health.Pod{pod("b", row("P"))},
		},
		"one can no longer be reached": {
			before:    []health.Pod{pod("a", row("PFFF"))},
			after:     []health.Pod{pod("a", row("PFFFUUU"))},
			unchecked: []string{"a HealthCheckUnreachable"},
		},
		"it can be reached again": {
			before: []health.Pod{pod("a", row("PUUU"))},
			after:  []health.Pod{pod("a", row("PUUUPP"))},
		},
		"all are forbidden": {
			before:    []health.Pod{pod("a", row("P")), pod("b", row("P")), pod("c", row("P"))},
			after:     []health.Pod{pod("a", row("PX")), pod("b", row("PX")), pod("c", row("PX"))},
			unchecked: []string{"a ExecForbidden"},
		},
		"the first one stands for those that are forbidden": {
			before:    []health.Pod{pod("a", row("PP")), pod("b", row("P"))},
			after:     []health.Pod{pod("a", row("PPX")), pod("b", row("PX"))},
			unchecked: []string{"b ExecForbidden"},
		},
		"another is forbidden": {
			before: []health.Pod{pod("a", row("PX")), pod("b", row("P"))},
			after:  []health.Pod{pod("a", row("PX")), pod("b", row("PX"))},
		},
		"another reason": {
			before: []health.Pod{pod("a", row("FFF"))},
			after:  []health.Pod{pod("a", row("FFFLLL"))},
			failed: []string{"a ExecLeaked"},
		},
		"too many: who only moves up in the list is not news": {
			before:    many(10, 60, 0),
			after:     append([]health.Pod{pod("b0000", row("PFFFPP"))}, many(10, 60, 0)[1:]...),
			recovered: []string{"b0000 HealthCheckFailed"},
		},
		"too many: but who turned is": {
			before: many(10, 60, 0),
			after:  append([]health.Pod{pod("a0000", row("PPPPPFFF"))}, many(10, 60, 0)...),
			failed: []string{"a0000 HealthCheckFailed"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			status := written(t, health.Summarize(&v1alpha1.AppServiceStatus{}, tc.before, time.Time{}, at(50)), tc.before)
			got := health.Summarize(status, tc.after, at(50), at(100)).Transitions
			if diff := cmp.Diff([][]string{tc.failed, tc.unchecked, tc.recovered},
				[][]string{names(got.Failed), names(got.Unchecked), names(got.Recovered)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCondition(t *testing.T) {
	for what, tc := range map[string]struct {
		pods []health.Pod
		want string
	}{
		"no pod":        {nil, "Unknown NotChecked: there is no pod to check"},
		"all healthy":   {many(3, 0, 0), "True Healthy: the health check passes in every pod"},
		"one unhealthy": {many(3, 1, 0), "False HealthCheckFailed: the health check fails in 1 of 4 pods: b0000"},
		"five":          {many(0, 5, 0), "False HealthCheckFailed: the health check fails in 5 of 5 pods: b0000, b0001, b0002, b0003, b0004"},
		"many":          {many(3, 70, 20), "False HealthCheckFailed: the health check fails in 70 of 93 pods: b0000, b0001, b0002, b0003, b0004 and 65 more"},
		"unreachable":   {many(3, 0, 2), "Unknown HealthCheckUnreachable: the health check cannot be made in 2 of 5 pods: a0000, a0001"},
		"leaked":        {[]health.Pod{pod("a", row("LLL"))}, "False ExecLeaked: the command of the health check does not end in 1 of 1 pods: a"},
		"forbidden":     {[]health.Pod{pod("a", row("X")), pod("b", row("UUU"))}, "Unknown ExecForbidden: the operator may not make the health check in 1 of 2 pods: a"},
		"a new pod":     {append(many(1, 0, 0), pod("d", health.Record{})), "Unknown NotChecked: the health check was not made yet in 1 of 2 pods: d"},
	} {
		t.Run(what, func(t *testing.T) {
			c := health.Summarize(&v1alpha1.AppServiceStatus{}, tc.pods, time.Time{}, at(100)).Condition
			if diff := cmp.Diff(tc.want, string(c.Status)+" "+c.Reason+": "+c.Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}
