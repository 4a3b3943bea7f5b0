// Package explain finds out why an object does not run. It reads the object, the objects
// that belong to it and their Events, and passes them to package diagnosis.
//
// It reads with the permissions of the user. If some objects may not be read, it lists
// them and explains the rest. It is the only package that reads the logs of containers. [Roots] is the part for the
// operator, within a namespace.
package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Explainer explains objects of a cluster.
type Explainer struct {
	client apiClient
	// objects is the client, or a snapshot of the cluster.
	objects client.Reader
	// logs is nil in an overview, which reads no logs, and no objects one by one.
	logs  corev1client.PodsGetter
	clock clock.PassiveClock
	// served lists the API groups, and the types of a version.
	served served
	// within limits what is explained to a namespace. It is nil for a user, whose permissions limit it.
	within *within
}

// apiClient reads from an API server, and knows its types.
type apiClient interface {
	client.Reader
	Scheme() *runtime.Scheme
	RESTMapper() meta.RESTMapper
	GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error)
}

// served lists what an API server serves.
type served interface {
	ServerGroups() (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// schemes register the types that the package reads.
var schemes = []func(*runtime.Scheme) error{
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, v1alpha1.AddToScheme,
	autoscalingv2.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	admissionv1.AddToScheme, rbacv1.AddToScheme,
}

// New returns an Explainer that uses the credentials of config.
func New(config *rest.Config, clk clock.PassiveClock) (*Explainer, error) {
	scheme := runtime.NewScheme()
	for _, add := range schemes {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	objects, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	logs, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Explainer{client: objects, objects: objects, logs: logs, clock: clk, served: memory.NewMemCacheClient(api)}, nil
}

// supportedType is a type that an overview contains.
type supportedType struct {
	object  client.Object
	explain func(*inquiry) error
}

// supportedTypes are the types that an overview contains.
var supportedTypes = map[schema.GroupResource]supportedType{
	{Resource: "namespaces"}:                            {&corev1.Namespace{}, (*inquiry).namespaceObject},
	{Resource: "nodes"}:                                 {&corev1.Node{}, (*inquiry).node},
	{Resource: "pods"}:                                  {&corev1.Pod{}, (*inquiry).pod},
	{Resource: "persistentvolumeclaims"}:                {&corev1.PersistentVolumeClaim{}, (*inquiry).claim},
	{Resource: "services"}:                              {&corev1.Service{}, (*inquiry).service},
	{Group: appsv1.GroupName, Resource: "daemonsets"}:   {&appsv1.DaemonSet{}, (*inquiry).daemonSet},
	{Group: appsv1.GroupName, Resource: "replicasets"}:  {&appsv1.ReplicaSet{}, (*inquiry).replicaSet},
	{Group: batchv1.GroupName, Resource: "cronjobs"}:    {&batchv1.CronJob{}, (*inquiry).cronJob},
	{Group: appsv1.GroupName, Resource: "deployments"}:  {&appsv1.Deployment{}, (*inquiry).deployment},
	{Group: appsv1.GroupName, Resource: "statefulsets"}: {&appsv1.StatefulSet{}, (*inquiry).statefulSet},
	{Group: batchv1.GroupName, Resource: "jobs"}:        {&batchv1.Job{}, (*inquiry).job},
	{Group: v1alpha1.Group, Resource: "appservices"}:    {&v1alpha1.AppService{}, (*inquiry).appService},
	{Group: v1alpha1.Group, Resource: "jupyters"}:       {&v1alpha1.Jupyter{}, (*inquiry).jupyter},

	{Group: v1alpha1.Group, Resource: "alarms"}:                {&v1alpha1.Alarm{}, (*inquiry).ownConditions},
	{Group: v1alpha1.Group, Resource: "clusteralarms"}:         {&v1alpha1.ClusterAlarm{}, (*inquiry).ownConditions},
	{Group: v1alpha1.Group, Resource: "alarmreceivers"}:        {&v1alpha1.AlarmReceiver{}, (*inquiry).ownConditions},
	{Group: v1alpha1.Group, Resource: "clusteralarmreceivers"}: {&v1alpha1.ClusterAlarmReceiver{}, (*inquiry).ownConditions},
	{Group: v1alpha1.Group, Resource: "secretshares"}:          {&v1alpha1.SecretShare{}, (*inquiry).ownConditions},
	{Group: v1alpha1.Group, Resource: "clustersecretshares"}:   {&v1alpha1.ClusterSecretShare{}, (*inquiry).ownConditions},
	{Group: v1alpha1.Group, Resource: "secretsharegrants"}:     {&v1alpha1.SecretShareGrant{}, (*inquiry).ownConditions},

	{Group: networkingv1.GroupName, Resource: "ingresses"}:                 {&networkingv1.Ingress{}, (*inquiry).ingress},
	{Group: autoscalingv2.GroupName, Resource: "horizontalpodautoscalers"}: {&autoscalingv2.HorizontalPodAutoscaler{}, (*inquiry).autoscaler},
	{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}:          {&policyv1.PodDisruptionBudget{}, (*inquiry).disruptionBudget},

	{Group: admissionv1.GroupName, Resource: "validatingwebhookconfigurations"}: {&admissionv1.ValidatingWebhookConfiguration{}, (*inquiry).validatingWebhooks},
	{Group: admissionv1.GroupName, Resource: "mutatingwebhookconfigurations"}:   {&admissionv1.MutatingWebhookConfiguration{}, (*inquiry).mutatingWebhooks},
}

// sortedResources returns the types of an overview, sorted by name.
func sortedResources() []schema.GroupResource {
	return slices.SortedFunc(maps.Keys(supportedTypes), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
}

// Types returns the sorted names of the types of an overview. All other types
// are explained by their conditions.
func Types() []string {
	var names []string
	for _, resource := range sortedResources() {
		names = append(names, resource.String())
	}
	return names
}

// Explain returns the state of an object, and the cause if it does not run. It fails if
// the object does not exist or the cluster cannot be reached.
func (e *Explainer) Explain(ctx context.Context, resource schema.GroupResource, namespace, name string) (*Explanation, error) {
	kind, err := e.kindOf(resource)
	if err != nil {
		return nil, err
	}
	mapping, err := e.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	walk := newWalk(newReference(kind.GroupKind(), namespace, name, ""))
	if e.logs == nil { // an overview reads each list once
		return e.explain(ctx, mapping, namespace, name, walk)
	}
	return e.sending(maxReads).explain(ctx, mapping, namespace, name, walk)
}

// sending returns an Explainer that sends at most a number of requests.
func (e *Explainer) sending(most int) *Explainer {
	bounded := *e
	c := &boundedClient{apiClient: e.client, left: most}
	bounded.client, bounded.objects = c, c
	return &bounded
}

// maxReads limits the requests for objects and lists that the explanation of one object sends.
const maxReads = 40

// boundedClient reads until no request is left. What it does not read is not checked.
type boundedClient struct {
	apiClient
	left int
}

// Get fails if no request is left.
func (c *boundedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := c.take(); err != nil {
		return err
	}
	return c.apiClient.Get(ctx, key, o, opts...)
}

// List fails if no request is left.
func (c *boundedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.take(); err != nil {
		return err
	}
	return c.apiClient.List(ctx, list, opts...)
}

func (c *boundedClient) take() error {
	if c.left == 0 {
		return fmt.Errorf("an answer sends at most %d requests; explain the last object of the chain", maxReads)
	}
	c.left--
	return nil
}

// kindOf returns the kind of a resource. Other API groups can have a resource of the same name.
func (e *Explainer) kindOf(resource schema.GroupResource) (schema.GroupVersionKind, error) {
	if known, ok := supportedTypes[resource]; ok {
		return e.client.GroupVersionKindFor(known.object)
	}
	return e.client.RESTMapper().KindFor(resource.WithVersion(""))
}

// explain explains an object on a walk.
func (e *Explainer) explain(ctx context.Context, mapping *meta.RESTMapping, namespace, name string, w walk) (*Explanation, error) {
	*w.explained++
	resource := mapping.Resource.GroupResource()
	q := &inquiry{
		ctx: ctx, Explainer: e, resource: resource, namespace: namespace, name: name, walk: w,
		explanation: Explanation{Namespace: namespace, Name: name},
	}
	var err error
	if known, ok := supportedTypes[resource]; ok {
		err = known.explain(q)
	} else if resource == secrets {
		err = q.secret()
	} else {
		err = q.anyKind(mapping.GroupVersionKind)
	}
	if err != nil {
		return nil, err
	}
	x := q.conclude()
	q.follow()
	q.checkWait()
	q.errorsInLog()
	if q.notFound != nil && x.Cause == nil {
		return nil, q.notFound
	}
	return x, nil
}

// inquiry holds the data of one call of Explain.
type inquiry struct {
	*Explainer
	//nolint:containedctx // an inquiry lives only during one call
	ctx             context.Context
	resource        schema.GroupResource
	namespace, name string
	walk            walk

	explanation Explanation
	workload    diagnosis.Workload
	// missing is true if there are fewer pods than wanted.
	missing bool
	// controllers are the objects that create the pods. Their UIDs are in workload.
	controllers []diagnosis.Object
	// gonePods are the names of expected pods that do not exist.
	gonePods []string
	// notFound is the error of reading a target that does not exist.
	notFound error
	// fallback is the cause if the diagnosis finds no other.
	fallback *diagnosis.Cause
	// condition is the cause in a condition of the operator, or nil. It is the cause if the caller
	// may not read everything that the operator reads.
	condition *diagnosis.Cause
	// works is true if the target does what it should, although some of its pods may have a problem.
	works bool
	// held is true if the target's deletion is known to wait for something.
	held bool
	// awaitsDeleted is true if a deleted pod still exists that the target waits for.
	awaitsDeleted bool
	// object is the target, or nil if it could not be read.
	object client.Object
	// blaming is the cause of the target, as the diagnosis found it.
	blaming *diagnosis.Cause
	// next are objects that can be why the target does not work.
	next []reference
	// wait limits how long a target without a known cause may wait, or is nil.
	wait *waitLimit
}

// set sets the kind, the state and the summary of the explanation.
func (q *inquiry) set(kind string, state State, summary string) {
	q.explanation.Kind, q.explanation.State, q.explanation.Summary = kind, state, summary
}

// conclude diagnoses what was read, unless the target is not expected to run.
func (q *inquiry) conclude() *Explanation {
	x := &q.explanation
	q.terminating()
	if x.State == Running { // pods that have failed are left over
		q.workload.Pods = slices.DeleteFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	}
	if x.State != Completed {
		x.LastCrash = causeOf(diagnosis.LastCrash(q.workload.Pods))
	}
	if x.State == Stopped && q.awaitsDeleted {
		q.held = true
		x.Summary += "; pods that should have ended still exist"
	}
	if q.held || x.State != Stopped && x.State != Completed {
		q.diagnose()
	}
	if q.wait == nil && !x.passive {
		q.limitPods()
	}
	isOld := x.LastCrash != nil && x.LastCrash.Time != nil && q.clock.Since(*x.LastCrash.Time) > podsReadyAfter
	if x.Cause != nil || x.State == Waiting && isOld { // a rollout that has just begun has nothing to do with it
		x.LastCrash = nil
	}
	if q.works && x.Cause == nil {
		x.State, x.LateAfter = Running, nil
	}
	return x
}

func (q *inquiry) diagnose() {
	x := &q.explanation
	q.readRelated()
	q.workload.Now = q.clock.Now()
	d := diagnosis.DiagnoseOr(q.workload, q.fallback)
	d.Complete(lookup{kube.NewLookup(q.ctx, q.objects, q.namespace), q})
	if q.condition != nil && len(x.NotChecked) > 0 {
		d = preferCondition(d, *q.condition)
	}
	q.addStuck(&d)
	if x.State == Running && d.Cause == nil {
		d.Cause = q.unstable()
	}
	if d.Cause != nil && q.workload.Now.Before(d.Cause.LateAfter) {
		q.starting(d.Cause)
		return
	}
	if d.Cause != nil && q.logs != nil {
		q.addNodeEvent(d.Cause)
	}
	x.Cause, q.blaming = causeOf(d.Cause), d.Cause
	for i := range d.Others {
		x.Others = append(x.Others, *causeOf(&d.Others[i]))
	}
	if x.Cause != nil {
		if x.State != Unknown { // Events alone do not show the present state
			x.State = Failing
		}
		if q.logs != nil {
			q.readLog()
		}
	}
}

// starting describes a target that has not failed: it needs more time.
func (q *inquiry) starting(c *diagnosis.Cause) {
	x, late := &q.explanation, c.LateAfter.UTC()
	x.State, x.LateAfter = Waiting, &late
	x.Summary += "; " + c.Message
}

// unstable returns the crash from which ready pods have not recovered yet, or nil. In a crash loop, a
// pod is ready for a moment after each restart.
func (q *inquiry) unstable() *diagnosis.Cause {
	crash, _ := diagnosis.Recovering(q.workload, q.clock.Now())
	if crash != nil && len(q.workload.Events) == 0 { // they say which probe ended the container
		q.readEvents()
		crash, _ = diagnosis.Recovering(q.workload, q.clock.Now())
	}
	return crash
}

// preferCondition puts the cause in a condition of the operator first. If the diagnosis found the same
// reason, it keeps what it knows about the container.
func preferCondition(d diagnosis.Diagnosis, condition diagnosis.Cause) diagnosis.Diagnosis {
	cause := *diagnosis.Diagnose(diagnosis.Workload{Known: []diagnosis.Cause{condition}}).Cause
	switch {
	case d.Cause == nil:
		d.Cause = &cause
	case d.Cause.Reason == cause.Reason:
		d.Cause.Message, d.Cause.Items, d.Cause.Advice = cause.Message, cause.Items, cause.Advice
	default:
		d.Others = append([]diagnosis.Cause{*d.Cause}, d.Others...)
		d.Cause = &cause
	}
	return d
}

// readRelated reads the claims, Events and nodes that may be the cause. It reads
// nothing if the target runs.
func (q *inquiry) readRelated() {
	if q.explanation.State == Running {
		return
	}
	q.readClaims()
	q.readEvents()
	if slices.ContainsFunc(q.workload.Pods, needsNodes) {
		q.readNodes()
	}
	var err error
	if q.workload.Volumes, err = kube.VolumesOf(q.ctx, q.objects, &q.workload); err != nil {
		q.unread("persistentvolumes", "get them", err)
	}
}

// needsNodes reports whether the nodes may show why the pod does not run. Pods that are
// not ready although their containers are, or that are not deleted in time, may be on a
// node that does not respond.
func needsNodes(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" {
		return p.DeletionTimestamp == nil
	}
	statuses := p.Status.ContainerStatuses
	return !podIsReady(p) && p.Status.Phase == corev1.PodRunning && len(statuses) > 0 &&
		!slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
}
