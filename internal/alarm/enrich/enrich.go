// Package enrich looks up the object that an Event regards: labels, annotations,
// creation time, and of a Node what a newcomer is judged by.
//
// Nodes come from the manager's trimmed cache. Everything else is one bounded
// live read, remembered for some seconds, so that memory does not grow with the
// objects of the cluster: of metadata, or, where an Event tells of a Pod in trouble, of it,
// of which besides its metadata only the cause is kept that the diagnosis finds in
// it. What is missing or forbidden stays empty and never fails an alarm.
package enrich

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	// remembered objects, and for how long: a flood regards few objects.
	maxCachedObjects = 2048
	cacheTTL         = 10 * time.Second

	// lookupTimeout bounds one read: an API server in trouble must not hold up
	// the alarms that tell of it.
	lookupTimeout = 2 * time.Second
)

// Enricher looks objects up. It is safe for concurrent use.
type Enricher struct {
	cluster string
	nodes   client.Reader
	live    client.Reader
	objects *expirable.LRU[cacheKey, alarm.Object]
	timeout time.Duration
}

// subject is what is remembered: an object, or a Pod in trouble as it was when an Event
// of that reason was matched. Another reason tells of another state of the Pod.
type cacheKey struct {
	alarm.Reference
	reason string
}

// ClusterName is what messages call a cluster that was given no name: derived from the
// UID of its namespace kube-system.
func ClusterName(uid string) string {
	const enough = 8
	return "cluster-" + uid[:min(enough, len(uid))]
}

// New returns an Enricher. cache serves Nodes; live reads from the API server.
func New(cluster string, cache, live client.Reader) *Enricher {
	return &Enricher{
		cluster: cluster, nodes: cache, live: live, timeout: lookupTimeout,
		objects: expirable.NewLRU[cacheKey, alarm.Object](maxCachedObjects, nil, cacheTTL),
	}
}

// Context returns what is known about the Event's surroundings.
func (e *Enricher) Context(ctx context.Context, event *alarm.Event) alarm.Context {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	object, resolved := e.object(ctx, event)
	if !resolved {
		object = namesOnly(event.Regarding)
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
	about := cacheKey{Reference: ref}
	if ref.Kind == "Pod" && mayHaveCause(event) {
		about.reason = cmp.Or(event.Reason, "?")
	}
	if object, ok := e.objects.Get(about); ok {
		return object, true
	}
	object, ok := e.lookUp(ctx, about)
	if ok && ref.Kind != "Node" {
		e.objects.Add(about, object)
	}
	return object, ok
}

// tellsOfTrouble says whether an Event of a Pod may have a cause. That the kubelet puts
// off a pull which has failed is of type Normal.
func mayHaveCause(event *alarm.Event) bool {
	return event.Type == corev1.EventTypeWarning || event.Reason == "BackOff"
}

func (e *Enricher) lookUp(ctx context.Context, about cacheKey) (alarm.Object, bool) {
	ref := about.Reference
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return alarm.Object{}, false
	}
	kind, ok := readable[group.WithKind(ref.Kind).GroupKind()]
	switch {
	case !ok:
		return alarm.Object{}, false
	case kind == corev1.SchemeGroupVersion.WithKind("Node"):
		return e.node(ctx, ref)
	case kind == corev1.SchemeGroupVersion.WithKind("Pod") && about.reason != "":
		return e.pod(ctx, ref)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if err := e.live.Get(ctx, key, object); err != nil || !isSame(ref, object) {
		return alarm.Object{}, false
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(object)}, true
}

// pod reads the Pod and why it does not run. Its Events are not read: there may be
// many, and the one that matched is told of anyway.
func (e *Enricher) pod(ctx context.Context, ref alarm.Reference) (alarm.Object, bool) {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if err := e.live.Get(ctx, key, pod); err != nil || !isSame(ref, pod) {
		return alarm.Object{}, false
	}
	object := alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(pod)}
	if d := diagnosis.Diagnose(diagnosis.Workload{Pods: []*corev1.Pod{pod}}); d.Cause != nil {
		object.Cause = d.Cause.Sentence()
	}
	return object, true
}

// node reads from the cache, and from the API server if the Event was quicker
// than the cache.
func (e *Enricher) node(ctx context.Context, ref alarm.Reference) (alarm.Object, bool) {
	node := &corev1.Node{}
	err := e.nodes.Get(ctx, client.ObjectKey{Name: ref.Name}, node)
	if apierrors.IsNotFound(err) {
		err = e.live.Get(ctx, client.ObjectKey{Name: ref.Name}, node)
	}
	if err != nil || !isSame(ref, node) {
		return alarm.Object{}, false
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(node), Node: nodeDetails(node)}, true
}

func (e *Enricher) countNodes(ctx context.Context) int64 {
	var nodes corev1.NodeList
	if err := e.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
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
func isSame(ref alarm.Reference, object client.Object) bool {
	if object.GetNamespace() != ref.Namespace {
		return false
	}
	return ref.UID == "" || ref.UID == string(object.GetUID()) ||
		(ref.Kind == "Node" && ref.UID == ref.Name)
}

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

// Bounds of labels and of annotations, each, in bytes: an object's may be 256 KiB
// together, and thousands of objects are remembered.
const (
	maxValueSize    = 4 << 10
	maxMetadataSize = 8 << 10
)

// bounded returns what there is room for, in the order of the keys, and never the
// last applied configuration. A value that is too long is left out.
func limited(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	kept, room := make(map[string]string, len(m)), maxMetadataSize
	for _, key := range slices.Sorted(maps.Keys(m)) {
		size := len(key) + len(m[key])
		if key == corev1.LastAppliedConfigAnnotation || len(m[key]) > maxValueSize || size > room {
			continue
		}
		room -= size
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
