package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Types of storage, also of that which runs in the cluster: rook.io/docs, longhorn.io/docs.
var (
	storageClass     = schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}
	volumeAttachment = schema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"}
	cephKind         = schema.GroupKind{Group: "ceph.rook.io", Kind: "CephCluster"}
	longhornReplica  = schema.GroupKind{Group: longhornVolume.Group, Kind: "Replica"}
	longhornNode     = schema.GroupKind{Group: longhornVolume.Group, Kind: "Node"}
)

// drivers are what configures the storage behind drivers, by the name of the driver: docs.netapp.com/us-en/trident.
var drivers = map[string]schema.GroupKind{"csi.trident.netapp.io": {Group: "trident.netapp.io", Kind: "TridentBackendConfig"}}

// backends returns what configures the storage of claims without a volume.
func (q *inquiry) backends() []reference {
	if q.blaming == nil || !slices.Contains(waitsForVolume, q.blaming.Reason) {
		return nil
	}
	var all []reference
	for _, c := range q.workload.Claims {
		for _, class := range q.listIn("", storageClass) {
			provisioner, _ := contentOf(class)["provisioner"].(string)
			kind, known := drivers[provisioner]
			if !known || c.Spec.StorageClassName == nil || class.GetName() != *c.Spec.StorageClassName {
				continue
			}
			for _, o := range q.listIn("", kind) {
				all = append(all, newReference(kind, o.GetNamespace(), o.GetName(), ", which configures its storage,"))
			}
		}
	}
	return all[:min(len(all), maxReferences)]
}

// bucketClaim asks for a bucket of an object store: rook.io/docs, objectbucket.io.
var bucketClaim = schema.GroupKind{Group: "objectbucket.io", Kind: "ObjectBucketClaim"}

// objectStore returns the store of Rook in which a bucket should be made. Its class names it.
func (q *inquiry) objectStore() []reference {
	name, _, _ := unstructured.NestedString(q.custom().Object, "spec", "storageClassName")
	var all []reference
	for _, class := range q.listIn("", storageClass) {
		if class.GetName() != name {
			continue
		}
		store, _, _ := unstructured.NestedString(contentOf(class), "parameters", "objectStoreName")
		namespace, _, _ := unstructured.NestedString(contentOf(class), "parameters", "objectStoreNamespace")
		r := newReference(schema.GroupKind{Group: cephKind.Group, Kind: "CephObjectStore"}, namespace, store, ", in which it is made,")
		r.mustExist = true
		all = append(all, r)
	}
	return all
}

// cephBelow returns the cluster of an object of Rook, if the object has a problem.
func (q *inquiry) cephBelow() []reference {
	u := q.custom()
	if u.GroupVersionKind().Group != cephKind.Group {
		return nil
	}
	var all []reference
	for _, o := range q.listOf(cephKind) {
		all = append(all, newReference(cephKind, q.namespace, o.GetName(), ", which keeps its data,"))
	}
	return all
}

// cephWorkloads returns the workloads of a cluster of Ceph that lack pods.
func (q *inquiry) cephWorkloads() []reference {
	return q.failingWorkloads(", which is a part of it,", func(o client.Object, _ *corev1.PodSpec) bool {
		return o.GetNamespace() == q.namespace && len(o.GetOwnerReferences()) > 0
	})
}

// cephCluster returns the clusters of Ceph that make the volumes of claims without one. A StorageClass names the
// namespace of its cluster.
func (q *inquiry) cephCluster() []reference {
	if q.blaming == nil || !slices.Contains(waitsForVolume, q.blaming.Reason) || !q.isServed(cephKind.Group) {
		return nil
	}
	var all []reference
	for _, c := range q.workload.Claims {
		if c.Spec.StorageClassName == nil {
			continue
		}
		for _, class := range q.listIn("", storageClass) {
			provisioner, _ := contentOf(class)["provisioner"].(string)
			namespace, _, _ := unstructured.NestedString(contentOf(class), "parameters", "clusterID")
			if class.GetName() != *c.Spec.StorageClassName || namespace == "" || !strings.HasSuffix(provisioner, "csi.ceph.com") {
				continue
			}
			for _, o := range q.listIn(namespace, cephKind) {
				all = append(all, newReference(cephKind, namespace, o.GetName(), ", which makes its volumes,"))
			}
		}
	}
	return all[:min(len(all), maxReferences)]
}

// ceph adds a cause if the health of a cluster of Ceph is an error. Its conditions do not say so.
func (q *inquiry) ceph(u *unstructured.Unstructured) {
	health, _, _ := unstructured.NestedString(u.Object, "status", "ceph", "health")
	if u.GroupVersionKind().GroupKind() != cephKind || health != "HEALTH_ERR" {
		return
	}
	details, _, _ := unstructured.NestedMap(u.Object, "status", "ceph", "details")
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(details)) {
		fields, _ := details[name].(map[string]any)
		if fields["severity"] == health {
			texts = append(texts, fmt.Sprintf("%s: %v", name, fields["message"]))
		}
	}
	q.explanation.State = Waiting
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: health, Object: diagnosis.Object{Kind: cephKind.Kind, Name: u.GetName()}, Transient: true,
		Message: shortLine(strings.TrimSuffix("the health of Ceph is "+health+": "+strings.Join(texts, "; "), ": ")),
		Advice:  "ask the cluster's administrator for more storage, or to repair it",
	})
}

// longhornFaulted adds a cause if no replica of a volume of Longhorn can be used.
func (q *inquiry) longhornFaulted(u *unstructured.Unstructured) {
	if u.GroupVersionKind().GroupKind() != longhornVolume || statusText(u, "robustness") != "faulted" {
		return
	}
	q.explanation.State = Waiting
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: "Faulted", Object: diagnosis.Object{Kind: longhornVolume.Kind, Name: u.GetName()}, Transient: true,
		Message: "it is faulted: none of its replicas can be used", Advice: "ask the cluster's administrator to repair the nodes and disks of its replicas",
	})
}

// replicaNodes returns the nodes of a volume's replicas, and how Longhorn sees them and their disks.
func (q *inquiry) replicaNodes() []reference {
	var all []reference
	for _, o := range q.listOf(longhornReplica) {
		volume, _, _ := unstructured.NestedString(contentOf(o), "spec", "volumeName")
		node, _, _ := unstructured.NestedString(contentOf(o), "spec", "nodeID")
		if volume != q.name || node == "" || len(all) >= maxReferences {
			continue
		}
		const relation = ", which has a replica,"
		all = append(all, newReference(nodeKind, "", node, relation), newReference(longhornNode, q.namespace, node, relation))
	}
	return all
}

// attachedTo returns the nodes to which the volumes of the pod of the cause are attached, if it waits for their end. The cause
// then names them.
func (q *inquiry) attachedTo() []reference {
	if q.blaming == nil || q.blaming.Reason != diagnosis.ReasonFailedAttachVolume || !strings.Contains(q.problemText(), "attached to another node") {
		return nil
	}
	var all []reference
	for _, o := range q.listIn("", volumeAttachment) {
		volume, _, _ := unstructured.NestedString(contentOf(o), "spec", "source", "persistentVolumeName")
		node, _, _ := unstructured.NestedString(contentOf(o), "spec", "nodeName")
		attached, _, _ := unstructured.NestedBool(contentOf(o), "status", "attached")
		claimed := slices.ContainsFunc(q.workload.Claims, func(c *corev1.PersistentVolumeClaim) bool { return volume != "" && c.Spec.VolumeName == volume })
		own := slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == q.blaming.Object.Name && p.Spec.NodeName == node })
		if text, _, _ := unstructured.NestedString(contentOf(o), "status", "detachError", "message"); attached && claimed && !own && text != "" {
			q.explanation.Cause.add(fmt.Sprintf("it cannot be detached from node %q: %s", node, text), "ask the cluster's administrator to correct the storage driver, or its access to the storage backend")
			continue
		}
		if attached && claimed && !own && len(all) < maxReferences {
			all = append(all, newReference(nodeKind, "", node, ", to which it is attached,"))
		}
	}
	return all
}
