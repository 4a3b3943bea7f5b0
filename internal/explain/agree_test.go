package explain

import (
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scenes are clusters with problems that have their root in another object, or that look like one.
func scenes() map[string]string {
	all := map[string]string{
		"a proxy":         shopNamespace + jobPod,
		"a slow start":    shopNamespace + slowStart("2026-03-01T08:59:20Z"),
		"a late start":    shopNamespace + slowStart("2026-03-01T08:40:00Z"),
		"a Secret":        shopNamespace + awaitedSecret,
		"a queue":         shopNamespace + queuedJob(`{type: QuotaReserved, status: "False", reason: Inadmissible, message: "LocalQueue user-queue doesn't exist", lastTransitionTime: "2026-03-01T08:40:00Z"}`),
		"a webhook":       blockedPolicy("{}"),
		"a volume":        shopNamespace + heldVolume,
		"a rollout":       shopNamespace + blockedRollout(2, `{rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}`, ownAntiAffinity, antiAffinity),
		"a quota":         shopNamespace + quotaRollout(`{rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}`),
		"a release":       shopNamespace + released("Helm install failed for release shop/shop: context deadline exceeded") + overQuota,
		"a load balancer": shopNamespace + webService + "\n---\n" + crashedPod,
	}
	return all
}

// The overview lists each object whose own page has a cause, with this cause. Objects that another one
// controls are left out.
func TestTheOverviewSaysWhatThePageOfEachObjectSays(t *testing.T) {
	all := scenes()
	for name, s := range readScenes(t) {
		all[name] = s.Objects
	}
	for name, objects := range all {
		e := fakeCluster(t, objects)
		o, err := e.Overview(t.Context(), "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		listed := map[ProblemObject][]string{}
		for _, p := range o.Problems {
			for _, object := range p.Objects {
				object.Summary = ""
				key := ""
				if p.Cause != nil {
					key = p.Cause.Reason
				}
				listed[object] = append(listed[object], key)
			}
		}
		all := parse(t, e.client.Scheme(), objects)
		for _, object := range all {
			gvk, err := e.client.GroupVersionKindFor(object)
			if err != nil {
				t.Fatal(err)
			}
			resource, ok := resourceOf(e, gvk)
			if _, supported := supportedTypes[resource]; !ok || !supported || isControlled(object, all) {
				continue
			}
			clear(e.requests)
			x, err := e.Explain(t.Context(), resource, object.GetNamespace(), object.GetName())
			if err != nil {
				t.Fatal(err)
			}
			sum := e.sent()
			if sum > maxReads {
				t.Errorf("%s: %d requests for %s %s, want at most %d", name, sum, gvk.Kind, object.GetName(), maxReads)
			}
			if c := x.Cause; c != nil && strings.Contains(strings.ToLower(c.Advice), "bongsu explain "+strings.ToLower(gvk.Kind)+"/"+object.GetName()) {
				t.Errorf("%s: the advice names the command that printed it: %s", name, c.Advice)
			}
			reasons := listed[ProblemObject{Kind: gvk.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}]
			switch {
			case x.Cause == nil && len(reasons) > 0:
				t.Errorf("%s: the overview has %v for %s %s, and its page has no cause:\n%s", name, reasons, gvk.Kind, object.GetName(), written(t, x))
			case gvk.Kind == kindBudget || slices.ContainsFunc(x.Chain, func(l Link) bool { return l.Kind == kindBudget }): // an overview shows what does not run, not what cannot be drained
			case gvk.Kind == kindNamespace || x.Cause != nil && x.Cause.Reason == policyv1.InsufficientPodsReason: // an overview reads no objects one by one, and leaves out what runs
			case x.Cause != nil && !slices.Contains(reasons, x.Cause.Reason):
				t.Errorf("%s: the overview has %v for %s %s, and its page has %s:\n%s", name, reasons, gvk.Kind, object.GetName(), x.Cause.Reason, written(t, o))
			}
		}
	}
}

func resourceOf(e *fakeExplainer, gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
	mapping, err := e.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return schema.GroupResource{}, false
	}
	return mapping.Resource.GroupResource(), true
}

func isControlled(object client.Object, all []client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && slices.ContainsFunc(all, func(o client.Object) bool { return o.GetUID() == owner.UID })
}
