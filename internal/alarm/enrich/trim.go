package enrich

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrimNode is the cache's transform for Nodes: it keeps what alarms see and what pods
// can have, which is a small part of a Node.
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
		Status: corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}, nil
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
