package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxConditions limits the conditions that are shown of an object.
const maxConditions = 50

// wantedStatus is the status of conditions that by convention show whether an object
// works. Other conditions are only shown, because a type alone does not say which status
// is good.
var wantedStatus = map[string]metav1.ConditionStatus{
	// sigs.k8s.io/cli-utils/pkg/kstatus
	"Ready": metav1.ConditionTrue, "Stalled": metav1.ConditionFalse,
	// kube-aggregator/pkg/apis/apiregistration/v1/types.go, apps/v1
	"Available": metav1.ConditionTrue,
	// apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go
	"Established": metav1.ConditionTrue, "NamesAccepted": metav1.ConditionTrue,
	// gateway-api/apis/v1
	"Accepted": metav1.ConditionTrue, "Programmed": metav1.ConditionTrue, "ResolvedRefs": metav1.ConditionTrue,
	// crossplane-runtime/apis/common/v1/condition.go
	"Synced": metav1.ConditionTrue,
	// fluxcd/pkg/apis/meta/conditions.go
	"Healthy": metav1.ConditionTrue,
	// openshift/api/config/v1/types_cluster_operator.go
	"Degraded": metav1.ConditionFalse,
	// api/batch/v1, api/certificates/v1
	"Failed": metav1.ConditionFalse,
}

// anyKind explains an object of a type without rules of its own. It follows the
// conventions of Kubernetes' API, as kstatus implements them. It reads no other fields
// than a phase with its reason and message.
func (q *inquiry) anyKind(kind schema.GroupVersionKind) error {
	q.explanation.passive = true
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	if readable, err := q.targetOf(kind.Kind, u); !readable {
		return err
	}
	conditions := conditionsOf(u)
	q.explanation.Conditions = conditions
	result, err := status.Compute(u)
	if err != nil { // its status does not follow the conventions
		result = &status.Result{Status: status.CurrentStatus}
	}
	switch behind := generationBehind(u); {
	case result.Status == status.TerminatingStatus:
		q.set(kind.Kind, Stopped, "it is being deleted")
	case behind != "": // its conditions are about an earlier spec
		q.set(kind.Kind, Waiting, behind)
	default:
		q.byConditions(kind.Kind, u, conditions, result)
	}
	return nil
}

// ownConditions explains the alarms, receivers, shares and grants of Bongsu. Their conditions say
// what is wrong and what to do.
func (q *inquiry) ownConditions() error {
	kind, err := q.client.RESTMapper().KindFor(q.resource.WithVersion(""))
	if err != nil {
		return err
	}
	return q.anyKind(kind)
}

// byConditions sets the state and the causes from the conditions.
func (q *inquiry) byConditions(kind string, u *unstructured.Unstructured, conditions []metav1.Condition, result *status.Result) {
	summary := ""
	for _, c := range conditions {
		if wanted, ok := wantedStatus[c.Type]; ok && c.Status != wanted && c.Status != metav1.ConditionUnknown && c.Reason != v1alpha1.ReasonCopying {
			summary = cmp.Or(summary, isStatus(c))
			q.workload.Known = append(q.workload.Known, fromCondition(diagnosis.Object{Kind: kind, Name: u.GetName()}, c))
		}
	}
	if cause := failedPhase(diagnosis.Object{Kind: kind, Name: u.GetName()}, u); cause != nil && !slices.ContainsFunc(conditions, isConventional) {
		summary, q.workload.Known = "its phase is "+statusText(u, "phase"), []diagnosis.Cause{*cause}
	}
	switch {
	case len(q.workload.Known) > 0:
		q.set(kind, Waiting, summary)
		q.lastWarning(kind, u, time.Time{})
	case result.Status == status.CurrentStatus:
		q.set(kind, Running, plainSummary(u, conditions))
	default:
		q.set(kind, Waiting, cmp.Or(shortLine(result.Message), "its conditions do not say why"))
		q.lastWarning(kind, u, time.Time{})
	}
}

// generationBehind returns a text if the controller has not processed the spec yet.
func generationBehind(u *unstructured.Unstructured) string {
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if err != nil || !found || observed >= u.GetGeneration() {
		return ""
	}
	return fmt.Sprintf("its controller has processed generation %d of the spec, but not yet generation %d: check that the controller is running", observed, u.GetGeneration())
}

// plainSummary returns the summary of an object without a known problem.
func plainSummary(u *unstructured.Unstructured, conditions []metav1.Condition) string {
	if i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return wantedStatus[c.Type] == c.Status }); i >= 0 {
		return isStatus(conditions[i])
	}
	if phase := statusText(u, "phase"); phase != "" {
		return "its phase is " + phase
	}
	if len(conditions) > 0 {
		return "its conditions follow no known convention"
	}
	return "it exists; it reports no conditions"
}

// isConventional reports whether the type of a condition says which status is good.
func isConventional(c metav1.Condition) bool {
	_, ok := wantedStatus[c.Type]
	return ok
}

// failedPhases are phases of objects that have a problem, in lower case.
var failedPhases = []string{"failed", "error", "lost"}

// failedPhase quotes a phase that shows a problem, or returns nil.
func failedPhase(object diagnosis.Object, u *unstructured.Unstructured) *diagnosis.Cause {
	phase := statusText(u, "phase")
	if !slices.Contains(failedPhases, strings.ToLower(phase)) {
		return nil
	}
	reason, message := statusText(u, "reason"), statusText(u, "message")
	return &diagnosis.Cause{
		Reason: cmp.Or(reason, phase), Object: object,
		Message: "its phase is " + phase + ": " + cmp.Or(message, reason, "its controller gives no message"),
	}
}

// statusText returns a text of the status, with a limit and without control characters.
func statusText(u *unstructured.Unstructured, field string) string {
	text, _, _ := unstructured.NestedString(u.Object, "status", field)
	return shortLine(text)
}

// nested are lists in the status whose items have conditions of their own, with the path
// of the item's name. They are those of gateway-api/apis/v1.
var nested = map[string][]string{"parents": {"parentRef", "name"}, "listeners": {"name"}, "ancestors": {"ancestorRef", "name"}}

// conditionsOf returns the conditions of the status that have the usual form.
func conditionsOf(u *unstructured.Unstructured) []metav1.Condition {
	conditions := conditionsIn(u.Object["status"], "")
	for _, list := range slices.Sorted(maps.Keys(nested)) {
		items, _, _ := unstructured.NestedSlice(u.Object, "status", list)
		for _, item := range items[:min(len(items), maxConditions)] {
			fields, _ := item.(map[string]any)
			name, _, _ := unstructured.NestedString(fields, nested[list]...)
			conditions = append(conditions, conditionsIn(item, strings.TrimSuffix(list, "s")+" "+name)...)
		}
	}
	return conditions[:min(len(conditions), maxConditions)]
}

// conditionsIn returns the conditions of a part of the status. Their messages begin with
// its name.
func conditionsIn(part any, name string) []metav1.Condition {
	fields, _ := part.(map[string]any)
	items, _, _ := unstructured.NestedSlice(fields, "conditions")
	var conditions []metav1.Condition
	for _, item := range items[:min(len(items), maxConditions)] {
		fields, ok := item.(map[string]any)
		var c metav1.Condition
		if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) != nil || c.Type == "" {
			continue
		}
		c.Message = strings.Trim(name+": "+c.Message, ": ")
		conditions = append(conditions, short(c))
	}
	return conditions
}

// short returns the condition with limited texts, without control characters.
func short(c metav1.Condition) metav1.Condition {
	c.Type, c.Reason, c.Message = shortLine(c.Type), shortLine(c.Reason), shortLine(c.Message)
	return c
}

func shortLine(text string) string {
	const limit = 1000
	return plaintext.Cut(plaintext.Line(text), limit)
}

// fromCondition quotes a condition that shows a problem.
func fromCondition(object diagnosis.Object, c metav1.Condition) diagnosis.Cause {
	return diagnosis.Cause{
		Reason: cmp.Or(c.Reason, c.Type), Object: object, Time: c.LastTransitionTime.Time, Transient: c.Type != string(status.ConditionStalled),
		Message: isStatus(c) + ": " + cmp.Or(c.Message, "its controller gives no message"),
	}
}

func isStatus(c metav1.Condition) string { return fmt.Sprintf("condition %s is %s", c.Type, c.Status) }

// lastWarning adds the latest Warning of an object that is not ready, if it is from after
// a time.
func (q *inquiry) lastWarning(kind string, o metav1.Object, after time.Time) {
	q.readEventsOf(kind, []string{o.GetName()})
	var last *diagnosis.Event
	for i := range q.workload.Events {
		e := &q.workload.Events[i]
		if e.Type == corev1.EventTypeWarning && (e.UID == "" || e.UID == o.GetUID()) && (last == nil || e.LastSeen.After(last.LastSeen)) {
			last = e
		}
	}
	q.workload.Events = nil // the diagnosis is for workloads
	if last == nil || last.LastSeen.Before(after) {
		return
	}
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: last.Reason, Object: diagnosis.Object{Kind: kind, Name: o.GetName()}, Transient: true,
		Message: "its last Warning is: " + last.Note, Time: last.LastSeen, Count: int32(min(last.Count, 1<<30)),
	})
}
