package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bongsu-io/bongsu/internal/expiring"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The limits of [Roots].
const (
	// maxRootRequests limits the requests for one cause. requestsPerMinute limits those for all causes of a
	// namespace, after the first burst.
	maxRootRequests   = 10
	requestsPerMinute = 100
	requestsAtOnce    = 2 * maxRootRequests
	// maxRootBytes limits a response, if [kube.LimitResponses] wraps the connection, and rootPage a list. Only one
	// cause is followed at a time, for at most rootTimeout, because objects need more memory than their text.
	maxRootBytes = 2 << 20
	rootPage     = 200
	rootTimeout  = 5 * time.Second
	// rootTTL is how long a root is known without a request, and maxRoots how many are.
	rootTTL  = 30 * time.Second
	maxRoots = 2048
	// absentTTL is how long a type that the cluster does not have is not looked for again.
	absentTTL = 10 * time.Minute
)

// Roots finds the roots of causes for those who may know only one namespace: the readers of a condition, an Event
// or a message. Like [Explainer], it follows references, but only from pods to what creates their Secrets and holds
// their volumes. It reads objects of this namespace and of chosen types, the Nodes of pods, and neither Events
// nor logs. It is safe for concurrent use.
type Roots struct {
	live, nodes client.Reader
	scheme      *runtime.Scheme
	mapper      meta.RESTMapper
	clock       clock.PassiveClock
	kinds       []schema.GroupKind
	// trimmed means that the pods of workloads come from a cache, which does not keep what they refer to.
	trimmed bool
	turn    *semaphore.Weighted
	rates   *expiring.Cache[string, *rate.Limiter]
	recent  *expiring.Cache[string, *diagnosis.Root]
}

// NewRoots returns Roots that reads objects of these types with live, and Nodes with nodes. All types belong to
// a namespace.
func NewRoots(live, nodes client.Reader, scheme *runtime.Scheme, mapper meta.RESTMapper, clk clock.PassiveClock, kinds []schema.GroupKind) *Roots {
	return &Roots{
		live: live, nodes: nodes, scheme: scheme, clock: clk, kinds: kinds,
		mapper: &presentTypes{mapper, expiring.New[schema.GroupKind, error](len(kinds), absentTTL, clk)},
		turn:   semaphore.NewWeighted(1),
		rates:  expiring.New[string, *rate.Limiter](maxRoots, absentTTL, clk),
		recent: expiring.New[string, *diagnosis.Root](maxRoots, rootTTL, clk),
	}
}

// WithTrimmedPods makes Roots read a pod whose cause is about a Secret: [kube.TrimPod] drops what it refers to.
func (r *Roots) WithTrimmedPods() *Roots {
	r.trimmed = true
	return r
}

// Complete sets the root of a cause of target. w is what is known of target: its pods and their claims. It
// leaves the cause as it is if there is no root, or if a read fails. A nil Roots does nothing.
func (r *Roots) Complete(ctx context.Context, target client.Object, w diagnosis.Workload, cause *diagnosis.Cause) {
	if r == nil || cause == nil || target.GetNamespace() == "" {
		return
	}
	kind, err := apiutil.GVKForObject(target, r.scheme)
	if err != nil {
		return
	}
	self := newReference(kind.GroupKind(), target.GetNamespace(), target.GetName(), "")
	key := self.key() + "|" + string(target.GetUID()) + "|" + cause.Identity() + "|" + cause.Advice
	root, known := r.recent.Get(key)
	if !known {
		var complete bool
		if root, complete = r.find(ctx, self, target, w, cause); complete {
			r.recent.Add(key, root)
		}
	}
	if root != nil {
		cause.SetRoot(*root)
	}
}

// find returns the root of a cause, or nil, and whether another attempt soon would find the same.
func (r *Roots) find(ctx context.Context, self reference, target client.Object, w diagnosis.Workload, cause *diagnosis.Cause) (root *diagnosis.Root, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, rootTimeout)
	defer cancel()
	if r.turn.Acquire(ctx, 1) != nil {
		return nil, false
	}
	defer r.turn.Release(1)
	reader := &within{Roots: r, namespace: self.namespace, left: maxRootRequests, listed: map[string]*unstructured.Unstructured{}}
	q := &inquiry{
		Explainer: &Explainer{client: reader, objects: reader, clock: r.clock, served: reader, within: reader},
		ctx:       ctx, namespace: self.namespace, name: self.name, object: target, workload: w, blaming: cause, walk: newWalk(self),
		explanation: Explanation{Kind: self.kind.Kind, Namespace: self.namespace, Name: self.name, State: Failing, Summary: cause.Message, Cause: causeOf(cause)},
	}
	q.workload.Now = r.clock.Now()
	if r.trimmed {
		q.readWhole()
	}
	for _, c := range w.Claims {
		q.next = append(q.next, sourceOf(c)...)
	}
	q.follow()
	x := &q.explanation
	root = &diagnosis.Root{Advice: cause.Advice}
	if text, found := strings.CutPrefix(x.Cause.Message, cause.Message+": "); found {
		root = &diagnosis.Root{Message: text, Advice: x.Cause.Advice}
	}
	if rest := reader.notChecked(); rest != "" {
		root.Message = strings.TrimPrefix(root.Message+"; "+rest, "; ")
	}
	if root.Message == "" {
		return nil, !reader.failed
	}
	return root, !reader.failed && !reader.limited
}

// readWhole reads the pod of a cause about a Secret.
func (q *inquiry) readWhole() {
	if q.blaming.Object.Kind != kindPod || !slices.ContainsFunc(q.blaming.Blames, func(o diagnosis.Object) bool { return o.Kind == kindSecret }) {
		return
	}
	p := &corev1.Pod{}
	if q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: q.blaming.Object.Name}, p) == nil {
		q.workload.Pods = []*corev1.Pod{p}
	}
}

// newWalk returns a walk that begins at an object.
func newWalk(r reference) walk {
	explained := 0
	return walk{from: []string{r.key()}, explained: &explained, lists: map[string][]client.Object{}, failed: map[string]bool{}, fine: map[string]*Explanation{}}
}

var (
	errOutside      = errors.New("it does not belong to the namespace")
	errTooManyReads = errors.New("too many objects were read for this namespace")
	errTooLong      = errors.New("too many objects were read for this cause")
)

// clusterStores are the types of the cluster that a condition names, because an object of the namespace depends on
// them. Their objects are not read.
var clusterStores = []schema.GroupKind{{Group: externalSecret.Group, Kind: "ClusterSecretStore"}, {Group: certificate.Group, Kind: "ClusterIssuer"}}

// within reads what [Roots] may read for one cause. It implements [apiClient] and served.
type within struct {
	*Roots
	namespace string
	// left is how many requests it may still send.
	left int
	// listed are the objects in lists that were read.
	listed map[string]*unstructured.Unstructured
	// outside is an object of the cluster that may be the root, or nil.
	outside *reference
	// limited is true if a request was not sent because of the limit for the namespace, failed if one failed.
	limited, failed bool
	// cut is true if one was not sent because of the limit for the cause. The next attempt is cut at the same object.
	cut bool
}

// allows reports whether objects of a type in a namespace may be read.
func (w *within) allows(kind schema.GroupKind, namespace string) bool {
	return w == nil || namespace == w.namespace && slices.Contains(w.kinds, kind)
}

// admits reports whether the object of a reference may be explained. It remembers one of the cluster that the text
// of the problem is about. Tenants write references, so the name must be one.
func (w *within) admits(r reference, text string) bool {
	if w.allows(r.kind, r.namespace) {
		return true
	}
	isOutside := slices.Contains(clusterStores, r.kind) && (r.kind.Group == externalSecret.Group || mentions(text, r.name))
	if isOutside && len(validation.IsDNS1123Subdomain(r.name)) == 0 {
		r.namespace = ""
		w.outside = &r
	}
	return false
}

// notChecked says which object was not read, and who can do so. It is empty if all were.
func (w *within) notChecked() string {
	switch {
	case w.limited:
		return "not checked any further, because many objects of this namespace were read within a minute"
	case w.cut:
		return fmt.Sprintf("not checked any further, because it leads to more than %d objects", maxRootRequests)
	case w.outside == nil:
		return ""
	}
	command := detailsCommand(&ProblemObject{Kind: w.outside.kind.Kind, Name: w.outside.name})
	return fmt.Sprintf("%s was not checked: ask your administrator to run %s", w.outside, command)
}

// use counts a request, or returns why it must not be sent.
func (w *within) use(kind schema.GroupVersionKind, namespace string) error {
	if !w.allows(kind.GroupKind(), namespace) {
		return errOutside
	}
	turn, ok := w.rates.Get(w.namespace)
	if !ok {
		turn = rate.NewLimiter(rate.Every(time.Minute/requestsPerMinute), requestsAtOnce)
		w.rates.Add(w.namespace, turn)
	}
	switch {
	case w.left == 0:
		w.cut = true
		return errTooLong
	case !turn.AllowN(w.clock.Now(), 1):
		w.limited = true
		return errTooManyReads
	}
	w.left--
	return nil
}

// sent records whether a request failed. A missing permission is no failure: it stays.
func (w *within) sent(err error) error {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		w.failed = true
	}
	return err
}

// Get implements client.Reader.
func (w *within) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Node); ok {
		return w.nodes.Get(ctx, key, o, opts...)
	}
	kind, err := w.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		if known := w.listed[kind.Kind+"/"+key.String()]; known != nil && key.Namespace == w.namespace {
			u.Object = known.Object
			return nil
		}
	}
	if err := w.use(kind, key.Namespace); err != nil {
		return err
	}
	return w.sent(w.live.Get(kube.WithResponseLimit(ctx, maxRootBytes), key, o, opts...))
}

// List implements client.Reader.
func (w *within) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.NodeList); ok {
		return w.nodes.List(ctx, list, opts...)
	}
	kind, err := w.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if err := w.use(kind, (&client.ListOptions{}).ApplyOptions(opts).Namespace); err != nil {
		return err
	}
	err = w.sent(w.live.List(kube.WithResponseLimit(ctx, maxRootBytes), list, append(opts, client.Limit(rootPage))...))
	if found, ok := list.(*unstructured.UnstructuredList); ok && err == nil {
		for i := range found.Items {
			w.listed[kind.Kind+"/"+client.ObjectKeyFromObject(&found.Items[i]).String()] = &found.Items[i]
		}
	}
	return err
}

// GroupVersionKindFor implements apiClient.
func (w *within) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, w.scheme)
}

// Scheme implements apiClient.
func (w *within) Scheme() *runtime.Scheme { return w.scheme }

// RESTMapper implements apiClient.
func (w *within) RESTMapper() meta.RESTMapper { return w.mapper }

// ServerGroups implements served. Only an overview needs it.
func (w *within) ServerGroups() (*metav1.APIGroupList, error) { return nil, errOutside }

// ServerResourcesForGroupVersion implements served. It knows the types that may be read.
func (w *within) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	gv, err := schema.ParseGroupVersion(groupVersion)
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, k := range w.kinds {
		if k.Group == gv.Group {
			list.APIResources = append(list.APIResources, metav1.APIResource{Kind: k.Kind, Namespaced: true, Verbs: metav1.Verbs{"list"}})
		}
	}
	return list, err
}

// presentTypes is a mapper that asks the API server for a type which does not exist only once in a while.
type presentTypes struct {
	meta.RESTMapper
	absent *expiring.Cache[schema.GroupKind, error]
}

// RESTMapping implements meta.RESTMapper.
func (p *presentTypes) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if err, absent := p.absent.Get(kind); absent {
		return nil, err
	}
	mapping, err := p.RESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		p.absent.Add(kind, err)
	}
	return mapping, err
}

// A Secret that does not exist can have something that should create it, which a condition names.
// +kubebuilder:rbac:groups=external-secrets.io,resources=externalsecrets,verbs=list
// +kubebuilder:rbac:groups=external-secrets.io,resources=secretstores,verbs=get
// +kubebuilder:rbac:groups=bitnami.com,resources=sealedsecrets,verbs=list
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates;certificaterequests,verbs=list
// +kubebuilder:rbac:groups=cert-manager.io,resources=issuers,verbs=get
// +kubebuilder:rbac:groups=acme.cert-manager.io,resources=orders;challenges,verbs=list
//
// A volume can be held by a pod, or be made from a snapshot.
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshots,verbs=get

// ForMessages returns the types that the messages of alarms may follow. Their authors may get these.
func ForMessages() []schema.GroupKind { return []schema.GroupKind{podKind, claimKind} }

// ForConditions returns the types that the conditions of Jupyters and AppServices may follow.
func ForConditions() []schema.GroupKind {
	return []schema.GroupKind{
		podKind, claimKind, volumeSnapshot,
		externalSecret, {Group: externalSecret.Group, Kind: "SecretStore"}, {Group: "bitnami.com", Kind: "SealedSecret"},
		certificate, {Group: certificate.Group, Kind: "CertificateRequest"}, {Group: certificate.Group, Kind: "Issuer"},
		{Group: "acme.cert-manager.io", Kind: "Order"}, {Group: "acme.cert-manager.io", Kind: "Challenge"},
	}
}
