package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func widget(metadata, status string) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop, generation: 2%s}\nstatus: {%s}", metadata, status)
}

func TestAnyKindIsExplainedByItsConditions(t *testing.T) {
	const warning = `
---
apiVersion: v1
kind: Event
metadata: {name: w.1, namespace: shop}
involvedObject: {kind: Widget, name: w, namespace: shop}
type: Warning
reason: DNSFailed
message: no such host
lastTimestamp: "2026-03-01T08:59:00Z"`
	checkExplained(t, "widgets.example.com", "w", map[string]tc{
		"it is ready": {objects: widget("", `observedGeneration: 2, conditions: [{type: Ready, status: "True", reason: Made}]`) + warning, want: `
Widget shop/w shows no problem: condition Ready is True

Conditions:
  Ready True: Made`},
		"it has no conditions": {objects: widget("", "phase: Reticulating"), want: "Widget shop/w has an unknown state: its phase is Reticulating"},
		"its phase is good":    {objects: widget("", "phase: Bound"), want: "Widget shop/w shows no problem: its phase is Bound"},
		"it has failed": {objects: widget("", "phase: Failed, reason: NoSpace, message: the disk is full"), want: `
Widget shop/w has a problem: its phase is Failed

Cause: NoSpace in Widget w
  its phase is Failed: the disk is full`},
		"it has failed with a reason": {objects: widget("", "phase: error, reason: NoSpace"), want: `
Widget shop/w has a problem: its phase is error

Cause: NoSpace in Widget w
  its phase is error: NoSpace`},
		"it has failed in part": {objects: widget("", "phase: PartiallyFailed, validationErrors: [no such namespace, no such label]"), want: `
Widget shop/w has a problem: its phase is PartiallyFailed

Cause: PartiallyFailed in Widget w
  its phase is PartiallyFailed: no such namespace; no such label`},
		"it is lost": {objects: widget("", `phase: Lost, conditions: [{type: Frozen, status: "True"}]`) + warning, want: `
Widget shop/w has a problem: its phase is Lost

Cause: DNSFailed in Widget w (last 60s ago)
  its last Warning is: no such host

Also: Lost in Widget w
  its phase is Lost: its controller gives no message

Conditions:
  Frozen True`},
		"its status has another form, and it has failed": {objects: widget("", `phase: Failed, message: "a\u001bb", conditions: [ready, 1]`), want: `
Widget shop/w has a problem: its phase is Failed

Cause: Failed in Widget w
  its phase is Failed: ab`},
		"its condition is newer than its phase": {objects: widget("", `phase: Failed, conditions: [{type: Ready, status: "True"}]`), want: `
Widget shop/w shows no problem: condition Ready is True

Conditions:
  Ready True`},
		"it has no status": {objects: widget("", ""), want: "Widget shop/w shows no problem: it exists; it reports no conditions"},
		"it is not ready": {objects: widget("", `conditions: [{type: Ready, status: "False", reason: Pending, message: waiting for DNS, lastTransitionTime: "2026-03-01T08:50:00Z"}]`) + warning, want: `
Widget shop/w has a problem: condition Ready is False

Cause: DNSFailed in Widget w (last 60s ago)
  its last Warning is: no such host

Also: Pending in Widget w (last 10m ago)
  condition Ready is False: waiting for DNS

Conditions:
  Ready False: Pending: waiting for DNS`},
		"it is stalled": {objects: widget("", `conditions: [{type: Stalled, status: "True", reason: BadSpec, message: size is too large}]`), want: `
Widget shop/w has a problem: condition Stalled is True

Cause: BadSpec in Widget w
  condition Stalled is True: size is too large

Conditions:
  Stalled True: BadSpec: size is too large`},
		"its API does not answer": {objects: widget("", `conditions: [{type: Available, status: "False", reason: MissingEndpoints, message: no endpoints}]`), want: `
Widget shop/w has a problem: condition Available is False

Cause: MissingEndpoints in Widget w
  condition Available is False: no endpoints

Conditions:
  Available False: MissingEndpoints: no endpoints`},
		"it makes progress": {objects: widget("", `conditions: [{type: Reconciling, status: "True", reason: Working, message: copying}]`), want: `
Widget shop/w is not ready yet, and no problem is known: copying

Conditions:
  Reconciling True: Working: copying`},
		"its readiness is unknown": {objects: widget("", `conditions: [{type: Ready, status: Unknown, message: not checked}]`), want: `
Widget shop/w is not ready yet, and no problem is known: not checked

Conditions:
  Ready Unknown: not checked`},
		"a parent refuses it": {objects: widget("", `parents: [{parentRef: {name: public}, conditions: [{type: Accepted, status: "False", reason: NotAllowedByListeners, message: no listener allows it}]}, {parentRef: {name: inner}, conditions: [{type: Accepted, status: "True", reason: Accepted}]}]`), want: `
Widget shop/w has a problem: condition Accepted is False

Cause: NotAllowedByListeners in Widget w
  condition Accepted is False: parent public: no listener allows it

Conditions:
  Accepted False: NotAllowedByListeners: parent public: no listener allows it
  Accepted True: Accepted: parent inner`},
		"an unknown type of condition": {objects: widget("", `conditions: [{type: Frozen, status: "True", message: by an administrator}]`), want: `
Widget shop/w has an unknown state: its conditions follow no known convention

Conditions:
  Frozen True: by an administrator`},
		"a type of condition that names a failure": {objects: widget("", `conditions: [{type: ReplicaFailure, status: "True", reason: Quota, message: too many pods}]`), want: `
Widget shop/w has a problem: condition ReplicaFailure is True

Cause: Quota in Widget w
  condition ReplicaFailure is True: too many pods

Conditions:
  ReplicaFailure True: Quota: too many pods`},
		"a failure that did not happen": {objects: widget("", `conditions: [{type: ResolutionFailed, status: "False"}]`), want: `
Widget shop/w shows no problem: condition ResolutionFailed is False

Conditions:
  ResolutionFailed False`},
		"conditions without a status": {objects: widget("", `conditions: [{type: ComparisonError, message: no such repository}], health: {status: Healthy}`), want: `
Widget shop/w has a problem: it has the condition ComparisonError

Cause: ComparisonError in Widget w
  it has the condition ComparisonError: no such repository

Conditions:
  ComparisonError: no such repository`},
		"its health is bad": {objects: widget("", `health: {status: Degraded, message: one pod crashes}, sync: {status: Synced}`), want: `
Widget shop/w has a problem: its health.status is Degraded

Cause: Degraded in Widget w
  its health.status is Degraded: one pod crashes`},
		"its health is good, and its last operation failed": {objects: widget("", `health: {status: Healthy}, operationState: {phase: Failed, message: one object is invalid}`), want: `
Widget shop/w has a problem: its operationState.phase is Failed

Cause: Failed in Widget w
  its operationState.phase is Failed: one object is invalid`},
		"its state is bad": {objects: widget("", `state: errored, reason: "429: too many certificates"`), want: `
Widget shop/w has a problem: its state is errored

Cause: errored in Widget w
  its state is errored: 429: too many certificates`},
		"its state is pending, with a reason": {objects: widget("", `state: pending, reason: "wrong status code 404"`), want: "Widget shop/w is not ready yet, and no problem is known: its state is pending: wrong status code 404"},
		"it has an error": {objects: widget("", `readyToUse: false, error: {message: no such class}`), want: `
Widget shop/w has a problem: it has an error

Cause: Error in Widget w
  it has an error: no such class`},
		"it is not ready, without a condition":  {objects: widget("", `ready: false`), want: "Widget shop/w is not ready yet, and no problem is known: its ready is false"},
		"its status has fields of its own only": {objects: widget("", `size: 3`), want: "Widget shop/w has an unknown state: its status follows no known convention"},
		"all its conditions are about an earlier spec": {objects: widget("", `conditions: [{type: Accepted, status: "True", observedGeneration: 1}]`), want: `
Widget shop/w is not ready yet, and no problem is known: its controller has processed generation 1 of the spec, but not yet generation 2: check that the controller is running

Conditions:
  Accepted True`},
		"it waits for a controller": {objects: widget("", `conditions: [{type: Accepted, status: Unknown, reason: Pending, message: Waiting for controller}]`), want: `
Widget shop/w is not ready yet, and no problem is known: condition Accepted is Unknown: Waiting for controller

Conditions:
  Accepted Unknown: Pending: Waiting for controller`},
		"a condition with a time and a status of another form": {objects: widget("", `conditions: [{type: Ready, status: false, message: no disk, lastTransitionTime: ""}]`), want: `
Widget shop/w has a problem: condition Ready is False

Cause: Ready in Widget w
  condition Ready is False: no disk

Conditions:
  Ready False: no disk`},
		"the condition with a message is the cause": {objects: widget("", `conditions: [{type: Ready, status: "False", reason: Creating}, {type: Synced, status: "False", reason: ReconcileError, message: the name is taken}]`), want: `
Widget shop/w has a problem: condition Synced is False

Cause: ReconcileError in Widget w
  condition Synced is False: the name is taken

Conditions:
  Ready False: Creating
  Synced False: ReconcileError: the name is taken`},
		"another condition has the message": {objects: widget("", `conditions: [{type: Ready, status: "False"}, {type: NodeReady, status: "False", reason: Launch, message: no capacity}]`), want: `
Widget shop/w has a problem: condition Ready is False; condition NodeReady is False

Cause: Ready in Widget w
  condition Ready is False; condition NodeReady is False: no capacity

Conditions:
  Ready False
  NodeReady False: Launch: no capacity`},
		"two conditions have the same message": {objects: widget("", `conditions: [{type: Ready, status: "False", reason: Down, message: no disk}, {type: Healthy, status: "False", reason: Down, message: no disk}]`) + strings.Replace(warning, "no such host", "no disk", 1), want: `
Widget shop/w has a problem: condition Ready is False

Cause: Down in Widget w
  condition Ready is False: no disk

Conditions:
  Ready False: Down: no disk
  Healthy False: Down: no disk`},
		"Ready sums up the other conditions": {objects: widget("", `conditions: [{type: Stalled, status: "True", reason: RetriesExceeded, message: no retries left}, {type: Ready, status: "False", reason: UpgradeFailed, message: the chart has no values}]`), want: `
Widget shop/w has a problem: condition Ready is False

Cause: UpgradeFailed in Widget w
  condition Ready is False: the chart has no values

Conditions:
  Stalled True: RetriesExceeded: no retries left
  Ready False: UpgradeFailed: the chart has no values`},
		"a part has the details": {objects: widget("", `conditions: [{type: Accepted, status: "False", reason: ListenersNotValid, message: see the listeners}], listeners: [{name: https, conditions: [{type: ResolvedRefs, status: "False", reason: InvalidCertificateRef, message: no such Secret}]}]`), want: `
Widget shop/w has a problem: condition ResolvedRefs is False

Cause: InvalidCertificateRef in Widget w
  condition ResolvedRefs is False: listener https: no such Secret

Conditions:
  Accepted False: ListenersNotValid: see the listeners
  ResolvedRefs False: InvalidCertificateRef: listener https: no such Secret`},
		"it is ready, with an error of before": {objects: widget("", `error: {message: no such class}, conditions: [{type: Ready, status: "True"}]`), want: `
Widget shop/w shows no problem: condition Ready is True

Conditions:
  Ready True`},
		"it is stopped on purpose": {objects: widget("", `printableStatus: Stopped, conditions: [{type: Ready, status: "False", reason: VMINotExists, message: VMI does not exist}]`), want: `
Widget shop/w is inactive: its printableStatus is Stopped

Conditions:
  Ready False: VMINotExists: VMI does not exist`},
		"it is paused": {objects: widget("", `phase: Paused, message: CanaryPauseStep`), want: "Widget shop/w is inactive: its phase is Paused: CanaryPauseStep"},
		"it was stopped before it was ready": {objects: widget("", `phase: Stopped, conditions: [{type: Ready, status: "True"}]`), want: `
Widget shop/w shows no problem: condition Ready is True

Conditions:
  Ready True`},
		"it is stopped, and failed": {objects: widget("", `printableStatus: Stopped, conditions: [{type: Ready, status: "False", message: it does not run}, {type: Failure, status: "True", reason: FailedCreate, message: no such disk}]`), want: `
Widget shop/w has a problem: condition Failure is True

Cause: FailedCreate in Widget w
  condition Failure is True: no such disk

Conditions:
  Ready False: it does not run
  Failure True: FailedCreate: no such disk`},
		"it is suspended": {objects: widget("", `conditions: [{type: Ready, status: "False", message: before}]`) + "\nspec: {suspend: true}", want: `
Widget shop/w is inactive: it is suspended; set spec.suspend to false to resume it

Conditions:
  Ready False: before`},
		"its controller is behind": {objects: widget("", `observedGeneration: 1, conditions: [{type: Ready, status: "False", message: of the earlier spec}]`), want: `
Widget shop/w is not ready yet, and no problem is known: its controller has processed generation 1 of the spec, but not yet generation 2: check that the controller is running

Conditions:
  Ready False: of the earlier spec`},
		"its status has another form": {objects: widget("", `conditions: [ready, 1]`), want: "Widget shop/w has an unknown state: its status follows no known convention"},
		"it may not be read": {objects: widget("", ""), forbidden: []string{"Widget"}, want: `
Widget shop/w has an unknown state: you may not read it

could not read widgets.example.com w: you may not get it`},
		"control characters": {objects: widget("", `conditions: [{type: Ready, status: "False", reason: "a\u001bb", message: "x\u001b[2Jy"}]`), want: `
Widget shop/w has a problem: condition Ready is False

Cause: ab in Widget w
  condition Ready is False: x[2Jy

Conditions:
  Ready False: ab: x[2Jy`},
	})
}

func TestARequestForACertificateWaitsForItsApproval(t *testing.T) {
	request := func(status string) string {
		return "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: ana}\nstatus: {" + status + "}"
	}
	checkExplained(t, "certificatesigningrequests.certificates.k8s.io", "ana", map[string]tc{
		"new": {objects: request(""), want: "CertificateSigningRequest ana is not ready yet, and no problem is known: it is neither approved nor denied; kubectl certificate approve ana"},
		"approved": {objects: request(`conditions: [{type: Approved, status: "True"}]`), want: `
CertificateSigningRequest ana shows no problem: condition Approved is True

Conditions:
  Approved True`},
		"denied": {objects: request(`conditions: [{type: Denied, status: "True", reason: Policy, message: not in this cluster}]`), want: `
CertificateSigningRequest ana has a problem: condition Denied is True

Cause: Policy in CertificateSigningRequest ana
  condition Denied is True: not in this cluster

Conditions:
  Denied True: Policy: not in this cluster`},
	})
}

func TestADeletionThatWaitsForFinalizersNamesThem(t *testing.T) {
	at := func(ago time.Duration, finalizers string) string {
		return fmt.Sprintf(", deletionTimestamp: %q, finalizers: [%s]", testNow.Add(-ago).Format(time.RFC3339), finalizers)
	}
	checkExplained(t, "widgets.example.com", "w", map[string]tc{
		"at first": {objects: widget(at(time.Second, "example.com/a"), ""), want: "Widget shop/w is inactive: it is being deleted; its finalizers are example.com/a"},
		"after a minute": {objects: widget(at(2*time.Minute, "example.com/b, example.com/a"), ""), want: `
Widget shop/w has a problem: it is being deleted; its finalizers are example.com/a, example.com/b

Cause: FinalizersRemaining in Widget w (last 2m ago)
  the deletion waits until these finalizers are removed: example.com/a, example.com/b
  Advice: check that the controller that removes them is running; remove them yourself only if it no longer exists`},
		"of the garbage collector": {objects: widget(at(2*time.Minute, "foregroundDeletion"), ""), want: `
Widget shop/w has a problem: it is being deleted; its finalizers are foregroundDeletion

Cause: FinalizersRemaining in Widget w (last 2m ago)
  the deletion waits until these finalizers are removed: foregroundDeletion
  Advice: the garbage collector first deletes the objects that it owns; look at those that are being deleted, too`},
	})
	checkExplained(t, "persistentvolumeclaims", "data", map[string]tc{
		"a claim that a pod uses": {objects: `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [kubernetes.io/pvc-protection]}`, want: `
PersistentVolumeClaim shop/data has a problem: it is being deleted, once no pod uses it; its finalizers are kubernetes.io/pvc-protection

Cause: FinalizersRemaining in PersistentVolumeClaim data (last 60m ago)
  the deletion waits until these finalizers are removed: kubernetes.io/pvc-protection
  Advice: the claim and its files are lost when the last pod that mounts it ends: copy the files first if you need them`},
		"a claim with another finalizer": {objects: `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [kubernetes.io/pvc-protection, example.com/keep]}`, want: `
PersistentVolumeClaim shop/data has a problem: it is being deleted, once no pod uses it; its finalizers are example.com/keep, kubernetes.io/pvc-protection

Cause: FinalizersRemaining in PersistentVolumeClaim data (last 60m ago)
  the deletion waits until these finalizers are removed: example.com/keep, kubernetes.io/pvc-protection
  Advice: the claim and its files are lost when the last pod that mounts it ends: copy the files first if you need them; check that the controllers of the other finalizers are running; remove those yourself only if their controller no longer exists`},
	})
	checkExplained(t, "widgets.example.com", "w", map[string]tc{
		"like a volume": {objects: widget(at(2*time.Minute, "kubernetes.io/pv-protection"), ""), want: `
Widget shop/w has a problem: it is being deleted; its finalizers are kubernetes.io/pv-protection

Cause: FinalizersRemaining in Widget w (last 2m ago)
  the deletion waits until these finalizers are removed: kubernetes.io/pv-protection
  Advice: the volume and its files can be lost when its claim is deleted: copy the files first if you need them`},
	})
	checkExplained(t, "pods", "web-1", map[string]tc{
		"a pod that its node does not end": {
			objects: strings.Replace(readyPod, "namespace: shop,", `namespace: shop, deletionTimestamp: "2026-03-01T08:50:00Z", finalizers: [x.example.com/y],`, 1), want: `
Pod shop/web-1 does not run as it should: it is being deleted; its finalizers are x.example.com/y

Cause: FinalizersRemaining in Pod web-1 (last 10m ago)
  the deletion of the pod waits until these finalizers are removed: x.example.com/y
  Advice: check that the controller that removes them runs; remove them yourself only if it no longer exists`},
	})
}

func TestAPodThatItsNodeDoesNotEndIsStuck(t *testing.T) {
	ended := metav1.NewTime(testNow.Add(-10 * time.Minute))
	const lost = `
apiVersion: v1
kind: Node
metadata: {name: lost}
status: {conditions: [{type: Ready, status: Unknown}]}`
	for name, test := range map[string]struct{ node, want string }{
		"a node that responds": {"node-0", `node "node-0" has not confirmed that its containers ended`},
		"a lost node":          {"lost", `cannot be deleted while node "lost" does not respond`},
		"no node":              {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := &inquiry{
				Explainer: fakeCluster(t, lost).Explainer, ctx: t.Context(),
				object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", DeletionTimestamp: &ended}, Spec: corev1.PodSpec{NodeName: test.node}},
			}
			q.terminating()
			if q.held != (test.want != "") || q.explanation.State != Stopped {
				t.Errorf("held: %v, %+v", q.held, q.explanation)
			}
			if q.held && !strings.Contains(q.fallback.Message, test.want) {
				t.Errorf("got %+v", q.fallback)
			}
		})
	}
}

func TestNoValueOfASecretIsPrinted(t *testing.T) {
	e := fakeCluster(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {key: plain}\ndata: {other: c2VjcmV0}")
	got := written(t, e.explains(t, "secrets", "s"))
	if want := "Secret shop/s shows no problem: it exists\n"; got != want {
		t.Errorf("got %q", got)
	}
}
