package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FromController returns the cause that the status of a Deployment, ReplicaSet or Job shows, or
// nil. Its pods can show a more precise one: see [DiagnoseOr].
func FromController(o metav1.Object) *Cause {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return FromDeployment(o)
	case *appsv1.ReplicaSet:
		return fromReplicaSet(o)
	case *batchv1.Job:
		return FromJob(o)
	}
	return nil
}

// fromReplicaSet returns the cause for which a ReplicaSet cannot create or delete pods, or nil.
func fromReplicaSet(r *appsv1.ReplicaSet) *Cause {
	wanted := int32(1)
	if r.Spec.Replicas != nil {
		wanted = *r.Spec.Replicas
	}
	for _, c := range r.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue && (c.Reason == ReasonFailedDelete || r.Status.Replicas < wanted) {
			return fromReplicaFailure(Object{Kind: "ReplicaSet", Name: r.Name}, c.Reason, c.Message, c.LastTransitionTime.Time)
		}
	}
	return nil
}

// FromDeployment returns the cause that a Deployment itself shows, or nil. Unless it is paused,
// its pods can show a more precise one.
func FromDeployment(d *appsv1.Deployment) *Cause {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	object := Object{Kind: "Deployment", Name: d.Name}
	if paused := pausedText(d, wanted); paused != "" {
		return &Cause{
			Reason: ReasonDeploymentPaused, Object: object, Message: paused, Count: 1,
			Advice: fmt.Sprintf("run: kubectl rollout resume deployment/%s -n %s", d.Name, d.Namespace),
		}
	}
	var deadline *Cause
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && (c.Reason == ReasonFailedDelete || d.Status.UpdatedReplicas < wanted),
			c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == replicaSetCreateError:
			return fromReplicaFailure(object, c.Reason, c.Message, c.LastTransitionTime.Time)
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse:
			deadline = &Cause{
				Reason: ReasonProgressDeadlineExceeded, Object: object, Time: c.LastTransitionTime.Time,
				Message: "the rollout takes longer than progressDeadlineSeconds", Advice: "no cause was found; check the pods", Transient: true,
			}
		}
	}
	return deadline
}

// replicaSetCreateError is the reason of a Deployment that cannot create its ReplicaSet:
// kubernetes/pkg/controller/deployment/util/deployment_util.go.
const replicaSetCreateError = "ReplicaSetCreateError"

// pausedText returns what a pause prevents, or "". The controller of Deployments still scales a
// paused one, but creates no ReplicaSet. The annotation shows that there is one.
func pausedText(d *appsv1.Deployment, wanted int32) string {
	const revision = "deployment.kubernetes.io/revision"
	s := &d.Status
	switch {
	case !d.Spec.Paused || s.ObservedGeneration != d.Generation:
	case s.UpdatedReplicas < s.Replicas:
		return "the Deployment is paused, so its pods keep an older template"
	case wanted > 0 && s.Replicas == 0 && d.Annotations[revision] == "":
		return "the Deployment is paused, so it creates no pods"
	}
	return ""
}

// FromJob returns the cause that the conditions of a failed Job show, or nil. Its pods can
// show a more precise one.
func FromJob(j *batchv1.Job) *Cause {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobFailureTarget} { // the second is set before its pods have ended
		i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
		if i < 0 {
			continue
		}
		c := &j.Status.Conditions[i]
		advice := "its pods and their logs no longer exist; create the Job again to see why it fails"
		switch c.Reason {
		case batchv1.JobReasonDeadlineExceeded:
			advice = deadlineAdvice
		case batchv1.JobReasonPodFailurePolicy:
			advice = "correct what makes the pod fail, or change spec.podFailurePolicy"
		case batchv1.JobReasonBackoffLimitExceeded:
			if j.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
				advice = "its pods and their logs no longer exist; set restartPolicy to Never, which keeps them, and create the Job again"
			}
		}
		return &Cause{
			Reason: ReasonError, Object: Object{Kind: "Job", Name: j.Name}, Time: c.LastTransitionTime.Time,
			Message: "the Job has failed: " + c.Message, Advice: advice,
		}
	}
	return nil
}

// FromAutoscaler returns why a HorizontalPodAutoscaler does not scale, by its conditions.
// The reasons are those of kubernetes/pkg/controller/podautoscaler/horizontal.go. A target
// that is scaled to 0 is no problem.
func FromAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) []Cause {
	var causes []Cause
	for _, c := range h.Status.Conditions {
		if c.Type != autoscalingv2.ScalingActive && c.Type != autoscalingv2.AbleToScale || c.Status != corev1.ConditionFalse || c.Reason == "ScalingDisabled" {
			continue
		}
		cause := scalingCause(h, c.Message)
		cause.Reason, cause.Object, cause.Time, cause.Since = c.Reason, Object{Kind: kindAutoscaler, Name: h.Name}, c.LastTransitionTime.Time, c.LastTransitionTime.Time
		cause.sanitize()
		causes = append(causes, cause)
	}
	return causes
}

// FromBudget returns why a PodDisruptionBudget allows no eviction even if all of its pods are
// healthy, or nil. The rules are those of kubernetes/pkg/registry/core/pod/storage/eviction.go and
// pkg/controller/disruption/disruption.go.
func FromBudget(b *policyv1.PodDisruptionBudget) *Cause {
	s := &b.Status
	if s.ObservedGeneration < b.Generation {
		return nil
	}
	cause := &Cause{Object: Object{Kind: kindBudget, Name: b.Name}, Count: 1}
	failed := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	switch {
	case failed != nil && failed.Status == metav1.ConditionFalse && failed.Reason == policyv1.SyncFailedReason:
		cause.Reason, cause.Message = failed.Reason, failed.Message
		cause.Advice = "correct spec.selector, or the pods that it selects; until then, no pod can be evicted"
	case s.ExpectedPods > 0 && s.DisruptionsAllowed == 0 && s.DesiredHealthy >= s.ExpectedPods:
		cause.Reason, cause.Message = policyv1.InsufficientPodsReason, fmt.Sprintf("it allows no eviction while it covers %s, so that a drain of their nodes does not end: %s",
			plural(s.ExpectedPods, "pod"), budgetText(b))
		cause.Advice = "run more pods, or change the budget so that one pod may be unavailable"
	default:
		return nil
	}
	cause.sanitize()
	return cause
}

// budgetText returns the field that sets the budget.
func budgetText(b *policyv1.PodDisruptionBudget) string {
	field := "minAvailable is " + b.Spec.MinAvailable.String()
	if b.Spec.MaxUnavailable != nil {
		field = "maxUnavailable is " + b.Spec.MaxUnavailable.String()
	}
	return field + ", and " + plural(b.Status.DesiredHealthy, "healthy pod") + " must stay"
}

func plural(n int32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

const (
	kindAutoscaler = "HorizontalPodAutoscaler"
	kindBudget     = "PodDisruptionBudget"
)

// scalingRules explain the messages of kubernetes/pkg/controller/podautoscaler
// (replica_calculator.go, metrics/client.go, horizontal.go) and of
// k8s.io/metrics/pkg/client/custom_metrics/discovery.go.
var scalingRules = []rule{
	{name: "scaling-container-request-missing", problem: lasting,
		text:    compile(`missing request for (\S+) in container (\S+) of Pod (\S+)`),
		message: `container "$2" of pod "$3" has no request for $1, so that its utilization is unknown`,
		advice:  "set resources.requests.$1 of the container in the pod template"},
	{name: "scaling-pod-request-missing", problem: lasting,
		text:    compile(`missing pod-level request for (\S+) in Pod (\S+)`),
		message: `pod "$2" has no request for $1 for the whole pod, so that its utilization is unknown`,
		advice:  "set spec.resources.requests.$1 in the pod template"},
	{name: "scaling-container-not-found", problem: lasting,
		text:    compile(`container (\S+) not found in Pod (\S+)`),
		message: `a metric names container "$1", which pod "$2" does not have`,
		advice:  "correct spec.metrics"},
	{name: "metrics-server-missing", problem: lasting,
		text:    compile(`resource metrics API: the server could not find the requested resource`),
		message: "the cluster does not serve the API metrics.k8s.io, so that the use of CPU and memory is unknown",
		advice:  "ask the cluster's administrator to install metrics-server"},
	{name: "custom-metrics-api-missing", problem: lasting,
		text:    compile(`no custom metrics API \((\S+)\) registered`),
		message: "the cluster does not serve the API $1",
		advice:  "ask the cluster's administrator to install an adapter for custom metrics, or use other metrics"},
	{name: "metric-not-found", problem: lasting,
		text:    compile(`(custom|external) metrics API: the server could not find the metric (\S+)`),
		message: `the $1 metrics API has no metric "$2"`,
		advice:  "correct the name of the metric, or the rules of the metrics adapter"},
	{name: "metric-not-served", problem: lasting,
		text:    compile(`(custom|external) metrics API: the server could not find the requested resource`),
		message: "the $1 metrics API does not serve the metric",
		advice:  "check that a metrics adapter is installed and has the metric"},
	{name: "metrics-api-unavailable", problem: passing,
		text:    compile(`(resource|custom|external) metrics API: the server is currently unable to handle the request`),
		message: "the server of the $1 metrics API does not answer",
		advice:  "wait; if the problem persists, ask the cluster's administrator to check metrics-server or the metrics adapter",
		late:    "ask the cluster's administrator to check metrics-server or the metrics adapter"},
	{name: "metrics-empty", problem: passing,
		text:    compile(`no metrics returned from (resource|custom|external) metrics API`),
		message: "the $1 metrics API has no metrics of the pods",
		advice:  "wait if the pods have just started; otherwise check the metrics server",
		late:    "check the metrics server"},
	{name: "metrics-of-other-pods", problem: passing,
		text:    compile(`no metrics returned matched known pods`),
		message: "the metrics are those of other pods than the present ones",
		advice:  "wait if the pods have just started; otherwise check the metrics server",
		late:    "check the metrics server"},
	{name: "keda-not-reachable", problem: passing,
		text:    compile(`gRPC connection to KEDA Metrics Service`),
		message: "the operator of KEDA does not answer",
		advice:  administratorLater, late: administrator},
	{name: "keda-metric-fails", problem: passing,
		text:    compile(`error when getting metric values \w+:(\S+) encountered error`),
		message: `KEDA cannot get metric "$1"`,
		advice:  "see the Events of the ScaledObject (kubectl describe scaledobject)"},
	{name: "scaling-no-ready-metrics", problem: passing,
		text:    compile(`did not receive metrics for targeted pods`),
		message: "there are no metrics of ready pods",
		advice:  "wait if the pods have just started; otherwise find out why they are not ready",
		late:    "find out why the pods are not ready"},
	{name: "scaling-target-has-no-pods", problem: passing,
		text:    compile(`no pods returned by selector`),
		message: "the target has no pods",
		advice:  "find out why its pods are missing"},
	{name: "scaling-target-not-found", problem: lasting,
		text:    compile(`(?:^|current scale: )(\S+) "([^"]+)" not found$`),
		message: `$1 "$2", which scaleTargetRef names, does not exist`,
		advice:  "correct spec.scaleTargetRef, or create the object"},
	{name: "scaling-target-without-scale", problem: lasting,
		text:    compile(`current scale: the server could not find the requested resource`),
		message: "the target cannot be scaled: its kind has no scale",
		advice:  "let the autoscaler scale a Deployment, a StatefulSet, or another kind that can be scaled"},
	{name: "scaling-target-kind-unknown", problem: lasting,
		text:    compile(`(?:^|current scale: )no matches for kind "([^"]+)" in (?:version|group) "([^"]*)"`),
		message: `the cluster has no kind "$1" in "$2", which scaleTargetRef names`,
		advice:  "correct apiVersion and kind in spec.scaleTargetRef"},
	{name: "scaling-container-without-metrics", problem: passing,
		text:    compile(`container (\S+) not present in metrics for pod (\S+)`),
		message: `there are no metrics of container "$1" in pod "$2"`,
		advice:  "wait if the pod has just started; otherwise correct the name of the container in spec.metrics",
		late:    "correct the name of the container in spec.metrics"},
	{name: "scaling-target-without-selector", problem: lasting,
		text:    compile(`scale is missing a selector|^selector is required`),
		message: "the scale of the target has no selector, so that its pods are unknown",
		advice:  "use another target; a custom kind needs labelSelectorPath in its CustomResourceDefinition"},
	{name: "autoscaler-forbidden", problem: lasting,
		text:    compile(`is forbidden: User "([^"]+)" (cannot .*)`),
		message: `user "$1" $2`,
		advice:  "ask the cluster's administrator for the permission"},
	{name: "several-autoscalers", problem: lasting,
		text:    compile(`(pods by selector .* are controlled by more than one HPA.*)`),
		message: "$1",
		advice:  "change scaleTargetRef, or delete all but one of them"},
}

// scalingCause explains the message of a condition, or quotes it.
func scalingCause(h *autoscalingv2.HorizontalPodAutoscaler, message string) Cause {
	if cause, ok := scalingRule(message); ok {
		return cause
	}
	return Cause{
		Message: strings.TrimPrefix(message, "the HPA was unable to compute the replica count: "), Transient: true,
		Advice: fmt.Sprintf("check spec.metrics, and %s %q", h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name),
	}
}

// scalingRule returns the message and the advice of the first rule that matches.
func scalingRule(message string) (Cause, bool) {
	if r, ok := match(scalingRules, message); ok {
		return Cause{Message: r.message, Advice: r.advice, LateAdvice: r.late, Transient: r.transient}, true
	}
	return Cause{}, false
}
