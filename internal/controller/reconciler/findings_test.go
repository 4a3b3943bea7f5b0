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
