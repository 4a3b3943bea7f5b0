// Package enrich reads the object that an Event regards: its labels, annotations and
// creation time, and more details of Nodes.
//
// Nodes come from the manager's cache, which is trimmed. For other objects, it reads the
// metadata from the API server, and caches it for some seconds. Memory therefore does not
// grow with the cluster. If an Event can mean that a Pod has a problem, it reads the
// whole Pod. It then keeps only the metadata, and the cause that the diagnosis finds.
// Missing and forbidden objects give an empty result, and never an error.
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
	// The cache is small, because the Events of a flood regard few objects.
	maxCachedObjects = 2048
	cacheTTL         = 10 * time.Second

	// lookupTimeout limits one read. An API server with problems must not delay the
	// alarms about them.
	lookupTimeout = 2 * time.Second
)

// Enricher reads objects. It is safe for concurrent use.
type Enricher struct {
	cluster string
	nodes   client.Reader
	live    client.Reader
	objects *expirable.LRU[cacheKey, alarm.Object]
	timeout time.Duration
}

// cacheKey identifies a cached object. For Pods with a problem, reason is that of the
// Event: other reasons belong to other states of the Pod.
type cacheKey struct {
	alarm.Reference
	reason string
}

// ClusterName returns the default name of a cluster. It is derived from the UID of the
// namespace kube-system.
func ClusterName(uid string) string {
	const length = 8
	return "cluster-" + uid[:min(length, len(uid))]
}

// New returns an Enricher. nodes serves Nodes, and live reads from the API server.
func New(cluster string, nodes, live client.Reader) *Enricher {
	return &Enricher{
		cluster: cluster, nodes: nodes, live: live, timeout: lookupTimeout,
		objects: expirable.NewLRU[cacheKey, alarm.Object](maxCachedObjects, nil, cacheTTL),
	}
}

// Context returns the object that the Event regards, and data about the cluster.
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
	ref.FieldPath = "" // all containers belong to the same object
	key := cacheKey{Reference: ref}
	if ref.Kind == "Pod" && mayHaveCause(event) {
		key.reason = cmp.Or(event.Reason, "?")
	}
	if object, ok := e.objects.Get(key); ok {
		return object, true
	}
	object, ok := e.lookUp(ctx, key)
	if ok && ref.Kind != "Node" {
		e.objects.Add(key, object)
	}
	return object, ok
}

// mayHaveCause reports whether the diagnosis can explain an Event of a Pod. The kubelet
// reports a delayed image pull as a BackOff of type Normal.
func mayHaveCause(event *alarm.Event) bool {
	return event.Type == corev1.EventTypeWarning || event.Reason == "BackOff"
}

func (e *Enricher) lookUp(ctx context.Context, key cacheKey) (alarm.Object, bool) {
	ref := key.Reference
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
	case kind == corev1.SchemeGroupVersion.WithKind("Pod") && key.reason != "":
		return e.pod(ctx, ref)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	if err := e.live.Get(ctx, objectKey(ref), object); err != nil || !isSame(ref, object) {
		return alarm.Object{}, false
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(object)}, true
}

// pod reads the Pod and diagnoses why it does not run. It does not read the Pod's Events:
// there can be many, and the message contains the one that matched.
func (e *Enricher) pod(ctx context.Context, ref alarm.Reference) (alarm.Object, bool) {
	pod := &corev1.Pod{}
	if err := e.live.Get(ctx, objectKey(ref), pod); err != nil || !isSame(ref, pod) {
		return alarm.Object{}, false
	}
	object := alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(pod)}
	if d := diagnosis.Diagnose(diagnosis.Workload{Pods: []*corev1.Pod{pod}}); d.Cause != nil {
		object.Cause = d.Cause.Sentence()
	}
	return object, true
}

// node reads from the cache, and from the API server if the cache does not have the Node
// yet.
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

// trusted reports whether the Event is in the namespace that Events of the object belong
// to. Otherwise, a tenant could get data about objects of other namespaces. Events of
// objects without a namespace belong to the namespace default.
func trusted(event *alarm.Event) bool {
	if event.Regarding.Namespace == "" {
		return event.Namespace == metav1.NamespaceDefault
	}
	return event.Namespace == event.Regarding.Namespace
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

// Limits of labels, and of annotations, in bytes. An object's annotations can have 256
// KiB, and the cache has thousands of objects.
const (
	maxValueSize    = 4 << 10
	maxMetadataSize = 8 << 10
)

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

// TrimNode is the cache's transform for Nodes. It keeps the fields that alarms use, and
// the resources that pods can get. These are a small part of a Node.
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
