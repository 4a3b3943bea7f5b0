// Package enrich reads the object that an Event regards: its labels, annotations and
// creation time, and more details of Nodes.
//
// Nodes come from the manager's cache, which is trimmed. For other objects, it reads the
// metadata from the API server, and caches it for some seconds. Memory therefore does not
// grow with the cluster. If an Event can mean that a Pod has a problem, it reads the
// whole Pod. It then keeps only the metadata, and the cause that the diagnosis finds. For
// other kinds, it finds the cause in the Event. If a Warning of a Deployment, ReplicaSet,
// StatefulSet, DaemonSet or Job contains none, it reads the pods of that object. It reads the
// pods of one object at a time. If they cannot be read, the object is known without a cause of
// them. Pods of its namespace are then not read again for a second.
//
// Objects of other kinds are read only for alarms that name their resource, see [Enricher.Named].
//
// A read that fails does not mean that the object is gone: see [Classify]. Such an object,
// and others of its namespace, are not read again for a while. An object that is gone is not
// read again for a second. If it was read within the last minute, it is known as it was then:
// the last Events of an object come after its deletion.
package enrich

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/eventcache"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	// The cache is small, because the Events of a flood regard few objects.
	maxCachedObjects = 2048
	cacheTTL         = 10 * time.Second

	// lookupTimeout limits one read. An API server with problems must not delay the
	// alarms about them.
	lookupTimeout = 2 * time.Second

	// unreadTTL is how long an object is not read again after a failed read. pauseTTL is how
	// long other objects of its namespace are not read.
	unreadTTL = 10 * time.Second
	pauseTTL  = time.Second

	// goneTTL is how long an object that is gone is not read again, see isGone. It is short,
	// because a restore of etcd brings objects back.
	goneTTL = time.Second
)

// Enricher reads objects. It is safe for concurrent use.
type Enricher struct {
	cluster string
	nodes   Nodes
	live    client.Reader
	// named reads the resources that alarms name. It can be nil.
	named Resources
	// roots can be nil.
	roots   *explain.Roots
	objects *expirable.LRU[cacheKey, alarm.Object]
	// summary contains at most one summary of all Nodes.
	summary *expirable.LRU[struct{}, *diagnosis.Nodes]
	// unread and paused are the objects, and the keys of cacheKey.pause, whose last read failed.
	unread *expirable.LRU[alarm.Reference, alarm.Unread]
	paused *expirable.LRU[string, alarm.Unread]
	// gone are the objects that were deleted. remembered are those that were read.
	gone       *expirable.LRU[alarm.Reference, struct{}]
	remembered *remembered
	// podsUnread are the namespaces whose pods could not be read.
	podsUnread *expirable.LRU[string, struct{}]
	podsTurn   *semaphore.Weighted
	reads      singleflight.Group
	timeout    time.Duration
	clock      clock.PassiveClock
}

// cacheKey identifies a cached object. The cause of a Pod can be in the Event. For Pods with a
// problem, reason is therefore that of the Event with a hash of its note and container. For
// controllers it is ofPods, withoutPods or empty. named is the name of a resource that alarms name,
// empty for a kind that is read for every alarm.
type cacheKey struct {
	alarm.Reference
	reason, named string
}

// pause returns the key for which reads pause after a failure: the namespace. A resource that
// alarms name has a key of its own, because its API can fail alone.
func (k *cacheKey) pause() string {
	if k.named == "" {
		return k.Namespace
	}
	return k.Namespace + "/" + k.named
}

// ClusterName returns the default name of a cluster. It is derived from the UID of the
// namespace kube-system.
func ClusterName(uid string) string {
	const length = 8
	return "cluster-" + uid[:min(length, len(uid))]
}

// New returns an Enricher. live reads from the API server.
func New(cluster string, nodes Nodes, live client.Reader) *Enricher {
	return &Enricher{
		cluster: cluster, nodes: nodes, live: live, timeout: lookupTimeout, clock: clock.RealClock{},
		objects: expirable.NewLRU[cacheKey, alarm.Object](maxCachedObjects, nil, cacheTTL),
		summary: expirable.NewLRU[struct{}, *diagnosis.Nodes](1, nil, cacheTTL),
		unread:  expirable.NewLRU[alarm.Reference, alarm.Unread](maxCachedObjects, nil, unreadTTL),
		paused:  expirable.NewLRU[string, alarm.Unread](maxCachedObjects, nil, pauseTTL),
		gone:    expirable.NewLRU[alarm.Reference, struct{}](maxCachedObjects, nil, goneTTL),

		remembered: newRemembered(clock.RealClock{}),
		podsUnread: expirable.NewLRU[string, struct{}](maxCachedObjects, nil, pauseTTL),
		podsTurn:   semaphore.NewWeighted(1),
	}
}

// WithRoots lets causes name why the pods that they blame are as they are.
func (e *Enricher) WithRoots(scheme *runtime.Scheme, mapper meta.RESTMapper) *Enricher {
	e.roots = explain.NewRoots(e.live, e.nodes, scheme, mapper, e.clock, explain.ForMessages())
	return e
}

// Context returns the object that the Event regards, and data about the cluster. After the
// end of ctx, it makes no request.
func (e *Enricher) Context(ctx context.Context, event *alarm.Event) alarm.Context {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	object, err := e.object(ctx, event)
	return e.context(ctx, event, object, err)
}

// context returns the context of an Event with its object, or with the error of reading it.
func (e *Enricher) context(ctx context.Context, event *alarm.Event, object alarm.Object, err error) alarm.Context {
	switch {
	case err != nil:
		object = namesOnly(event.Regarding)
	case object.Cause == "":
		object.Cause = causeIn(event)
	}
	nodes, nodesErr := e.nodes.Count(ctx)
	return alarm.Context{
		Object: object, Resolved: err == nil, ObjectUnread: Classify(err),
		Cluster: alarm.Cluster{Name: e.cluster, Nodes: nodes}, NodesUnread: Classify(nodesErr),
	}
}

// object returns errNoObject if there is no object to read. Any other error is of a read.
func (e *Enricher) object(ctx context.Context, event *alarm.Event) (alarm.Object, error) {
	ref := event.Regarding
	ref.FieldPath = "" // all containers belong to the same object
	kind, ok := kindOf(ref)
	if !ok || !trusted(event) {
		return alarm.Object{}, errNoObject
	}
	if kind.Kind == "Node" {
		node := &corev1.Node{}
		if e.nodes.Get(ctx, objectKey(ref), node) == nil {
			return nodeObject(ref, node)
		}
	}
	return e.read(ctx, cacheKey{Reference: ref, reason: reasonFor(event, kind.Kind)}, func(key *cacheKey) (alarm.Object, error) {
		object, err := e.lookUp(ctx, *key, kind, event)
		if errors.Is(err, errPodsUnread) {
			e.podsUnread.Add(ref.Namespace, struct{}{})
			key.reason, err = withoutPods, nil
		}
		return object, err
	})
}

// read returns the result of an earlier read that is still valid, or reads the object and keeps the
// result. An object is read once for all who need it at the same time.
func (e *Enricher) read(ctx context.Context, wanted cacheKey, get func(key *cacheKey) (alarm.Object, error)) (alarm.Object, error) {
	object, err := e.readNow(ctx, wanted, get)
	if isGone(wanted.Reference, err) {
		if last, ok := e.remembered.get(wanted.identity()); ok {
			return last, nil
		}
	}
	return object, err
}

// identity returns the key under which an object is remembered, whatever it was read for.
func (k *cacheKey) identity() cacheKey { return cacheKey{Reference: k.Reference, named: k.named} }

// readNow is read for an object that exists.
func (e *Enricher) readNow(ctx context.Context, wanted cacheKey, get func(key *cacheKey) (alarm.Object, error)) (alarm.Object, error) {
	if object, _, ok, err := e.recall(ctx, wanted); ok {
		return object, err
	}
	object, err, _ := e.reads.Do(fmt.Sprintf("%q", wanted), func() (any, error) {
		object, key, ok, err := e.recall(ctx, wanted) // the read of another one can have ended
		if ok {
			return object, err
		}
		object, err = get(&key)
		e.keep(key, object, err)
		return object, err
	})
	return object.(alarm.Object), err
}

// recall returns the result of an earlier read that is still valid. Otherwise ok is false, and key
// is that of the object to read.
func (e *Enricher) recall(ctx context.Context, wanted cacheKey) (object alarm.Object, key cacheKey, ok bool, err error) {
	if object, key, ok = e.cached(wanted); ok {
		return object, key, true, nil
	}
	if _, gone := e.gone.Get(key.Reference); gone {
		return alarm.Object{}, key, true, errNoObject
	}
	if unread := e.recentlyUnread(ctx, &key); unread != "" {
		return alarm.Object{}, key, true, unreadError(unread)
	}
	return alarm.Object{}, key, false, nil
}

// keep keeps the result of a read for a while.
func (e *Enricher) keep(key cacheKey, object alarm.Object, err error) {
	switch unread := Classify(err); {
	case unread != "":
		e.unread.Add(key.Reference, unread)
		if unread != forbidden { // that depends on the kind
			e.paused.Add(key.pause(), unread)
		}
	case isGone(key.Reference, err):
		e.gone.Add(key.Reference, struct{}{})
	case err == nil && (key.Kind != "Node" || key.named != ""):
		e.objects.Add(key, object)
		e.remembered.add(key.identity(), object)
	}
}

// reasonFor returns the reason in the cacheKey of the object that an Event regards.
func reasonFor(event *alarm.Event, kind string) string {
	switch {
	case event.Regarding.Kind == "Pod" && mayHaveCause(event):
		note := fnv.New64a()
		_, _ = note.Write([]byte(event.Regarding.FieldPath + " " + event.Note))
		return event.Reason + "?" + strconv.FormatUint(note.Sum64(), 36)
	case needsPods(event, kind):
		return ofPods
	}
	return ""
}

// cached returns the cached object of a key, or the key of the object to read. While the pods of
// its namespace are not read, that is the key without them.
func (e *Enricher) cached(key cacheKey) (alarm.Object, cacheKey, bool) {
	object, ok := e.objects.Get(key)
	if ok || key.reason != ofPods {
		return object, key, ok
	}
	if _, unread := e.podsUnread.Get(key.Namespace); unread {
		key.reason = withoutPods
		object, ok = e.objects.Get(key)
	}
	return object, key, ok
}

// causeIn returns the cause that the Event itself contains, or an empty string. It reads
// no further object.
func causeIn(event *alarm.Event) string {
	if cause := diagnosis.FromEvent(eventcache.EventOf(event)); cause != nil {
		return cause.Sentence()
	}
	return ""
}

// recentlyUnread returns why the object must not be read now, or an empty Unread.
func (e *Enricher) recentlyUnread(ctx context.Context, key *cacheKey) alarm.Unread {
	if ctx.Err() != nil {
		return noAnswer
	}
	if unread, ok := e.unread.Get(key.Reference); ok {
		return unread
	}
	unread, _ := e.paused.Get(key.pause())
	return unread
}

// mayHaveCause reports whether the diagnosis can explain an Event of a Pod. The kubelet
// reports a delayed image pull as a BackOff of type Normal.
func mayHaveCause(event *alarm.Event) bool {
	return event.Type == corev1.EventTypeWarning || event.Reason == "BackOff"
}

func (e *Enricher) lookUp(ctx context.Context, key cacheKey, kind schema.GroupVersionKind, event *alarm.Event) (alarm.Object, error) {
	ref := key.Reference
	switch {
	case kind.Kind == "Node":
		return e.node(ctx, ref)
	case kind.Kind == "Pod" && key.reason != "":
		return e.pod(ctx, ref, event)
	case key.reason == ofPods || key.reason == withoutPods:
		owner, _ := podControllerOf(kind.Kind)
		return e.controller(ctx, ref, key.reason, owner)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	if err := read(ctx, e.live, ref, object); err != nil {
		return alarm.Object{}, err
	}
	return objectOf(ref, object), nil
}

// pod reads the Pod and diagnoses why it does not run. It does not read the Pod's other Events,
// because there can be many.
func (e *Enricher) pod(ctx context.Context, ref alarm.Reference, event *alarm.Event) (alarm.Object, error) {
	pod := &corev1.Pod{}
	if err := read(ctx, e.live, ref, pod); err != nil {
		return alarm.Object{}, err
	}
	object := objectOf(ref, pod)
	matched := eventcache.EventOf(event)
	matched.UID = pod.UID // read has compared them; that of a static pod differs
	w := e.workload(ctx, pod)
	w.Events = []diagnosis.Event{matched}
	d := diagnosis.Diagnose(w)
	if cause := d.Of(matched.Container()); cause != nil {
		e.roots.Complete(ctx, pod, w, cause)
		object.Cause = cause.Sentence()
	}
	return object, nil
}

// workload returns pods with the states of their Nodes. If a pod is not scheduled, it contains a summary
// of all Nodes too. It does not read volumes, because the author of an alarm may not do so.
func (e *Enricher) workload(ctx context.Context, pods ...*corev1.Pod) diagnosis.Workload {
	w := diagnosis.Workload{Pods: pods, Now: e.clock.Now()}
	if nodes, err := kube.NodesOf(ctx, e.nodes, pods); err == nil {
		w.NodeStates = diagnosis.NodeStates(nodes)
	}
	if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
		w.Nodes = e.nodeSummary(ctx)
	}
	return w
}

// nodeSummary returns a summary of all Nodes, or nil if they cannot be read. It is kept for a while,
// because a storm of Events can regard many pods.
func (e *Enricher) nodeSummary(ctx context.Context) *diagnosis.Nodes {
	if summary, ok := e.summary.Get(struct{}{}); ok {
		return summary
	}
	var nodes corev1.NodeList
	if e.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	summary := diagnosis.SummarizeNodes(nodes.Items)
	e.summary.Add(struct{}{}, summary)
	return summary
}

// node reads a Node that the cache does not have yet.
func (e *Enricher) node(ctx context.Context, ref alarm.Reference) (alarm.Object, error) {
	node := &corev1.Node{}
	if err := read(ctx, e.live, ref, node); err != nil {
		return alarm.Object{}, err
	}
	return nodeObject(ref, node)
}

func nodeObject(ref alarm.Reference, node *corev1.Node) (alarm.Object, error) {
	if !isSame(ref, node) {
		return alarm.Object{}, errNoObject
	}
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(node), Node: nodeDetails(node)}, nil
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

// objectOf returns an object that was read for a reference.
func objectOf(ref alarm.Reference, o client.Object) alarm.Object {
	return alarm.Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Metadata: metadata(o), Owner: ownerOf(o)}
}

// ownerOf returns the workload that the metadata of an object names as its controller. A ReplicaSet of
// a Deployment has the name of the Deployment and the hash that its pods have as a label. A static pod
// belongs to its Node, which is no workload. The API server does not limit the length of the names in a
// reference, which a tenant can write.
func ownerOf(o client.Object) alarm.Owner {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind == "Node" || max(len(owner.Kind), len(owner.Name)) > validation.DNS1123SubdomainMaxLength {
		return alarm.Owner{}
	}
	if hash := o.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return alarm.Owner{Kind: "Deployment", Name: name}
		}
	}
	return alarm.Owner{Kind: owner.Kind, Name: owner.Name}
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
