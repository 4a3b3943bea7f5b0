package appservice

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
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
