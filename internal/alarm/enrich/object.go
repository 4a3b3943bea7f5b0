package enrich

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// objectOf returns an object that was read for a reference.
func objectOf(ref alarm.Reference, o client.Object) alarm.Object {
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(o), Owner: ownerOf(o)}
}

// ownerOf returns the workload that the metadata of an object names as its controller.
func ownerOf(o client.Object) alarm.Owner {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return alarm.Owner{}
	}
	return alarm.OwnerOf(owner.Kind, owner.Name, o.GetLabels())
}

// podObject returns a Pod with the workload at the end of its chain of owners. To find a CronJob, it reads the Job,
// and to find what has a ReplicaSet without the label of a Deployment, the ReplicaSet. If that does not exist, or
// must not be read, it is the owner.
func (e *Enricher) podObject(ctx context.Context, ref alarm.Reference, pod client.Object) (alarm.Object, error) {
	object := objectOf(ref, pod)
	if object.Owner.Kind != "Job" && object.Owner.Kind != "ReplicaSet" {
		return object, nil
	}
	by := metav1.GetControllerOfNoCopy(pod)
	owner := alarm.Reference{APIVersion: by.APIVersion, Kind: by.Kind, Namespace: ref.Namespace, Name: by.Name, UID: string(by.UID)}
	kind, ok := kindOf(owner)
	if !ok { // for example the Job of another API group
		return object, nil
	}
	above, err := e.read(ctx, cacheKey{Reference: owner}, func(*cacheKey) (alarm.Object, error) { return e.metadataOf(ctx, owner, kind) })
	switch unread := Classify(err); {
	case unread != "" && unread != forbidden:
		return alarm.Object{}, err
	case err == nil && above.Owner.Name != "":
		object.Owner = above.Owner
	}
	return object, nil
}

// isSame reports whether the object is the one that the Event regards. It refuses another
// object of the same name, and a cluster-scoped object that an Event claims for its
// namespace. Kubelets use the name of the Node as its UID, and the hash of a static pod's
// configuration as the UID of its mirror pod. `kubectl describe` knows both, too.
func isSame(ref alarm.Reference, object client.Object) bool {
	if object.GetNamespace() != ref.Namespace {
		return false
	}
	switch ref.UID {
	case "", string(object.GetUID()):
		return true
	case ref.Name:
		return ref.Kind == "Node"
	default:
		return ref.Kind == "Pod" && ref.UID == object.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	}
}

func objectKey(ref alarm.Reference) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// namesOnly returns an object with the fields of the reference only.
func namesOnly(ref alarm.Reference) alarm.Object {
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: alarm.ObjectMeta{
		Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
	}}
}

func metadata(o client.Object) alarm.ObjectMeta {
	return alarm.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
		Labels: limited(o.GetLabels()), Annotations: limited(o.GetAnnotations()),
		CreationTimestamp: o.GetCreationTimestamp().Time,
	}
}

// limited returns the values that fit, in the order of the keys. It omits long values and
// the last applied configuration.
func limited(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	kept, space := make(map[string]string, len(m)), maxMetadataSize
	for _, key := range slices.Sorted(maps.Keys(m)) {
		size := len(key) + len(m[key])
		if key == corev1.LastAppliedConfigAnnotation || len(m[key]) > maxValueSize || size > space {
			continue
		}
		space -= size
		kept[key] = m[key]
	}
	return kept
}

func nodeDetails(node *corev1.Node) alarm.Node {
	capacity := make(map[string]string, len(node.Status.Capacity))
	for name, quantity := range node.Status.Capacity {
		capacity[string(name)] = quantity.String()
	}
	return alarm.Node{
		InstanceType: node.Labels[corev1.LabelInstanceTypeStable],
		Zone:         node.Labels[corev1.LabelTopologyZone],
		Capacity:     capacity,
	}
}

func nodeObject(ref alarm.Reference, node *corev1.Node) (alarm.Object, error) {
	if !isSame(ref, node) {
		return alarm.Object{}, errNoObject
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(node), Node: nodeDetails(node)}, nil
}

// TrimNode is the cache's transform for Nodes. It keeps the fields that alarms use, the
// resources that pods can get, and the addresses. The taints and the status of the condition
// Ready show why pods may not run on the node. The version of the kubelet shows whether the node is
// simulated. These are a small part of a Node.
func TrimNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil // a tombstone
	}
	annotations := node.Annotations
	if _, found := annotations[corev1.LastAppliedConfigAnnotation]; found {
		annotations = copyWithout(annotations, corev1.LastAppliedConfigAnnotation)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
			Labels: node.Labels, Annotations: annotations,
		},
		Spec: corev1.NodeSpec{PodCIDRs: node.Spec.PodCIDRs, Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, Addresses: node.Status.Addresses,
			Conditions: readyOf(node.Status.Conditions),
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: node.Status.NodeInfo.KubeletVersion},
		},
	}, nil
}

// readyOf returns the condition Ready without its texts and its heartbeat.
func readyOf(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for _, c := range conditions {
		if c.Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return nil
}

func copyWithout(annotations map[string]string, key string) map[string]string {
	out := make(map[string]string, len(annotations))
	for k, v := range annotations {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// Limits of labels, and of annotations, in bytes. An object's annotations can have 256
// KiB, and the cache has thousands of objects.
const (
	maxValueSize    = 4 << 10
	maxMetadataSize = 8 << 10
)
