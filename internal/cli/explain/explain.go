package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Explainer explains objects of a cluster.
type Explainer struct {
	objects client.Reader
	logs    corev1client.PodsGetter
}

// New returns an Explainer that has the rights of the configuration.
func New(config *rest.Config) (*Explainer, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, v1alpha1.AddToScheme,
	} {
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
	return &Explainer{objects: objects, logs: logs}, nil
}

// explanations are how the types are explained that can be.
var explanations = map[schema.GroupResource]func(*inquiry) error{
	{Resource: "pods"}:                                  (*inquiry).pod,
	{Resource: "persistentvolumeclaims"}:                (*inquiry).claim,
	{Group: appsv1.GroupName, Resource: "deployments"}:  (*inquiry).deployment,
	{Group: appsv1.GroupName, Resource: "statefulsets"}: (*inquiry).statefulSet,
	{Group: batchv1.GroupName, Resource: "jobs"}:        (*inquiry).job,
	{Group: v1alpha1.Group, Resource: "appservices"}:    (*inquiry).appService,
	{Group: v1alpha1.Group, Resource: "jupyters"}:       (*inquiry).jupyter,
}

// Types returns the names of the types that can be explained, in order.
func Types() []string {
	var names []string
	for resource := range explanations {
		names = append(names, resource.String())
	}
	slices.Sort(names)
	return names
}

// ErrType is the failure of a type that is not one of Types.
var ErrType = errors.New("cannot be explained")

// Explain finds out how the object fares. It fails if there is no such object, or
// the cluster cannot be asked.
func (e *Explainer) Explain(ctx context.Context, resource schema.GroupResource, namespace, name string) (*Explanation, error) {
	explain, ok := explanations[resource]
	if !ok {
		return nil, fmt.Errorf("%s %w: give one of %s", resource, ErrType, strings.Join(Types(), ", "))
	}
	q := &inquiry{
		ctx: ctx, Explainer: e, resource: resource, namespace: namespace, name: name,
		explanation: Explanation{Namespace: namespace, Name: name},
	}
	if err := explain(q); err != nil {
		return nil, err
	}
	x := q.conclude()
	if q.notFound != nil && x.Cause == nil {
		return nil, q.notFound
	}
	return x, nil
}

// inquiry is the explanation of one object on the way.
type inquiry struct {
	*Explainer
	//nolint:containedctx // it lives for the length of one call
	ctx             context.Context
	resource        schema.GroupResource
	namespace, name string

	explanation Explanation
	workload    diagnosis.Workload
	// missing says that not all of the pods that are wanted are there.
	missing bool
	// controllers are what makes the pods. Their UIDs are in the workload.
	controllers []diagnosis.Object
	// gonePods are the names of pods that there ought to be.
	gonePods []string
	// notFound is the error of a target that is gone.
	notFound error
	// fallback is the cause if no other is found.
	fallback *diagnosis.Cause
	// held says that something of the target has to run before it can be deleted.
	held bool
}

// found sets what the explanation is about.
func (q *inquiry) found(kind string, state State, summary string) {
	q.explanation.Kind, q.explanation.State, q.explanation.Summary = kind, state, summary
}

// conclude has the diagnosis judge what was read.
func (q *inquiry) conclude() *Explanation {
	x := &q.explanation
	x.LastCrash = causeOf(diagnosis.LastCrash(q.workload.Pods))
	if q.held || x.State != Stopped && x.State != Completed {
		q.diagnose()
	}
	if x.Cause != nil {
		x.LastCrash = nil
	}
	return x
}

func (q *inquiry) diagnose() {
	x := &q.explanation
	q.readAround()
	d := diagnosis.Diagnose(q.workload)
	if d.Cause == nil && q.fallback != nil {
		q.workload.Known = append(q.workload.Known, *q.fallback)
		d = diagnosis.Diagnose(q.workload)
	}
	x.Cause = causeOf(d.Cause)
	for i := range d.Others {
		x.Others = append(x.Others, *causeOf(&d.Others[i]))
	}
	if x.Cause != nil {
		if x.State != Unknown { // Events alone do not tell how it fares by now
			x.State = Failing
		}
		q.readLog()
	}
}

// readAround reads what may be why pods do not run. Where they all do, there is
// nothing to look for.
func (q *inquiry) readAround() {
	if q.explanation.State == Running {
		return
	}
	q.readClaims()
	q.readEvents()
	if q.overQuota() {
		q.readQuotas()
	}
	if slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && p.DeletionTimestamp == nil }) {
		q.readNodes()
	}
}
