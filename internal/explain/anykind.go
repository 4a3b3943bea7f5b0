package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// tekton.dev/docs/pipelines, cert-manager.io/docs, strimzi.io/docs and others
	"Succeeded": metav1.ConditionTrue, "Valid": metav1.ConditionTrue, "Installed": metav1.ConditionTrue, "Admitted": metav1.ConditionTrue,
	"Reconciled": metav1.ConditionTrue, "NotReady": metav1.ConditionFalse,
	// certificates/v1
	"Approved": metav1.ConditionTrue, "Denied": metav1.ConditionFalse,
	// aws-controllers-k8s/runtime/apis/core/v1alpha1/conditions.go
	"ACK.Terminal": metav1.ConditionFalse, "ACK.Recoverable": metav1.ConditionFalse,
	"ACK.ResourceSynced": metav1.ConditionTrue, "ACK.ReferencesResolved": metav1.ConditionTrue,
}

// wantedOf returns the good status of conditions of a type, if the type says which one that is.
// Types that end with a failure, such as ReplicaFailure or ErrorOccurred, do.
func wantedOf(conditionType string) (metav1.ConditionStatus, bool) {
	if wanted, ok := wantedStatus[conditionType]; ok {
		return wanted, true
	}
	words := wordsOf(strings.TrimSuffix(conditionType, "Occurred"))
	return metav1.ConditionFalse, len(words) > 0 && isFailure(words, len(words)-1)
}

// isBad reports whether a condition shows a problem. Argo CD writes conditions without a status, and
// only while they are true.
func isBad(c metav1.Condition) bool {
	wanted, ok := wantedOf(c.Type)
	words := wordsOf(c.Reason)
	switch {
	case !ok && c.Status == metav1.ConditionFalse && len(words) > 1: // ContinuousArchiving of CloudNativePG, for example
		return isFailure(words, len(words)-1)
	case finishedType.MatchString(c.Type) && c.Status == metav1.ConditionTrue && len(words) > 0:
		return isFailure(words, len(words)-1)
	case !ok || c.Reason == v1alpha1.ReasonCopying || c.Reason == reconcilePaused:
		return false
	case c.Status == "":
		return wanted == metav1.ConditionFalse && hasMessage(c)
	}
	return c.Status != wanted && c.Status != metav1.ConditionUnknown
}

// finishedType matches conditions that are True after each end: their reason says whether it was a failure. See k8up.io.
var finishedType = regexp.MustCompile(`^(?:Completed?|Finished)$`)

// reconcilePaused is the reason of Crossplane for an object that it leaves alone, because an annotation says so:
// crossplane-runtime/apis/common/v1/condition.go.
const reconcilePaused = "ReconcilePaused"

// anyKind explains an object of a type without rules of its own. It follows the
// conventions of Kubernetes' API, as kstatus implements them. Without the usual conditions, it
// reads the fields in [stateFields] and an error.
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
	switch behind := generationBehind(u, conditions); {
	case result.Status == status.TerminatingStatus:
		q.customDeleted(kind, u, conditions)
	case isSuspended(u):
		q.suspended(kind, u)
	case behind != "": // its conditions are about an earlier spec
		q.set(kind.Kind, Waiting, behind)
		q.limitWait(changedAt(u, ""), objectReadyAfter)
	default:
		q.byStatus(kind, u, result)
		q.routed(u)
		q.missingInSpec(u)
		for _, e := range edges {
			if e.always && e.from == kind.GroupKind() {
				q.next = append(q.next, e.to(q)...)
			}
		}
		if made, ok := repeated[kind.GroupKind()]; ok {
			q.next = append(q.next, q.lastOf(made)...)
		}
		q.strimziCluster(u)
		q.volcanoCapability(u)
		q.ceph(u)
		q.longhornFaulted(u)
		q.unfinished(kind, u)
	}
	return nil
}

// customDeleted explains an object that is being deleted.
func (q *inquiry) customDeleted(kind schema.GroupVersionKind, u *unstructured.Unstructured, conditions []metav1.Condition) {
	q.set(kind.Kind, Stopped, "it is being deleted")
	if !q.isStuck(u) {
		return
	}
	if isCustom(kind) {
		q.next = append(q.next, q.finalizing(u)...)
	}
	if bad := badConditions(u, conditions); len(bad) > 0 {
		q.held = true
		q.workload.Known = append(q.workload.Known, conditionCause(diagnosis.Object{Kind: kind.Kind, Name: u.GetName()}, bad, conditions))
	}
}

// isSuspended reports whether the spec says that the object must not run: also kubeflow.org, RunPolicy.
func isSuspended(u *unstructured.Unstructured) bool {
	whole, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	runs, _, _ := unstructured.NestedBool(u.Object, "spec", "runPolicy", "suspend")
	return whole || runs
}

// suspended explains a suspended object. If Kueue has suspended it, it waits in a queue.
func (q *inquiry) suspended(kind schema.GroupVersionKind, u *unstructured.Unstructured) {
	queue := diagnosis.QueueText(u.GetLabels())
	if queue == "" {
		q.set(kind.Kind, Stopped, "it is suspended; set spec.suspend to false to resume it")
		return
	}
	q.set(kind.Kind, Stopped, "it is suspended; "+queue)
	q.next = append(q.next, q.ownedOf(u, []schema.GroupKind{kueueWorkload})...)
}

// activeState is a state in which an object can wait for others.
var activeState = regexp.MustCompile(`(?i)^(?:active|running)$`)

// unfinished adds what an object owns, if its status only says that it is active, or says nothing.
func (q *inquiry) unfinished(kind schema.GroupVersionKind, u *unstructured.Unstructured) {
	if q.explanation.State != Running || !isCustom(kind) || slices.ContainsFunc(q.explanation.Conditions, isConventional) ||
		slices.ContainsFunc(statesOf(u), func(f stateField) bool { return !activeState.MatchString(f.value) }) {
		return
	}
	if !hasStatus(u) {
		q.next = append(q.next, q.processedBy(u)...)
	}
	if len(q.walk.from) > 1 && !hasStatus(u) { // others use it, so that it only leads to what it names
		q.next = append(q.next, q.inSpec()...)
	}
	past := map[string]bool{}
	for _, o := range q.listOf(podKind) {
		p, ok := o.(*corev1.Pod)
		past[o.GetName()] = ok && ended(p)
	}
	for _, r := range q.owned() {
		if r.kind != podKind || !past[r.name] {
			q.next = append(q.next, r)
		}
	}
}

// hasStatus reports whether a controller has written a status.
func hasStatus(u *unstructured.Unstructured) bool {
	fields, _ := u.Object["status"].(map[string]any)
	return len(fields) > 0
}

// ownConditions explains the alarms, receivers, shares and grants of Bongsu. Their conditions say
// what is wrong and what to do.
func (q *inquiry) ownConditions() error {
	kind, err := q.client.RESTMapper().KindFor(q.resource.WithVersion(""))
	if err != nil {
		return err
	}
	q.explanation.partial = true // what runs in the cluster does not need them
	if err := q.anyKind(kind); err != nil {
		return err
	}
	if q.object != nil && q.object.GetDeletionTimestamp() == nil && len(q.explanation.Conditions) == 0 && len(q.workload.Known) == 0 {
		q.set(kind.Kind, Waiting, q.notProcessed())
		q.limitWait(q.object.GetCreationTimestamp().Time, processedAfter)
	}
	return nil
}

// byStatus sets the state and the causes from the conditions, or else from other fields of the status.
func (q *inquiry) byStatus(kind schema.GroupVersionKind, u *unstructured.Unstructured, result *status.Result) {
	switch kind.GroupKind() {
	case kueueWorkload:
		q.kueueWorkload(u)
		return
	case localQueue, clusterQueue, admissionCheck:
		q.kueueQueue(u)
		return
	}
	object, conditions := diagnosis.Object{Kind: kind.Kind, Name: u.GetName()}, q.explanation.Conditions
	states, bad := statesOf(u), badConditions(u, conditions)
	usual := slices.ContainsFunc(conditions, isConventional)
	stopped := slices.IndexFunc(states, func(f stateField) bool { return stoppedState.MatchString(f.value) })
	off := slices.IndexFunc(conditions, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionTrue && stopCondition.MatchString(c.Type)
	})
	paused := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Reason == reconcilePaused })
	if usual && (stopped < 0 || len(bad) == 0) {
		states, stopped = nil, -1 // they can be older than the conditions
	}
	if stopped >= 0 || off >= 0 { // what is stopped is not ready, but it can have failed
		bad = slices.DeleteFunc(bad, func(c metav1.Condition) bool { return wantedStatus[c.Type] == metav1.ConditionTrue })
	}
	var causes []diagnosis.Cause
	if len(bad) > 0 {
		causes = append(causes, conditionCause(object, bad, conditions))
		causes[0].Message = shortLine(causes[0].Message + moreOf(u, bad) + syncFailures(u) + decryption(u))
	} else if !usual {
		causes = badStates(object, u, states)
	}
	state, summary := plainState(kind, u, conditions, states)
	switch {
	case len(causes) > 0:
		summary, _, _ = strings.Cut(causes[0].Message, ": ")
		q.set(kind.Kind, Waiting, summary)
		q.workload.Known = causes
	case paused >= 0:
		q.set(kind.Kind, Stopped, conditions[paused].Message)
	case stopped >= 0:
		q.set(kind.Kind, Stopped, states[stopped].text())
	case off >= 0:
		q.set(kind.Kind, Stopped, strings.TrimSuffix(isStatus(conditions[off])+": "+conditions[off].Message, ": "))
	case result.Status != status.CurrentStatus:
		q.set(kind.Kind, Waiting, cmp.Or(shortLine(result.Message), "its conditions do not say why"))
	default:
		q.set(kind.Kind, state, summary)
	}
	if q.explanation.State == Waiting || q.explanation.State == Unknown {
		q.lastWarning(kind.Kind, u, time.Time{})
	} else if q.explanation.State == Running && !hasStatus(u) && isCustom(kind) {
		q.withoutStatus(kind.Kind, u)
	}
	if len(q.workload.Known) == 0 {
		q.limitWait(pendingSince(u, conditions), objectReadyAfter)
	}
}

// pendingSince returns since when a condition says that the object is being processed, or since when it
// exists if it has no status. Otherwise, that is since the status changed. It is zero if the time is unknown.
func pendingSince(u *unstructured.Unstructured, conditions []metav1.Condition) (since time.Time) {
	if !hasStatus(u) || u.GroupVersionKind().Group == acmeGroup { // an Order or a Challenge is never used again
		return u.GetCreationTimestamp().Time
	}
	for _, c := range conditions {
		pending := isConventional(c) && c.Status == metav1.ConditionUnknown
		if pending || c.Type == string(status.ConditionReconciling) && c.Status == metav1.ConditionTrue {
			since = latest(since, c.LastTransitionTime.Time)
		}
	}
	if since.IsZero() {
		return changedAt(u, subresourceStatus)
	}
	return since
}

// badConditions returns the conditions that show a problem. Those of parts of the object come first,
// because they have the details.
func badConditions(u *unstructured.Unstructured, conditions []metav1.Condition) []metav1.Condition {
	own := min(len(conditionsIn(u.Object["status"], "")), len(conditions))
	return slices.DeleteFunc(slices.Concat(conditions[own:], conditions[:own]), func(c metav1.Condition) bool { return !isBad(c) })
}

// conditionCause returns the cause in conditions that show a problem. It is the first one with a
// message, but Ready goes before the others, because by convention it sums them up.
func conditionCause(object diagnosis.Object, bad, conditions []metav1.Condition) diagnosis.Cause {
	rank := func(c metav1.Condition) (rank int) {
		if !hasMessage(c) {
			rank += 2
		}
		if c.Type != v1alpha1.ConditionReady {
			rank++
		}
		if c.Type == conditionProgrammed { // it sums up the others of a listener
			rank++
		}
		return rank
	}
	main := slices.MinFunc(bad, func(a, b metav1.Condition) int { return cmp.Compare(rank(a), rank(b)) })
	if i := slices.IndexFunc(bad, func(c metav1.Condition) bool { return c.Type == main.Reason && hasMessage(c) }); i >= 0 {
		main = bad[i] // Ready is False because of Denied, for example
	}
	if i := slices.IndexFunc(conditions, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionFalse && hasMessage(c) && strings.Contains(main.Message, c.Type+"=False")
	}); i >= 0 {
		main = conditions[i] // the message of Ready only names it
	}
	cause := fromCondition(object, main)
	if i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse && hasMessage(c) }); i >= 0 && !hasMessage(main) {
		cause.Message = isStatus(main) + "; " + isStatus(conditions[i]) + ": " + conditions[i].Message
	}
	return cause
}

// moreOf returns the phase of an object whose conditions that show a problem only repeat their reason, and why it
// is in that phase.
func moreOf(u *unstructured.Unstructured, bad []metav1.Condition) string {
	if slices.ContainsFunc(bad, func(c metav1.Condition) bool { return !slices.Equal(wordsOf(c.Message), wordsOf(c.Reason)) }) {
		return ""
	}
	phase := statusText(u, "phase")
	if phase == "" {
		return ""
	}
	return strings.TrimSuffix("; its phase is "+phase+": "+statusText(u, "phaseReason"), ": ")
}

// conditionProgrammed is a condition of gateway-api/apis/v1.
const conditionProgrammed = "Programmed"

func hasMessage(c metav1.Condition) bool { return c.Message != "" }

// generationBehind returns a text if the controller has not processed the spec yet, as the status or
// all conditions say.
func generationBehind(u *unstructured.Unstructured, conditions []metav1.Condition) string {
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	for _, c := range conditions {
		if c.ObservedGeneration > 0 {
			observed, found = max(observed, c.ObservedGeneration), true
		}
	}
	if err != nil || !found || observed >= u.GetGeneration() {
		return ""
	}
	return fmt.Sprintf("its controller has processed generation %d of the spec, but not yet generation %d: check that the controller is running", observed, u.GetGeneration())
}

// plainState returns the state and the summary of an object without a known problem.
func plainState(kind schema.GroupVersionKind, u *unstructured.Unstructured, conditions []metav1.Condition, states []stateField) (State, string) {
	pending := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return isConventional(c) && c.Status == metav1.ConditionUnknown })
	good := slices.IndexFunc(conditions, func(c metav1.Condition) bool { wanted, ok := wantedOf(c.Type); return ok && c.Status == wanted })
	waits := slices.IndexFunc(states, func(f stateField) bool {
		return waitingState.MatchString(f.value) || strings.HasPrefix(strings.ToLower(f.message), "waiting for ")
	})
	fine := slices.IndexFunc(states, func(f stateField) bool { return goodState.MatchString(f.value) })
	fields, _ := u.Object["status"].(map[string]any)
	switch {
	case pending >= 0:
		return Waiting, strings.TrimSuffix(isStatus(conditions[pending])+": "+conditions[pending].Message, ": ")
	case good >= 0:
		return Running, isStatus(conditions[good])
	case waits >= 0:
		return Waiting, states[waits].text()
	case fine >= 0:
		return Running, states[fine].text()
	case len(states) > 0:
		return Unknown, states[0].text()
	case len(conditions) > 0:
		return Unknown, "its conditions follow no known convention"
	case kind.GroupKind() == signingRequest:
		return Waiting, "it is neither approved nor denied; kubectl certificate approve " + u.GetName()
	case kind.Group == gatewayGroup && strings.HasSuffix(kind.Kind, "Route"):
		return Waiting, "no controller has answered it: check that the objects in spec.parentRefs exist"
	case len(fields) > 0 && isCustom(kind):
		return Unknown, "its status follows no known convention"
	}
	return Running, "it exists; it reports no conditions"
}

// withoutStatus looks for a recent Warning of an object that has no status: nothing else can say that it fails.
func (q *inquiry) withoutStatus(kind string, u *unstructured.Unstructured) {
	q.lastWarning(kind, u, q.clock.Now().Add(-warningMaxAge))
	if len(q.workload.Known) > 0 {
		q.explanation.State = Unknown
	}
}

// isCustom reports whether a type is not one of Kubernetes.
func isCustom(kind schema.GroupVersionKind) bool {
	return strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io")
}

// signingRequest is a request for a certificate. A person or a controller approves or denies it, in a
// condition.
var signingRequest = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}

// isConventional reports whether the type of a condition says which status is good.
func isConventional(c metav1.Condition) bool {
	_, ok := wantedOf(c.Type)
	return ok
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
	disks, _, _ := unstructured.NestedMap(u.Object, "status", "diskStatus") // of a node of Longhorn
	for _, name := range slices.Sorted(maps.Keys(disks)) {
		conditions = append(conditions, conditionsIn(disks[name], "disk "+name)...)
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
		fields, _ := item.(map[string]any)
		if c := conditionFrom(fields); c.Type != "" {
			c.Message = strings.Trim(name+": "+c.Message, ": ")
			conditions = append(conditions, short(c))
		}
	}
	return conditions
}

// conditionFrom reads a condition. Some controllers write a boolean, or a time of another form.
func conditionFrom(fields map[string]any) metav1.Condition {
	text := func(field string) string { s, _ := fields[field].(string); return s }
	c := metav1.Condition{
		Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"),
	}
	if is, ok := fields["status"].(bool); ok {
		c.Status = metav1.ConditionFalse
		if is {
			c.Status = metav1.ConditionTrue
		}
	}
	if strings.Contains(c.Reason, " ") { // Knative and ACK write a message there
		c.Reason, c.Message = "", strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
	}
	errors, _ := fields["errors"].([]any) // projectcontour.io/v1, DetailedCondition
	for _, e := range errors[:min(len(errors), maxReferences)] {
		fields, _ := e.(map[string]any)
		message, _ := fields["message"].(string)
		c.Message = strings.TrimSuffix(c.Message+": "+message, ": ")
	}
	c.ObservedGeneration, _ = fields["observedGeneration"].(int64)
	if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
		c.LastTransitionTime = metav1.NewTime(at)
	}
	return c
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

func isStatus(c metav1.Condition) string {
	if c.Status == "" {
		return "it has the condition " + c.Type
	}
	return fmt.Sprintf("condition %s is %s", c.Type, c.Status)
}

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
	if last == nil || last.LastSeen.Before(after) ||
		slices.ContainsFunc(q.workload.Known, func(c diagnosis.Cause) bool { return strings.Contains(c.Message, last.Note) }) {
		return
	}
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: last.Reason, Object: diagnosis.Object{Kind: kind, Name: o.GetName()}, Transient: true,
		Message: "its last Warning is: " + last.Note, Time: last.LastSeen, Count: int32(min(last.Count, 1<<30)),
	})
}
