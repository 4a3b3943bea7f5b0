// Package enrich looks up the object that an Event regards: labels, annotations,
// creation time, and of a Node what a newcomer is judged by.
//
// Nodes come from the manager's trimmed cache. Everything else is one bounded
// live read of metadata, remembered for some seconds, so that memory does not
// grow with the objects of the cluster. What is missing or forbidden stays empty
// and never fails an alarm.
package enrich

import (
	"context"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

const (
	// remembered objects, and for how long: a flood regards few objects.
	rememberedObjects = 2048
	rememberFor       = 10 * time.Second

	// lookupTimeout bounds one read: an API server in trouble must not hold up
	// the alarms that tell of it.
	lookupTimeout = 2 * time.Second
)

// Enricher looks objects up. It is safe for concurrent use.
type Enricher struct {
	cluster string
	cache   client.Reader
	live    client.Reader
	mapper  meta.RESTMapper
	known   *expirable.LRU[alarm.Reference, alarm.Object]
}

// New returns an Enricher. cache serves Nodes; live reads from the API server.
func New(cluster string, cache, live client.Reader, mapper meta.RESTMapper) *Enricher {
	return &Enricher{
		cluster: cluster, cache: cache, live: live, mapper: mapper,
		known: expirable.NewLRU[alarm.Reference, alarm.Object](rememberedObjects, nil, rememberFor),
	}
}

// Context returns what is known about the Event's surroundings.
func (e *Enricher) Context(ctx context.Context, event *alarm.Event) alarm.Context {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	object, resolved := e.object(ctx, event)
	if !resolved {
		object = named(event.Regarding)
	}
	return alarm.Context{
		Object: object, Resolved: resolved,
		Cluster: alarm.Cluster{Name: e.cluster, Nodes: e.countNodes(ctx)},
	}
}

func (e *Enricher) object(ctx context.Context, event *alarm.Event) (alarm.Object, bool) {
	ref := event.Regarding
	if !trusted(event) {
		return alarm.Object{}, false
	}
	ref.FieldPath = "" // the same object, whichever of its containers
	if object, ok := e.known.Get(ref); ok {
		return object, true
	}
	object, ok := e.lookUp(ctx, ref)
	if ok && ref.Kind != "Node" {
		e.known.Add(ref, object)
	}
	return object, ok
}

func (e *Enricher) lookUp(ctx context.Context, ref alarm.Reference) (alarm.Object, bool) {
	if ref.Kind == "Node" && (ref.APIVersion == "v1" || ref.APIVersion == "") {
		return e.node(ctx, ref)
	}
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return alarm.Object{}, false
	}
	gvk := group.WithKind(ref.Kind)
	if !readable[gvk.GroupKind()] {
		return alarm.Object{}, false
	}
	if _, err := e.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		return alarm.Object{}, false
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if err := e.live.Get(ctx, key, object); err != nil || !isMeant(ref, object) {
		return alarm.Object{}, false
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(object)}, true
}

// node reads from the cache, and from the API server if the Event was quicker
// than the cache.
func (e *Enricher) node(ctx context.Context, ref alarm.Reference) (alarm.Object, bool) {
	node := &corev1.Node{}
	err := e.cache.Get(ctx, client.ObjectKey{Name: ref.Name}, node)
	if apierrors.IsNotFound(err) {
		err = e.live.Get(ctx, client.ObjectKey{Name: ref.Name}, node)
	}
	if err != nil || !isMeant(ref, node) {
		return alarm.Object{}, false
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(node), Node: describe(node)}, true
}

func (e *Enricher) countNodes(ctx context.Context) int64 {
	var nodes corev1.NodeList
	if err := e.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return 0
	}
	return int64(len(nodes.Items))
}

// trusted says whether the Event's own namespace vouches for the object: anyone
// who may create Events in a namespace can let one regard any object. Events of
// objects without a namespace are kept in the default one.
func trusted(event *alarm.Event) bool {
	if event.Regarding.Namespace == "" {
		return event.Namespace == metav1.NamespaceDefault
	}
	return event.Namespace == event.Regarding.Namespace
}

// isMeant says whether the object is the one that is meant: neither a later one of
// the same name, nor one without a namespace that an Event claims for its own. A
// kubelet's Events carry the name of the Node as its UID.
func isMeant(ref alarm.Reference, object client.Object) bool {
	if object.GetNamespace() != ref.Namespace {
		return false
	}
	return ref.UID == "" || ref.UID == string(object.GetUID()) ||
		(ref.Kind == "Node" && ref.UID == ref.Name)
}

func named(ref alarm.Reference) alarm.Object {
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: alarm.ObjectMeta{
		Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
	}}
}

func metadata(o client.Object) alarm.ObjectMeta {
	annotations := o.GetAnnotations()
	if _, found := annotations[corev1.LastAppliedConfigAnnotation]; found {
		annotations = copyWithout(annotations, corev1.LastAppliedConfigAnnotation)
	}
	return alarm.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
		Labels: o.GetLabels(), Annotations: annotations, CreationTimestamp: o.GetCreationTimestamp().Time,
	}
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

func describe(node *corev1.Node) alarm.Node {
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
