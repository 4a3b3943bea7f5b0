package condition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clocktesting "k8s.io/utils/clock/testing"
)

var begun = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestLastTransitionTimeChangesOnlyWithTheStatus(t *testing.T) {
	base := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SecretNotFound", Message: "a"}
	for name, tc := range map[string]struct {
		next  metav1.Condition
		moves bool
	}{
		"the same":        {base, false},
		"another message": {metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "SecretNotFound", Message: "b"}, false},
		"another reason":  {metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "DeliveryFailing", Message: "a"}, false},
		"another status":  {metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "SecretNotFound", Message: "a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begun)
			var conditions []metav1.Condition
			Set(&conditions, base, clock)
			clock.SetTime(begun.Add(time.Hour))
			Set(&conditions, tc.next, clock)

			want := tc.next
			want.LastTransitionTime = metav1.NewTime(begun)
			if tc.moves {
				want.LastTransitionTime = metav1.NewTime(begun.Add(time.Hour))
			}
			if diff := cmp.Diff([]metav1.Condition{want}, conditions); diff != "" {
				t.Error(diff)
			}
		})
	}
}
