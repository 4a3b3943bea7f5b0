package probe_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

var cache = types.NamespacedName{Namespace: "team", Name: "cache"}

// answers is a Checker that returns one outcome for all pods.
type answers struct {
	mu      sync.Mutex
	outcome healthcheck.Outcome
	message string
}

func (a *answers) set(outcome healthcheck.Outcome, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcome, a.message = outcome, message
}

func (a *answers) Run(context.Context, healthcheck.Check) healthcheck.Observation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return healthcheck.Observation{At: time.Now(), Outcome: a.outcome, Message: a.message}
}

func (a *answers) Overdue(healthcheck.Check) healthcheck.Observation {
	return healthcheck.Observation{At: time.Now(), Outcome: healthcheck.Unreachable}
}

// enqueued counts how often each object was enqueued.
type enqueued struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	mu sync.Mutex
	by map[types.NamespacedName]int
}

func (e *enqueued) AddAfter(r reconcile.Request, _ time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by[r.NamespacedName]++
}

func (e *enqueued) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.by[cache]
}

// operator is a Prober that runs in a synctest bubble.
type operator struct {
	*probe.Prober
	*answers
	queue *enqueued
	stop  func()
}

func startOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{answers: &answers{outcome: healthcheck.Passed}, queue: &enqueued{by: map[types.NamespacedName]int{}}}
	o.Prober = probe.New(clock.RealClock{}, o.answers)
	if err := o.Start(t.Context(), o.queue); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Prober.Run(ctx) }()
	o.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(o.stop)
	return o
}

// everyTenSeconds is an HTTP check with the default period, and thresholds of 3 failures and 2
// passes.
func everyTenSeconds() *probe.Spec {
	spec := &probe.Spec{}
	spec.HTTPGet, spec.SuccessThreshold = &corev1.HTTPGetAction{Port: intstr.FromInt32(11211)}, 2
	return spec
}

// runningPod is a pod whose container has started now.
func runningPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.7", ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}},
	}
}

func brief(all []probe.PodHealth) string {
	var lines []string
	for _, h := range all {
		lines = append(lines, strings.TrimSpace(strings.Join([]string{h.Name, string(h.Health), h.Reason, h.Message}, " ")))
	}
	return strings.Join(lines, "; ")
}

func expectHealth(t *testing.T, want string, got []probe.PodHealth) {
	t.Helper()
	if diff := cmp.Diff(want, brief(got)); diff != "" {
		t.Error(diff)
	}
}

func TestProberEnqueuesTheOwnerWhenTheHealthOfAPodChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, pods := startOperator(t), []*corev1.Pod{runningPod("a")}
		status := o.Probe(cache, everyTenSeconds(), pods, nil)
		expectHealth(t, "a Unknown NotChecked the pod was not checked yet", status)
		for _, tc := range []struct {
			outcome  healthcheck.Outcome
			checks   int
			enqueued int // in total
			want     string
		}{
			{healthcheck.Passed, 1, 1, "a Healthy"},
			{healthcheck.Failed, 2, 1, "a Healthy"},
			{healthcheck.Failed, 1, 2, "a Unhealthy HealthCheckFailed answered 500"},
			{healthcheck.Failed, 10, 2, "a Unhealthy HealthCheckFailed answered 500"},
			{healthcheck.Passed, 1, 2, "a Unhealthy HealthCheckFailed answered 500"},
			{healthcheck.Passed, 1, 3, "a Healthy"},
			{healthcheck.Unreachable, 2, 3, "a Healthy"},
			{healthcheck.Unreachable, 1, 4, "a Unknown HealthCheckUnreachable answered 500"},
			{healthcheck.Passed, 2, 5, "a Healthy"},
			{healthcheck.Forbidden, 1, 6, "a Unknown ExecForbidden answered 500"},
		} {
			o.set(tc.outcome, "answered\x1b 500")
			time.Sleep(time.Duration(tc.checks) * period)
			synctest.Wait()
			if got := o.queue.count(); got != tc.enqueued {
				t.Errorf("enqueued %d times after %s, want %d", got, tc.outcome, tc.enqueued)
			}
			status = o.Probe(cache, everyTenSeconds(), pods, status)
			expectHealth(t, tc.want, status)
		}
	})
}

func TestRestartOfTheOperatorChangesNoHealth(t *testing.T) {
	for name, tc := range map[string]struct {
		before healthcheck.Outcome
		want   string
	}{
		"healthy":     {healthcheck.Passed, "a Healthy"},
		"unhealthy":   {healthcheck.Failed, "a Unhealthy HealthCheckFailed before"},
		"unreachable": {healthcheck.Unreachable, "a Unknown HealthCheckUnreachable before"},
		"forbidden":   {healthcheck.Forbidden, "a Unknown ExecForbidden before"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old, pods := startOperator(t), []*corev1.Pod{runningPod("a")}
				old.set(tc.before, "before")
				old.Probe(cache, everyTenSeconds(), pods, nil)
				time.Sleep(5 * period)
				stored := old.Probe(cache, everyTenSeconds(), pods, nil)
				expectHealth(t, tc.want, stored)
				old.stop()

				o := startOperator(t)
				o.set(tc.before, "after")
				time.Sleep(time.Minute)
				for range 10 {
					status := o.Probe(cache, everyTenSeconds(), pods, stored)
					if diff := cmp.Diff(stored, status); diff != "" {
						t.Fatal(diff)
					}
					time.Sleep(period)
				}
				// A pod that fails again may now be restarted, which is one reconcile.
				limit := 0
				if tc.before == healthcheck.Failed {
					limit = 1
				}
				if got := o.queue.count(); got > limit {
					t.Errorf("enqueued %d times, want at most %d", got, limit)
				}
			})
		})
	}
}

func TestHealthOfAnotherPodOfTheSameNameIsNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, pod := startOperator(t), runningPod("a")
		stored := []probe.PodHealth{{Name: "a", PodUID: "former", Health: probe.Unhealthy, Reason: probe.ReasonFailed}}
		expectHealth(t, "a Unknown NotChecked the pod was not checked yet", o.Probe(cache, everyTenSeconds(), []*corev1.Pod{pod}, stored))
	})
}

func TestOnlyRunningPodsAreChecked(t *testing.T) {
	waiting := runningPod("waiting")
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	pending := runningPod("pending")
	pending.Status.Phase = corev1.PodPending
	noAddress := runningPod("no-address")
	noAddress.Status.PodIP = ""
	terminating := runningPod("terminating")
	terminating.DeletionTimestamp = new(metav1.Now())
	synctest.Test(t, func(t *testing.T) {
		o := startOperator(t)
		all := []*corev1.Pod{waiting, pending, noAddress, terminating, runningPod("a")}
		status := o.Probe(cache, everyTenSeconds(), all, nil)
		if o.Len() != 1 {
			t.Errorf("%d pods are checked, want 1", o.Len())
		}
		time.Sleep(period)
		status = o.Probe(cache, everyTenSeconds(), all, status)
		const unchecked = " Unknown NotChecked the pod was not checked yet"
		expectHealth(t, "a Healthy; no-address"+unchecked+"; pending"+unchecked+"; waiting"+unchecked, status)
		o.Probe(cache, everyTenSeconds(), all[:4], status)
		if o.Len() != 0 {
			t.Errorf("%d pods are checked although the pod does not exist any more", o.Len())
		}
	})
}

func TestForgottenOwnerIsNotChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, pods := startOperator(t), []*corev1.Pod{runningPod("a"), runningPod("b")}
		o.Probe(cache, everyTenSeconds(), pods, nil)
		o.Forget(cache)
		o.Forget(cache)
		time.Sleep(period)
		if o.Len() != 0 || o.queue.count() != 0 {
			t.Errorf("%d pods are checked, and the owner was enqueued %d times", o.Len(), o.queue.count())
		}
	})
}

func TestRestartedContainerStartsWithoutFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, pod := startOperator(t), runningPod("a")
		status := o.Probe(cache, everyTenSeconds(), []*corev1.Pod{pod}, nil)
		time.Sleep(period)
		o.set(healthcheck.Failed, "")
		time.Sleep(2 * period)
		pod = pod.DeepCopy()
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Now()
		status = o.Probe(cache, everyTenSeconds(), []*corev1.Pod{pod}, status)
		time.Sleep(2 * period)
		expectHealth(t, "a Healthy", o.Probe(cache, everyTenSeconds(), []*corev1.Pod{pod}, status))
	})
}

func TestChangedSpecTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, pods := startOperator(t), []*corev1.Pod{runningPod("a")}
		slow := everyTenSeconds()
		slow.InitialDelaySeconds = 3600
		status := o.Probe(cache, slow, pods, nil)
		time.Sleep(time.Minute)
		status = o.Probe(cache, everyTenSeconds(), pods, status)
		time.Sleep(period)
		expectHealth(t, "a Healthy", o.Probe(cache, everyTenSeconds(), pods, status))
	})
}

func TestMistakeInTheSpecIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, pods := startOperator(t), []*corev1.Pod{runningPod("a")}
		wrong := everyTenSeconds()
		wrong.HTTPGet.Port = intstr.FromString("memcache")
		status := o.Probe(cache, wrong, pods, nil)
		expectHealth(t, `a Unknown NotChecked container app has no port of the name "memcache"`, status)
		status = o.Probe(cache, everyTenSeconds(), pods, status)
		expectHealth(t, "a Unknown NotChecked the pod was not checked yet", status)
	})
}

// An owner without a namespace has pods in several.
func TestPodsOfAClusterScopedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, other := startOperator(t), runningPod("a")
		other.Namespace, other.UID = "shop", "uid-other"
		owner := types.NamespacedName{Name: "cache"}
		pods := []*corev1.Pod{runningPod("a"), other}
		status := o.Probe(owner, everyTenSeconds(), pods, nil)
		time.Sleep(period)
		expectHealth(t, "a Healthy; a Healthy", o.Probe(owner, everyTenSeconds(), pods, status))
		o.Forget(owner)
		if o.Len() != 0 {
			t.Errorf("%d pods are checked", o.Len())
		}
	})
}

func TestObservationsCanBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := startOperator(t)
		seen := make(chan healthcheck.Outcome, 100)
		o.Observed = func(observation healthcheck.Observation) { seen <- observation.Outcome }
		o.Probe(cache, everyTenSeconds(), []*corev1.Pod{runningPod("a")}, nil)
		if got := <-seen; got != healthcheck.Passed {
			t.Error(got)
		}
	})
}
