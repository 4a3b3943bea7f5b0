package explain

import "testing"

// The conditions are those of
// kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go 1.37.
func TestANamespaceNamesWhatItsDeletionWaitsFor(t *testing.T) {
	const deleted = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [example.com/keep]}
spec: {finalizers: [kubernetes]}
`
	checkExplained(t, "namespaces", "shop", map[string]tc{
		"it is active": {objects: "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}",
			want: "Namespace shop shows no problem: it is active; use -n shop without an object to list the problems in it"},
		"it was just deleted": {objects: `
apiVersion: v1
kind: Namespace
metadata: {name: shop, deletionTimestamp: "2026-03-01T08:59:50Z", finalizers: [example.com/keep]}
status: {conditions: [{type: NamespaceContentRemaining, status: "True", reason: SomeResourcesRemain, message: "Some resources are remaining: pods. has 1 resource instances"}]}`,
			want: "Namespace shop is inactive: it is being deleted; its finalizers are example.com/keep"},
		"objects with finalizers remain": {objects: deleted + `
status:
  conditions:
  - {type: NamespaceDeletionDiscoveryFailure, status: "False", reason: ResourcesDiscovered, message: All resources successfully discovered}
  - {type: NamespaceContentRemaining, status: "True", reason: SomeResourcesRemain, lastTransitionTime: "2026-03-01T08:01:00Z", message: "Some resources are remaining: configmaps. has 1 resource instances, widgets.example.com has 2 resource instances"}
  - {type: NamespaceFinalizersRemaining, status: "True", reason: SomeFinalizersRemain, lastTransitionTime: "2026-03-01T08:01:00Z", message: "Some finalizers are remaining: example.com/a in 1 resource instances, example.com/b in 2 resource instances"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [example.com/a]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: shop}`,
			forbidden: []string{"Widget"},
			want: `
Namespace shop has a problem: it is being deleted; its finalizers are example.com/keep

Cause: FinalizersRemaining in ConfigMap settings (last 60m ago)
  the deletion waits until these finalizers are removed: example.com/a
  Advice: check that the controller that removes them is running; remove them yourself only if it no longer exists
  By way of: ConfigMap shop/settings

Also: SomeFinalizersRemain in Namespace shop (last 59m ago)
  objects in it have these finalizers: example.com/a (1), example.com/b (2)
  Advice: check that the controllers that remove them are running; remove a finalizer yourself only if its controller no longer exists

Also: SomeResourcesRemain in Namespace shop (last 59m ago)
  these objects remain in it: configmaps (1), widgets.example.com (2)
  Advice: waiting since 2026-03-01 08:01 UTC has not helped: look at these objects with bongsu explain, which says what their deletion waits for

could not read widgets.example.com: you may not list them`},
		"an API does not answer": {objects: deleted + `
status:
  conditions:
  - {type: NamespaceDeletionDiscoveryFailure, status: "True", reason: DiscoveryFailed, message: "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"}`,
			want: `
Namespace shop has a problem: it is being deleted; its finalizers are example.com/keep

Cause: DiscoveryFailed in Namespace shop
  the namespace controller cannot list all types of objects, because these APIServices do not answer: v1beta1.metrics.k8s.io
  Advice: make the server of the APIService available again, or delete the APIService if it is no longer used`},
		"only a finalizer of its own remains": {objects: deleted, want: `
Namespace shop has a problem: it is being deleted; its finalizers are example.com/keep

Cause: FinalizersRemaining in Namespace shop (last 60m ago)
  the deletion waits until these finalizers are removed: example.com/keep
  Advice: check that the controller that removes them is running; remove them yourself only if it no longer exists`},
	})
}
