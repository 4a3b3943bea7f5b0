package health

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// maxNames is how many pods a message names.
const maxNames = 5

// Messages read the same for as long as nothing changes: each new one is a write.
const (
	messageNotChecked = "the pod was not checked yet"
	messageHealthy    = "the health check passes in every pod"
	messageNoPods     = "there is no pod to check"
	messageNoCheck    = "spec.healthCheck is not given"
)

// Condition is the condition Healthy without its times.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// NoCheck is the condition Healthy of an app without a health check.
func NoCheck() Condition {
	return Condition{metav1.ConditionUnknown, v1alpha1.ReasonNotRequested, messageNoCheck}
}

// worst are the reasons that a condition may have, the one that it has first being the
// first of which there are pods.
var worst = []struct {
	status       metav1.ConditionStatus
	health       v1alpha1.PodHealth
	reason, text string
}{
	{metav1.ConditionFalse, v1alpha1.PodUnhealthy, v1alpha1.ReasonHealthCheckFailed, "the health check fails in"},
	{metav1.ConditionFalse, v1alpha1.PodUnhealthy, v1alpha1.ReasonExecLeaked, "the command of the health check does not end in"},
	{metav1.ConditionUnknown, v1alpha1.PodHealthUnknown, v1alpha1.ReasonExecForbidden, "the operator may not make the health check in"},
	{metav1.ConditionUnknown, v1alpha1.PodHealthUnknown, v1alpha1.ReasonHealthCheckUnreachable, "the health check cannot be made in"},
	{metav1.ConditionUnknown, v1alpha1.PodHealthUnknown, v1alpha1.ReasonNotChecked, "the health check was not made yet in"},
}

// conditionOf is the condition for the pods, which are in order of their names.
func conditionOf(pods []Pod) Condition {
	if len(pods) == 0 {
		return Condition{metav1.ConditionUnknown, v1alpha1.ReasonNotChecked, messageNoPods}
	}
	for _, w := range worst {
		if names := namesOf(pods, w.health, w.reason); len(names) > 0 {
			return Condition{w.status, w.reason, fmt.Sprintf("%s %d of %d pods: %s", w.text, len(names), len(pods), Names(names))}
		}
	}
	return Condition{metav1.ConditionTrue, v1alpha1.ReasonHealthy, messageHealthy}
}

func namesOf(pods []Pod, health v1alpha1.PodHealth, reason string) []string {
	var names []string
	for i := range pods {
		if r := &pods[i].Record; r.Health == health && r.Reason == reason {
			names = append(names, pods[i].Name)
		}
	}
	return names
}

// Names lists the names of pods: five at most, and how many more there are.
func Names(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
