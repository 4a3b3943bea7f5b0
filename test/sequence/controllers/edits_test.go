package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

// childKinds are the kinds of the objects that the operator makes, and of their children.
var childKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "Secret"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Version: "v1", Kind: "Pod"},
}

// list returns the objects of a kind in a namespace. They are sorted by name.
func (w *world) list(gvk schema.GroupVersionKind, namespace string) []unstructured.Unstructured {
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(gvk)
	w.must(w.cluster.Client.List(w.t.Context(), &all, client.InNamespace(namespace)))
	return all.Items
}

// isMade reports whether the operator made an object, or one of its children did. Sources are
// made by users.
func isMade(o *unstructured.Unstructured) bool {
	labels := o.GetLabels()
	return labels[workload.LabelManagedBy] == "bongsu" || labels["bongsu.io/rule-uid"] != "" || labels[v1alpha1.LabelAppService] != "" || labels[v1alpha1.LabelJupyter] != ""
}

// child chooses an object of a kind that the operator made; nil if there is none.
func (w *world) child(gvk schema.GroupVersionKind, i int) *unstructured.Unstructured {
	var found []unstructured.Unstructured
	for _, namespace := range []string{w.home.a, w.home.b} {
		found = append(found, slices.DeleteFunc(w.list(gvk, namespace), func(o unstructured.Unstructured) bool { return !isMade(&o) })...)
	}
	if len(found) == 0 {
		return nil
	}
	return &found[i%len(found)]
}

// edit is a change of a child by a user. It reports whether the object has the part to edit.
type edit struct {
	kinds  []string
	change func(o map[string]any) bool
}

const deployment, statefulSet = "Deployment", "StatefulSet"

var edits = []edit{
	{[]string{deployment, statefulSet, "Service", "Secret", "PodDisruptionBudget", "Pod", "ReplicaSet"}, withoutLabel(workload.LabelManagedBy)},
	{[]string{deployment, statefulSet, "Service", "Ingress"}, withoutLabel(workload.LabelName)},
	{[]string{deployment, "Service", "PodDisruptionBudget"}, withoutLabel(v1alpha1.LabelAppService)},
	{[]string{statefulSet, "Service", "Ingress", "Secret", "PersistentVolumeClaim"}, withoutLabel(v1alpha1.LabelJupyter)},
	{[]string{"Secret"}, withoutLabel("bongsu.io/rule-uid")},
	{[]string{deployment, statefulSet, "Service", "Secret", "Ingress", "PodDisruptionBudget"}, without("metadata", "ownerReferences")},
	{[]string{"Service"}, func(o map[string]any) bool { return inList(o, "port", int64(81), "spec", "ports") }},
	{[]string{"Service"}, func(o map[string]any) bool {
		return unstructured.SetNestedField(o, "other", "spec", "selector", "app") == nil
	}},
	{[]string{deployment, statefulSet}, func(o map[string]any) bool {
		return inPod(o, "image", "example.org/other", "containers")
	}},
	{[]string{deployment, statefulSet}, func(o map[string]any) bool {
		return unstructured.SetNestedField(o, int64(3), "spec", "replicas") == nil
	}},
	{[]string{deployment, statefulSet}, func(o map[string]any) bool {
		from := map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}
		return inPart(o, "MODE", map[string]any{"name": "MODE", "valueFrom": from}, "env")
	}},
	{[]string{deployment, statefulSet}, func(o map[string]any) bool {
		volumes, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "volumes")
		for i := range volumes {
			if volume := volumes[i].(map[string]any); volume["name"] == "scratch" {
				volumes[i] = map[string]any{"name": "scratch", "configMap": map[string]any{"name": "a"}}
				return unstructured.SetNestedSlice(o, volumes, "spec", "template", "spec", "volumes") == nil
			}
		}
		return false
	}},
	{[]string{deployment, statefulSet}, otherProbe},
	{[]string{"PodDisruptionBudget"}, func(o map[string]any) bool {
		unstructured.RemoveNestedField(o, "spec", "maxUnavailable")
		return unstructured.SetNestedField(o, int64(0), "spec", "minAvailable") == nil
	}},
	{[]string{"Ingress"}, func(o map[string]any) bool { return inList(o, "host", "other.example.org", "spec", "rules") }},
	{[]string{"Secret"}, without("data")},
	{[]string{"Secret"}, func(o map[string]any) bool {
		_, isCopy, _ := unstructured.NestedString(o, "data", "value")
		return isCopy && unstructured.SetNestedField(o, "ZWRpdGVk", "data", "value") == nil
	}},
}

func without(path ...string) func(map[string]any) bool {
	return func(o map[string]any) bool {
		_, found, _ := unstructured.NestedFieldNoCopy(o, path...)
		unstructured.RemoveNestedField(o, path...)
		return found
	}
}

func withoutLabel(label string) func(map[string]any) bool {
	return without("metadata", "labels", label)
}

// inList sets a field in the first element of a list.
func inList(o map[string]any, field string, value any, path ...string) bool {
	list, found, _ := unstructured.NestedSlice(o, path...)
	if !found || len(list) == 0 {
		return false
	}
	list[0].(map[string]any)[field] = value
	return unstructured.SetNestedSlice(o, list, path...) == nil
}

// inPod sets a field in the first element of a list of the pod template.
func inPod(o map[string]any, field string, value any, list string) bool {
	return inList(o, field, value, "spec", "template", "spec", list)
}

// otherProbe changes the handler of a readiness probe.
func otherProbe(o map[string]any) bool {
	containers, found, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
	if !found || len(containers) == 0 || containers[0].(map[string]any)["readinessProbe"] == nil {
		return false
	}
	return inPod(o, "readinessProbe", map[string]any{"tcpSocket": map[string]any{"port": int64(8080)}}, "containers")
}

// inPart replaces the named element of a list of the first container.
func inPart(o map[string]any, name string, value map[string]any, list string) bool {
	containers, found, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
	if !found || len(containers) == 0 {
		return false
	}
	elements, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), list)
	at := slices.IndexFunc(elements, func(e any) bool { return e.(map[string]any)["name"] == name })
	if at < 0 {
		return false
	}
	elements[at] = value
	containers[0].(map[string]any)[list] = elements
	return unstructured.SetNestedSlice(o, containers, "spec", "template", "spec", "containers") == nil
}

// edit changes a child as a user would, with kubectl edit.
func (w *world) edit(which, i int) {
	e := edits[which%len(edits)]
	var found []*unstructured.Unstructured
	for _, gvk := range childKinds {
		if o := w.child(gvk, i); o != nil && slices.Contains(e.kinds, gvk.Kind) {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		return
	}
	o := found[i%len(found)]
	owned := len(o.GetOwnerReferences()) > 0
	if o.GetDeletionTimestamp() != nil || !e.change(o.Object) {
		return
	}
	err := w.cluster.Client.Update(w.t.Context(), o, client.FieldOwner(editor))
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return
	}
	w.must(err)
	w.edited = append(w.edited, edited{o, w.versions[w.slotOf(o)], owned && len(o.GetOwnerReferences()) == 0})
	w.counts.applied++
}

// editor is the field manager of edits.
const editor = "editor"

// edited is a child that a user edited, and the version of the manifest of its owner then.
// disowned: the user removed its owner reference.
type edited struct {
	child    *unstructured.Unstructured
	version  int
	disowned bool
}

// isDisowned reports whether a child of a slot has no owner reference, because a user removed it
// and the operator has not restored it. The child stays when its owner is deleted.
func (w *world) isDisowned(i int) bool {
	return slices.ContainsFunc(w.edited, func(e edited) bool {
		if !e.disowned || w.slotOf(e.child) != i {
			return false
		}
		now := e.child.DeepCopy()
		err := w.cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(now), now)
		w.must(client.IgnoreNotFound(err))
		return err == nil && now.GetUID() == e.child.GetUID() && len(now.GetOwnerReferences()) == 0
	})
}

// slotOf returns the slot of the owner of a child by its name. Copies of Secrets are in none, and
// have the last index of versions.
func (w *world) slotOf(o *unstructured.Unstructured) int {
	for i := range slots {
		if i < share && strings.TrimSuffix(o.GetName(), "-token") == slots[i].name {
			return i
		}
	}
	return len(slots)
}

// undoEdits removes the fields of edits that were made for an earlier manifest, as the user would.
// The operator reverts only what contradicts the present one.
func (w *world) undoEdits() {
	for _, e := range w.edited {
		if w.versions[w.slotOf(e.child)] == e.version {
			continue
		}
		err := w.poll(func(ctx context.Context) (bool, error) { return w.undoEdit(ctx, e.child) })
		if errors.Is(err, context.DeadlineExceeded) {
			w.problem("edited: the operator does not restore %s %s, which lacks what an edit replaced", e.child.GetKind(), e.child.GetName())
		} else {
			w.must(err)
		}
	}
}

// undoEdit removes the fields of the edits of a child, and reports whether it has none now.
func (w *world) undoEdit(ctx context.Context, child *unstructured.Unstructured) (done bool, err error) {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(child.GroupVersionKind())
	if err := w.cluster.Client.Get(ctx, client.ObjectKeyFromObject(child), now); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if !slices.ContainsFunc(now.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == editor }) {
		return true, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(now, sets.New(editor), editor)
	if err != nil {
		return false, err
	}
	if patch != nil {
		if err := w.cluster.Client.Patch(ctx, now, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return apierrors.IsNotFound(err), nil // it has changed
		}
	}
	nothing := &unstructured.Unstructured{}
	nothing.SetGroupVersionKind(now.GroupVersionKind())
	nothing.SetNamespace(now.GetNamespace())
	nothing.SetName(now.GetName())
	nothing.SetUID(now.GetUID())
	err = w.cluster.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(nothing), client.FieldOwner(editor), client.ForceOwnership)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // it was created again
		return true, nil
	case apierrors.IsInvalid(err): // the operator has not restored what the edit replaced, such as the only port
		slot := w.slotOf(child)
		return slot < len(slots) && w.mayDiffer(child.GetKind(), slots[slot].name), nil
	}
	return err == nil, err
}

// removeChild deletes an object that the operator made.
func (w *world) removeChild(kind, i int) {
	gvk := childKinds[kind%len(childKinds)]
	if o := w.child(gvk, i); o != nil && gvk.Kind != "PersistentVolumeClaim" {
		w.must(client.IgnoreNotFound(w.cluster.Client.Delete(w.t.Context(), o)))
		w.counts.applied++
	}
}

// cutOff are the objects of former apps and notebooks that were kept at the deletion, and lost
// a label by an edit. The operator does not touch them, and reports a conflict.
func (w *world) cutOff() []unstructured.Unstructured {
	var all []unstructured.Unstructured
	for i := range slots[:share] {
		owner := slots[i].object(w.home)
		w.must(client.IgnoreNotFound(w.cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(owner), owner)))
		for _, gvk := range childKinds {
			found := slices.DeleteFunc(w.list(gvk, w.home.a), func(o unstructured.Unstructured) bool {
				labels, uid := o.GetLabels(), o.GetAnnotations()[v1alpha1.AnnotationOwnerUID]
				named := strings.TrimSuffix(o.GetName(), "-token") == slots[i].name
				return !named || uid == "" || uid == string(owner.GetUID()) || len(o.GetOwnerReferences()) > 0 ||
					labels[workload.LabelName] != "" && labels[workload.LabelManagedBy] != "" && labels[v1alpha1.LabelAppService]+labels[v1alpha1.LabelJupyter] != ""
			})
			w.wrong[i] = w.wrong[i] || len(found) > 0
			all = append(all, found...)
		}
	}
	return all
}

// dropped are the Secrets in B that are no copies: a rule with Retain left them.
func (w *world) dropped() []unstructured.Unstructured {
	return slices.DeleteFunc(w.list(corev1.SchemeGroupVersion.WithKind("Secret"), w.home.b), func(o unstructured.Unstructured) bool {
		return o.GetAnnotations()["bongsu.io/rule-uid"] != ""
	})
}
