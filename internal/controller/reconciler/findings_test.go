package reconciler

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func TestTheObjectsOfAFormerOwnerHaveAMinuteToDisappear(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		owner string
		age   time.Duration
		want  time.Duration
	}{
		"a former owner of the name":             {"AppService web", 10 * time.Second, 50 * time.Second},
		"the object stays":                       {"AppService web", time.Minute, 0},
		"another owner":                          {"AppService shop", 0, 0},
		"an owner of another kind with the name": {"Jupyter web", 0, 0},
		"no owner":                               {"", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			owner := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", CreationTimestamp: metav1.NewTime(now.Add(-tc.age))}}
			f := &Findings{Kind: v1alpha1.KindAppService, Owner: owner}
			cause := f.Conflict(&children.ConflictError{Kind: "Deployment", Name: "web", Owner: tc.owner})
			f.SetCause(diagnosis.Diagnose(diagnosis.Workload{Known: []diagnosis.Cause{cause}}), nil)
			if f.Cause == nil || f.Cause.Reason != diagnosis.ReasonResourceConflict {
				t.Fatalf("cause %+v", f.Cause)
			}
			if got := f.FormerGraceLeft(now); got != tc.want {
				t.Errorf("grace of %v left, want %v", got, tc.want)
			}
		})
	}
}

// The advice that changes first counts, also if it is that of another cause.
func TestTheAdviceAboutAnObjectOfAFormerOwnerEnds(t *testing.T) {
	created := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	f := &Findings{Kind: v1alpha1.KindAppService, Owner: &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", CreationTimestamp: metav1.NewTime(created)}}}
	f.Add(f.Conflict(&children.ConflictError{Kind: "Deployment", Name: "web", Owner: "AppService web"}))
	for age, want := range map[time.Duration]struct {
		advice string
		left   time.Duration
	}{
		10 * time.Minute: {"wait until the cluster deletes it, or delete it", 20 * time.Minute},
		time.Hour:        {"waiting since 2026-11-01 12:00 UTC has not helped: delete it", 0},
	} {
		now := created.Add(age)
		f.SetCause(diagnosis.Diagnose(diagnosis.Workload{Known: f.Known, Now: now}), nil)
		f.Others = []diagnosis.Cause{*f.Cause, {Advice: "wait"}}
		f.Cause = &diagnosis.Cause{Advice: "correct it"}
		if f.Others[0].Advice != want.advice || f.WaitLeft(now) != want.left {
			t.Errorf("after %v: %q, %v left", age, f.Others[0].Advice, f.WaitLeft(now))
		}
	}
}
