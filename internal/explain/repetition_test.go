package explain_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/explain"
)

func TestTheTextContainsTheSentenceOfTheCauseOnce(t *testing.T) {
	const message, advice = "no node can take the pod", "request less"
	x := &explain.Explanation{
		Kind: "Jupyter", Namespace: "lab", Name: "nb", State: explain.Failing,
		Cause:  &explain.Cause{Reason: "FailedScheduling", Object: explain.Object{Kind: "Pod", Name: "nb-0"}, Message: message, Advice: advice},
		Others: []explain.Cause{{Reason: "ClaimPending", Object: explain.Object{Kind: "PersistentVolumeClaim", Name: "nb"}, Message: "claim waits"}},
		Conditions: []metav1.Condition{
			{Type: "Stalled", Status: "True", Reason: "FailedScheduling", Message: message + ": " + advice},
			{Type: "Ready", Status: "False", Reason: "FailedScheduling", Message: message + ": " + advice + " (besides: ClaimPending of PersistentVolumeClaim nb)"},
			{Type: "StorageReady", Status: "False", Reason: "ClaimPending", Message: "claim waits"},
			{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: message + ", and more"},
		},
		LastFailure: &v1alpha1.LastFailure{Reason: "FailedScheduling", Object: v1alpha1.FailureObject{Kind: "Pod", Name: "nb-0"}, Message: message + ": " + advice},
	}
	var out strings.Builder
	if err := explain.WriteText(&out, x, time.Now()); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for part, want := range map[string]int{
		message: 2, advice: 1, "claim waits": 1, ": as above\n": 3, "  as above\n": 1, "Unschedulable: " + message + ", and more\n": 1,
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%q occurs %d times, want %d:\n%s", part, got, want, text)
		}
	}
	if x.LastFailure.Message == "as above" || x.Conditions[0].Message == "as above" {
		t.Error("the explanation itself has changed")
	}
}
