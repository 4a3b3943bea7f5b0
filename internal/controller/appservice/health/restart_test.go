package health_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

func notReady(p health.Pod) health.Pod {
	p.Ready = false
	return p
}

func times(seconds ...float64) []metav1.Time {
	var all []metav1.Time
	for _, s := range seconds {
		all = append(all, metav1.NewTime(at(s)))
	}
	return all
}

func TestRestart(t *testing.T) {
	failing := row("PFFF")
	later := observed(row("P"), at(50), "FFF")
	restored := health.Restore(written(t, health.Summarize(&v1alpha1.AppServiceStatus{},
		[]health.Pod{pod("a", failing)}, time.Time{}, at(50)), []health.Pod{pod("a", failing)}), "a", "uid-a")
	for what, tc := range map[string]struct {
		pods   []health.Pod
		wanted int // 0: as many as there are
		times  []metav1.Time
		want   string
		next   float64
	}{
		"all healthy": {pods: []health.Pod{pod("a", row("P"))}},
		"no pods":     {},
		"one fails":   {pods: []health.Pod{pod("a", row("P")), pod("b", failing)}, want: "b"},
		"the one that failed for the longest time": {pods: []health.Pod{pod("a", later), pod("b", failing), pod("c", failing)}, want: "b"},
		"unknown health":                        {pods: []health.Pod{pod("a", row("PUUU")), pod("b", row("X"))}},
		"unhealthy, but the last was not made":  {pods: []health.Pod{pod("a", row("FFFU"))}},
		"unhealthy, but the last one passed":    {pods: []health.Pod{pod("a", row("FFFP"))}},
		"unhealthy, and failed only once since": {pods: []health.Pod{pod("a", row("FFFPF"))}},
		"a command that does not end":           {pods: []health.Pod{pod("a", row("LLL"))}, want: "a"},
		"not checked since the operator's start": {
			pods: []health.Pod{pod("a", restored)},
		},
		"checked once since": {
			pods: []health.Pod{pod("a", observed(restored, at(100), "F"))}, want: "a",
		},
		"its container was restarted since": {
			pods: []health.Pod{pod("a", failing.Started(at(40)))},
		},
		"and fails again": {
			pods: []health.Pod{pod("a", observed(failing.Started(at(40)), at(50), "FFF"))}, want: "a",
		},
		"another is not ready":             {pods: []health.Pod{pod("a", failing), notReady(pod("b", row("P")))}},
		"it is not ready itself":           {pods: []health.Pod{notReady(pod("a", failing)), pod("b", row("P"))}, want: "a"},
		"another is missing":               {pods: []health.Pod{pod("a", failing)}, wanted: 2},
		"there are more than wanted":       {pods: []health.Pod{pod("a", failing), pod("b", row("P"))}, wanted: 1, want: "a"},
		"two are unhealthy, and not ready": {pods: []health.Pod{notReady(pod("a", later)), notReady(pod("b", failing))}, want: "b"},
		"of two only the other takes nothing away": {
			pods: []health.Pod{pod("a", failing), notReady(pod("b", later))}, want: "b",
		},
		"unhealthy and not ready, and one that starts": {
			pods: []health.Pod{notReady(pod("a", failing)), notReady(pod("b", health.Record{}))},
		},
		"room left":            {pods: []health.Pod{pod("a", failing)}, times: times(-10, -20), want: "a"},
		"the limit is reached": {pods: []health.Pod{pod("a", failing)}, times: times(-10, -20, -3000), next: 601},
		"more than the limit":  {pods: []health.Pod{pod("a", failing)}, times: times(-10, -20, -3000, -3400), next: 601},
		"an hour ago":          {pods: []health.Pod{pod("a", failing)}, times: times(-10, -20, -3501), want: "a"},
		"almost":               {pods: []health.Pod{pod("a", failing)}, times: times(-10, -20, -3500.5), next: 100.5},
		"in the future":        {pods: []health.Pod{pod("a", failing)}, times: times(1e7, -10, -20), next: 3581},
	} {
		t.Run(what, func(t *testing.T) {
			wanted := tc.wanted
			if wanted == 0 {
				wanted = len(tc.pods)
			}
			d := health.Remedy{Pods: tc.pods, Wanted: wanted, Times: tc.times, MaxPerHour: 3, Now: at(100)}.Decide()
			name := ""
			if d.Pod != nil {
				name = d.Pod.Name
			}
			if name != tc.want {
				t.Errorf("restarts %q, want %q", name, tc.want)
			}
			var next float64
			if !d.Next.IsZero() {
				next = d.Next.Sub(noon).Seconds()
			}
			if next != tc.next {
				t.Errorf("next at %v, want %v", next, tc.next)
			}
			isNow := func(t metav1.Time) bool { return t.Time.Equal(at(100)) }
			if !slices.ContainsFunc(d.Counted(), isNow) {
				t.Errorf("it is remembered as %v", d.Counted())
			}
			if tc.next != 3581 && slices.ContainsFunc(d.Times, isNow) {
				t.Errorf("it counts before it happens: %v", d.Times)
			}
		})
	}
}

func TestRememberedRestartsAreThoseOfTheLastHour(t *testing.T) {
	got := health.Remedy{Times: times(9e9, 130, -3600, -10, -20), Now: at(100.7)}.Decide().Times
	if diff := cmp.Diff(times(-20, -10, 100, 130), got); diff != "" {
		t.Error(diff)
	}
}

// Whatever fails, and however often clocks are set back, no hour sees more restarts.
func TestNeverMoreRestartsThanTheLimit(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		limit := 1 + r.IntN(5)
		var remembered []metav1.Time
		var done []time.Duration // by true time
		var now, behind time.Duration
		for range 500 {
			now += time.Duration(r.Int64N(int64(10 * time.Minute)))
			if r.IntN(50) == 0 {
				behind += time.Duration(r.Int64N(int64(2 * time.Hour)))
			}
			d := health.Remedy{
				Pods: []health.Pod{pod("a", row("FFF")), pod("b", row("FFFF"))}, Wanted: 2,
				Times: remembered, MaxPerHour: limit, Now: noon.Add(now - behind),
			}.Decide()
			remembered = d.Times
			if d.Pod == nil {
				continue
			}
			remembered = d.Counted()
			done = append(done, now)
			if n := len(done) - 1 - limit; n >= 0 && now-done[n] <= time.Hour {
				t.Fatalf("history %d: more than %d restarts within an hour", seed, limit)
			}
		}
		if len(done) < 10 {
			t.Fatalf("history %d saw %d restarts, which shows little", seed, len(done))
		}
	}
}
