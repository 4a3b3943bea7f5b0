package jupyter

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// When the grace ends, nothing else may happen.
func TestANotebookIsRequeuedWhenTheGracePeriodEnds(t *testing.T) {
	created := time.Unix(1_000_000, 0)
	clock := testingclock.NewFakeClock(created.Add(40 * time.Second))
	r := &Reconciler{Helpers: &reconciler.Helpers{Clock: clock}}
	j := &v1alpha1.Jupyter{Spec: v1alpha1.JupyterSpec{SchedulingGracePeriodSeconds: new(int32(60))}}
	n := newNotebook(j)
	n.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	n.findings.Cause = &diagnosis.Cause{Reason: diagnosis.ReasonFailedScheduling}
	if got := r.graceLeft(n); got != 20*time.Second {
		t.Errorf("after 40 s of 60, %v are left", got)
	}
	clock.Step(20 * time.Second)
	if got := r.graceLeft(n); got != 0 {
		t.Errorf("after 60 s, %v are left", got)
	}
}

// The pod of a notebook can have a startup probe of its own, from a sidecar of its template for example.
func TestAStartThatThePodAllowsIsNoFailure(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := &Reconciler{Helpers: &reconciler.Helpers{Clock: testingclock.NewFakeClock(now)}}
	n := newNotebook(&v1alpha1.Jupyter{})
	n.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	for left, want := range map[time.Duration]time.Duration{20 * time.Minute: 20 * time.Minute, -time.Second: 0} {
		n.findings.Cause = &diagnosis.Cause{Reason: diagnosis.ReasonUnhealthy, LateAfter: now.Add(left)}
		if got := r.graceLeft(n); got != want {
			t.Errorf("%v are left, want %v", got, want)
		}
	}
}

func TestANodeHasTenSecondsToSetAPodUp(t *testing.T) {
	scheduled := time.Unix(1_000_000, 0)
	r := &Reconciler{Helpers: &reconciler.Helpers{Clock: testingclock.NewFakeClock(scheduled.Add(4 * time.Second))}}
	n := newNotebook(&v1alpha1.Jupyter{})
	n.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(scheduled.Add(-time.Hour))},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, LastTransitionTime: metav1.NewTime(scheduled)}}},
	}
	for reason, want := range map[string]time.Duration{
		diagnosis.ReasonFailedMount: 6 * time.Second, diagnosis.ReasonFailedAttachVolume: 6 * time.Second,
		diagnosis.ReasonFailedCreatePodSandBox: 6 * time.Second, diagnosis.ReasonFailedPrepareDynamicResources: 6 * time.Second,
		diagnosis.ReasonErrImageNeverPull: 0,
	} {
		n.findings.Cause = &diagnosis.Cause{Reason: reason}
		if got := r.graceLeft(n); got != want {
			t.Errorf("%s: %v are left, want %v", reason, got, want)
		}
	}
}

// When the advice changes, nothing else may happen.
func TestANotebookIsRequeuedWhenWaitingHasNotHelped(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := &Reconciler{Helpers: &reconciler.Helpers{Clock: testingclock.NewFakeClock(now)}}
	for age, want := range map[time.Duration]time.Duration{20 * time.Minute: 10 * time.Minute, 30 * time.Minute: 0} {
		n := newNotebook(&v1alpha1.Jupyter{})
		n.findings.Cause = &diagnosis.Cause{Reason: diagnosis.ReasonErrImagePull, Advice: "wait", LateAdvice: "push it again", Since: now.Add(-age)}
		result, err := r.assess(t.Context(), n)
		if err != nil || result.RequeueAfter != want {
			t.Errorf("after %v, it is requeued after %v, want %v (%v)", age, result.RequeueAfter, want, err)
		}
	}
}
