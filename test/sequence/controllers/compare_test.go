package controllers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// snapshot contains a text for each object of a site. It omits what differs between two sites
// with the same manifests: names of namespaces and pods, UIDs, times, addresses, tokens.
type snapshot map[string]string

// snapshot reads the objects of a site. ignored are names of objects that may differ.
func (w *world) snapshot(at site, ignored func(kind, name string) bool) snapshot {
	found := snapshot{}
	for i := range slots {
		o := slots[i].object(at)
		for _, now := range w.list(o.GroupVersionKind(), o.GetNamespace()) {
			if now.GetName() == o.GetName() && w.manifests[i] >= 0 {
				found[slots[i].kind+" "+slots[i].name] = at.generalize(reported(&now, w.isRefused(i)))
			} else if strings.HasPrefix(now.GetName(), at.a) && w.manifests[i] < 0 {
				found[slots[i].kind+" "+slots[i].name] = "exists"
			}
		}
	}
	for _, gvk := range childKinds {
		for _, namespace := range []string{at.a, at.b} {
			for _, o := range w.list(gvk, namespace) {
				if gvk.Kind == "ReplicaSet" || o.GetLabels()[batchv1.JobNameLabel] != "" || !isMade(&o) || ignored(gvk.Kind, ownerOf(&o)) {
					continue
				}
				key := at.generalize(namespace + " " + gvk.Kind + " " + o.GetName())
				if gvk.Kind == "Pod" {
					key = nameOfPod(&o, found)
				}
				found[key] = at.generalize(normalized(&o))
			}
		}
	}
	return found
}

// isRefused reports whether the children of a slot may be those of an earlier manifest.
func (w *world) isRefused(i int) bool {
	return w.manifests[i] >= 0 && slots[i].manifests[w.manifests[i]].refused
}

// ownerOf returns the name of the object that a child belongs to, by its labels. A child without
// them has the name of its owner.
func ownerOf(o *unstructured.Unstructured) string {
	return cmp.Or(o.GetLabels()[v1alpha1.LabelAppService]+o.GetLabels()[v1alpha1.LabelJupyter], strings.TrimSuffix(o.GetName(), "-token"))
}

// nameOfPod numbers the pods of an app.
func nameOfPod(o *unstructured.Unstructured, found snapshot) string {
	for n := 0; ; n++ {
		key := fmt.Sprintf("Pod %s %d", ownerOf(o), n)
		if _, exists := found[key]; !exists {
			return key
		}
	}
}

// conditionText is a condition without its message and times.
type conditionText struct{ Type, Status, Reason string }

// reported is the status of an object of a user. If its template is refused, the pods can be
// those of an earlier manifest. It then omits their state, and the finalizer that they need.
func reported(o *unstructured.Unstructured, refused bool) string {
	text := map[string]any{"terminating": o.GetDeletionTimestamp() != nil}
	if !refused {
		text["finalizers"] = o.GetFinalizers()
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	text["observed"] = observed == o.GetGeneration()
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var conditions []conditionText
	for _, c := range list {
		c := c.(map[string]any)
		one := conditionText{fmt.Sprint(c["type"]), fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])}
		if !refused || one.Type == v1alpha1.ConditionStalled {
			conditions = append(conditions, one)
		}
	}
	slices.SortFunc(conditions, func(a, b conditionText) int { return strings.Compare(a.Type, b.Type) })
	text["conditions"] = conditions
	for _, field := range []string{
		"state", "reason", "readyReplicas", "availableReplicas", "updatedReplicas", "url", "podName", "sources", "desired", "synced", "conflicted", "failed", "waiting",
	} {
		if value, found, _ := unstructured.NestedFieldCopy(o.Object, "status", field); found && !refused {
			text[field] = value
		}
	}
	nodes, _, _ := unstructured.NestedSlice(o.Object, "status", "nodes")
	if !refused {
		text["nodes"] = len(nodes)
	}
	return asText(text)
}

// varying are fields of children that differ between two sites, by path.
var varying = [][]string{
	{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"},
	{"metadata", "managedFields"}, {"metadata", "generateName"}, {"metadata", "selfLink"},
	{"metadata", "annotations", "deployment.kubernetes.io/revision"}, {"metadata", "annotations", "bongsu.io/applied"},
	{"metadata", "annotations", "bongsu.io/owner-uid"}, {"metadata", "annotations", "bongsu.io/rule-uid"},
	{"metadata", "annotations", "bongsu.io/source-uid"}, {"metadata", "annotations", "bongsu.io/namespace-uid"},
	{"metadata", "annotations", "bongsu.io/released-by"}, {"metadata", "labels", "bongsu.io/rule-uid"},
	{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "volumeName"}, {"status"},
}

// normalized is a child without its status and what varies.
func normalized(o *unstructured.Unstructured) string {
	owners := o.GetOwnerReferences()
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	now := o.DeepCopy().Object
	for _, path := range varying {
		unstructured.RemoveNestedField(now, path...)
	}
	unstructured.RemoveNestedField(now, "metadata", "ownerReferences")
	switch o.GetKind() {
	case "Pod":
		containers, _, _ := unstructured.NestedSlice(now, "spec", "containers")
		now = map[string]any{"containers": strip(containers), "phase": phase}
	case "Secret":
		if strings.HasSuffix(o.GetName(), "-token") { // it is random
			data, _, _ := unstructured.NestedMap(now, "data")
			now["data"] = fmt.Sprint(slices.Sorted(maps.Keys(data)))
		}
	case "PersistentVolumeClaim":
		delete(now, "spec")
		unstructured.RemoveNestedField(now, "metadata", "annotations")
	}
	var refs []string
	for _, ref := range owners {
		if o.GetKind() != "Pod" {
			refs = append(refs, ref.Kind+" "+ref.Name)
		}
	}
	now["owners"], now["terminating"] = refs, o.GetDeletionTimestamp() != nil
	return asText(now)
}

// strip returns what a pod runs.
func strip(containers []any) []string {
	var text []string
	for _, c := range containers {
		c := c.(map[string]any)
		text = append(text, asText(map[string]any{"name": c["name"], "image": c["image"], "env": c["env"], "probe": c["readinessProbe"]}))
	}
	return text
}

func asText(o map[string]any) string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// differences describes how two snapshots differ, at most five objects.
func differences(got, want snapshot) []string {
	var found []string
	keys := maps.Clone(got)
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch g, w := got[key], want[key]; {
		case g == w:
		case g == "":
			found = append(found, key+" is missing, want "+w)
		case w == "":
			found = append(found, key+" is left: "+g)
		default:
			g, w = unlike(g, w)
			found = append(found, fmt.Sprintf("%s is\n\t%s, want\n\t%s", key, g, w))
		}
	}
	return found[:min(len(found), 5)]
}

// unlike returns the parts of two texts around their first difference.
func unlike(a, b string) (partOfA, partOfB string) {
	const before, after = 80, 300
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	cut := func(text string) string { return text[max(0, at-before):min(len(text), at+after)] }
	return cut(a), cut(b)
}
