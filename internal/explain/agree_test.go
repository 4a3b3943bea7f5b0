package explain

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownKinds are objects of Bongsu with problems. Some have their root in a pod or an ExternalSecret.
const ownKinds = `
apiVersion: bongsu.io/v1alpha1
kind: Jupyter
metadata: {name: anna, namespace: shop, uid: j, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z"}
status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", reason: RollingOut, message: 0 of 1 pods are ready, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: anna, namespace: shop, uid: s, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z", ownerReferences: [{apiVersion: bongsu.io/v1alpha1, kind: Jupyter, name: anna, uid: j, controller: true}]}
spec: {replicas: 1, serviceName: anna, selector: {matchLabels: {jupyter: anna}}, template: {metadata: {labels: {jupyter: anna}}}}
status: {observedGeneration: 1, replicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: anna-0, namespace: shop, uid: a0, creationTimestamp: "2026-03-01T08:00:00Z", labels: {jupyter: anna}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: anna, uid: s, controller: true}]}
spec: {nodeName: node-1, containers: [{name: notebook, image: notebook, envFrom: [{secretRef: {name: db}}]}]}
status: {phase: Pending, containerStatuses: [{name: notebook, image: notebook, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]}
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: db, namespace: shop, uid: e, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {target: {name: db}}
status: {conditions: [{type: Ready, status: "False", reason: SecretSyncedError, message: permission denied, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: bongsu.io/v1alpha1
kind: Jupyter
metadata: {name: ben, namespace: shop, uid: b, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z"}
status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", reason: Ready}, {type: Stalled, status: "True", reason: ResourceConflict, message: Service ben has another owner}]}
---
apiVersion: bongsu.io/v1alpha1
kind: AppService
metadata: {name: web, namespace: shop, uid: w, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {size: 1}
status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", reason: RollingOut, message: 0 of 1 pods are ready, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z", ownerReferences: [{apiVersion: bongsu.io/v1alpha1, kind: AppService, name: web, uid: w, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, lastTransitionTime: "2026-03-01T08:00:00Z", message: 'pods "web-1-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3'}]}
---
apiVersion: bongsu.io/v1alpha1
kind: AppService
metadata: {name: slow, namespace: shop, uid: sl, generation: 1, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {size: 1}
status: {observedGeneration: 1, readyReplicas: 1, unhealthy: 1, conditions: [{type: Ready, status: "True", reason: Ready}], podStatuses: [{name: slow-1, podUID: x, health: Unhealthy, reason: HealthCheckFailed, message: HTTP 503, consecutiveFailures: 4, lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
`

// ownConditions are objects of Bongsu that only their conditions explain.
func ownConditions() string {
	const good = `{type: Ready, status: "True", reason: Ready}`
	return bongsuObject("Alarm", "name: a, namespace: shop", `{type: Ready, status: "False", reason: ReceiverNotFound, message: "AlarmReceiver \"team\" not found: create it"}`) +
		bongsuObject("AlarmReceiver", "name: r, namespace: shop", good+`, {type: Degraded, status: "True", reason: DeliveryFailing, message: "HTTP 500: check the receiver"}`) +
		bongsuObject("SecretShare", "name: s, namespace: shop", good+`, {type: Stalled, status: "True", reason: KeyNotFound, message: "no key \"x\": correct it"}`) +
		bongsuObject("SecretShareGrant", "name: g, namespace: shop", `{type: Ready, status: "False", reason: OverBudget, message: "too many copies: delete some"}`) +
		bongsuObject("ClusterAlarm", "name: ca", `{type: Ready, status: "False", reason: InvalidMatch, message: "no such field: correct it"}`) +
		bongsuObject("ClusterAlarmReceiver", "name: cr", good+`, {type: Stalled, status: "True", reason: SecretNotFound, message: "no Secret: create it"}`) +
		bongsuObject("ClusterSecretShare", "name: cs", `{type: Ready, status: "False", reason: SourceNotFound, message: "no Secret: create it"}`)
}

// allScenes returns the scenes in testdata, and further clusters with problems that have their root in
// another object, or that look like one.
func allScenes(t *testing.T) map[string]scene {
	t.Helper()
	all := readScenes(t)
	for name, objects := range map[string]string{
		"a proxy":         jobPod,
		"a slow start":    slowStart("2026-03-01T08:59:20Z"),
		"a late start":    slowStart("2026-03-01T08:40:00Z"),
		"a Secret":        awaitedSecret,
		"a queue":         queuedJob(`{type: QuotaReserved, status: "False", reason: Inadmissible, message: "LocalQueue user-queue doesn't exist", lastTransitionTime: "2026-03-01T08:40:00Z"}`),
		"a volume":        heldVolume,
		"a rollout":       blockedRollout(2, `{rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}`, ownAntiAffinity, antiAffinity),
		"a quota":         quotaRollout(`{rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}`),
		"a release":       released("Helm install failed for release shop/shop: context deadline exceeded") + overQuota,
		"a load balancer": webService + "\n---\n" + crashedPod,
		"own kinds":       ownKinds + ownConditions(),
	} {
		all[name] = scene{Objects: shopNamespace + objects}
	}
	all["a webhook"] = scene{Objects: blockedPolicy("{}")}
	return all
}

// The overview lists each object whose own page has a cause, with this cause and its root, and no others. Objects
// that another one controls are left out.
func TestTheOverviewSaysWhatThePageOfEachObjectSays(t *testing.T) {
	seen := map[string]int{}
	for name, s := range allScenes(t) {
		e := s.cluster(t)
		o, err := e.Overview(t.Context(), "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all := parse(t, e.client.Scheme(), s.Objects)
		for _, object := range all {
			gvk, err := e.client.GroupVersionKindFor(object)
			if err != nil {
				t.Fatal(err)
			}
			resource, ok := resourceOf(e, gvk)
			if _, supported := supportedTypes[resource]; !ok || !supported || isControlled(e, object, all) {
				continue
			}
			x, err := e.Explain(t.Context(), resource, object.GetNamespace(), object.GetName())
			if err != nil {
				t.Fatal(err)
			}
			if x.Cause != nil {
				seen[gvk.Kind]++
			}
			withoutLog := x
			if x.Log != nil { // an overview reads no logs
				e.logs = loggedPods{}
				if withoutLog, err = e.Explain(t.Context(), resource, object.GetNamespace(), object.GetName()); err != nil {
					t.Fatal(err)
				}
				e.logs = s.cluster(t).logs
			}
			if wrong := disagreement(o, withoutLog); wrong != "" {
				t.Errorf("%s: %s %s: %s\n%s\n%s", name, gvk.Kind, object.GetName(), wrong, written(t, o), written(t, withoutLog))
			}
		}
	}
	for _, kind := range []string{"Jupyter", "AppService", "Alarm", "AlarmReceiver", "SecretShare", "SecretShareGrant", "ClusterAlarm", "ClusterAlarmReceiver", "ClusterSecretShare"} {
		if seen[kind] == 0 {
			t.Errorf("no scene has a %s with a cause", kind)
		}
	}
}

// disagreement returns how an overview contradicts the page of an object, or "".
func disagreement(o *Overview, x *Explanation) string {
	self := ProblemObject{Kind: x.Kind, Namespace: x.Namespace, Name: x.Name}
	onPage := map[string]bool{}
	for i := range x.Others {
		onPage[problemOf(self, &x.Others[i])] = true
	}
	cause := ""
	if x.Cause != nil {
		cause = problemOf(self, x.Cause)
		onPage[cause] = true
	}
	agrees, waits := false, false
	for i := range o.Problems {
		p := &o.Problems[i]
		if !slices.ContainsFunc(p.Objects, func(other ProblemObject) bool { other.Summary = ""; return other == self }) {
			continue
		}
		if p.Cause == nil {
			waits = true
			continue
		}
		key := p.Cause.Reason + " " + p.key
		less := knowsLess(p.Cause, x)
		if !onPage[key] && !less {
			return "the overview has another cause: " + key
		}
		// The root of a namespace's deletion is in an object that an overview does not read. Its conditions are known.
		agrees = agrees || key == cause || less || x.Kind == kindNamespace && len(x.Chain) > 0
	}
	switch {
	case waits != (x.Cause == nil && x.State == Waiting && x.LateAfter == nil && !x.passive):
		return "they do not agree on whether it waits for long"
	case x.Cause != nil && !agrees && !onlyOnThePage(x):
		return "the overview does not have " + cause
	}
	return ""
}

// beyondOverview matches what an overview leaves out: Secrets, and why a drain has to wait.
var beyondOverview = regexp.MustCompile(`Secret|a drain cannot evict|PodDisruptionBudget`)

// knowsLess reports whether a page repeats the cause in an overview, and adds only what an overview does not read.
func knowsLess(c *Cause, x *Explanation) bool {
	if x.Cause == nil {
		return false
	}
	more, repeats := strings.CutPrefix(x.Cause.Message, c.Message)
	return repeats && beyondOverview.MatchString(more)
}

// problemOf identifies a cause with its root.
func problemOf(o ProblemObject, c *Cause) string { return c.Reason + " " + causeKey(o, c) }

// onlyOnThePage reports whether an overview leaves out a cause, because it only prevents a drain or an eviction: it shows
// what does not run.
func onlyOnThePage(x *Explanation) bool {
	switch x.Kind {
	case kindBudget:
		return x.Cause.Reason == policyv1.InsufficientPodsReason || x.Cause.Reason == "MultiplePodDisruptionBudgets"
	case kindNode:
		return strings.HasPrefix(x.Cause.Message, "a drain cannot evict") || len(x.Chain) > 0 && x.Chain[0].Kind == kindBudget
	}
	return false
}

func resourceOf(e *fakeExplainer, gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
	mapping, err := e.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return schema.GroupResource{}, false
	}
	return mapping.Resource.GroupResource(), true
}

// isControlled reports whether one of the objects of an overview controls an object.
func isControlled(e *fakeExplainer, object client.Object, all []client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && slices.ContainsFunc(all, func(o client.Object) bool {
		gvk, err := e.client.GroupVersionKindFor(o)
		resource, ok := resourceOf(e, gvk)
		_, supported := supportedTypes[resource]
		return err == nil && ok && supported && o.GetUID() == owner.UID
	})
}
