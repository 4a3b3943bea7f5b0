package condition_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/pkg/condition"
)

func ExampleSet() {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakePassiveClock(noon)
	var conditions []metav1.Condition
	for _, message := range []string{"0 of 3 pods are ready", "2 of 3 pods are ready"} {
		condition.Set(&conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", Message: message}, clk)
		clk.SetTime(noon.Add(time.Minute))
	}
	fmt.Println(conditions[0].Message, "since", conditions[0].LastTransitionTime.UTC().Format(time.TimeOnly))
	// Output: 2 of 3 pods are ready since 12:00:00
}
