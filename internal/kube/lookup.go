package kube

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lookup implements [diagnosis.Lookup] by requests to the API server.
type Lookup struct {
	ctx       context.Context //nolint:containedctx // it is used during one diagnosis only
	reader    client.Reader
	namespace string
}

const (
	// maxLookup limits a list of quotas, LimitRanges, pods or claims in bytes, if [LimitResponses] wraps the
	// connection.
	maxLookup = 8 << 20
	// maxNamed is how many objects of a kind are read. A message names some of them.
	maxNamed = 500
)

// errTooMany is the error of a namespace with more than maxNamed objects of a kind.
var errTooMany = errors.New("there are too many of them")

// NewLookup returns a Lookup in a namespace. The context is that of its requests.
func NewLookup(ctx context.Context, r client.Reader, namespace string) *Lookup {
	return &Lookup{WithResponseLimit(ctx, maxLookup), r, namespace}
}

// Classes implements diagnosis.Lookup.
func (l *Lookup) Classes(kind string) ([]string, error) {
	group := map[string]string{"StorageClass": "storage.k8s.io", "PriorityClass": "scheduling.k8s.io", "RuntimeClass": "node.k8s.io"}[kind]
	var classes metav1.PartialObjectMetadataList
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind + "List"})
	err := l.reader.List(l.ctx, &classes, client.Limit(maxNamed))
	var names []string
	for i := range classes.Items {
		names = append(names, classes.Items[i].Name)
	}
	return names, err
}

// Quotas implements diagnosis.Lookup.
func (l *Lookup) Quotas() ([]corev1.ResourceQuota, error) {
	var list corev1.ResourceQuotaList
	err := l.list(&list)
	return list.Items, err
}

// LimitRanges implements diagnosis.Lookup.
func (l *Lookup) LimitRanges() ([]corev1.LimitRange, error) {
	var list corev1.LimitRangeList
	err := l.list(&list)
	return list.Items, err
}

// Pods implements diagnosis.Lookup.
func (l *Lookup) Pods() ([]corev1.Pod, error) {
	var list corev1.PodList
	err := l.list(&list)
	return list.Items, err
}

// Claims implements diagnosis.Lookup.
func (l *Lookup) Claims() ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := l.list(&list)
	return list.Items, err
}

// list lists all objects of the namespace. Some of them would not do: the most important one can be
// missing.
func (l *Lookup) list(list client.ObjectList) error {
	err := l.reader.List(l.ctx, list, client.InNamespace(l.namespace), client.Limit(maxNamed))
	if err == nil && list.GetContinue() != "" {
		err = errTooMany
	}
	return err
}
