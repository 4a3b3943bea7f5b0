package appservice

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// A startup probe that may still fail is part of a start, however long ago the pod was created.
func TestAStartThatThePodAllowsIsNoFailure(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := &Reconciler{Helpers: &reconciler.Helpers{Clock: testingclock.NewFakeClock(now)}}
	for left, want := range map[time.Duration]time.Duration{8 * time.Minute: 8 * time.Minute, -time.Second: 0} {
		a := &app{findings: reconciler.Findings{Cause: &diagnosis.Cause{Reason: diagnosis.ReasonUnhealthy, LateAfter: now.Add(left)}}}
		if got := r.graceLeft(a); got != want {
			t.Errorf("%v are left, want %v", got, want)
		}
	}
}

// When the advice changes, nothing else may happen.
func TestAnAppIsRequeuedWhenWaitingHasNotHelped(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	clock := testingclock.NewFakeClock(now)
	r := &Reconciler{Helpers: &reconciler.Helpers{Clock: clock, Writer: status.NewWriter(nil, clock, "test")}}
	for age, want := range map[time.Duration]time.Duration{20 * time.Minute: 10 * time.Minute, 30 * time.Minute: 0} {
		a := newApp(&v1alpha1.AppService{})
		a.findings.Cause = &diagnosis.Cause{Reason: diagnosis.ReasonErrImagePull, Advice: "wait", LateAdvice: "push it again", Since: now.Add(-age)}
		if got := r.setStatus(a); got != want {
			t.Errorf("after %v, it is requeued after %v, want %v", age, got, want)
		}
	}
}
