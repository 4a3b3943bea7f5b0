// Package explain finds out why an object does not run. It reads the object, the objects
// that belong to it and their Events, and passes them to package diagnosis.
//
// It reads with the permissions of the user. If some objects may not be read, it lists
// them and explains the rest. It is the only package that reads the logs of containers.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// New returns an Explainer that uses the credentials of config.
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

// explanations maps each supported type to the method that explains it.
var explanations = map[schema.GroupResource]func(*inquiry) error{
	{Resource: "pods"}:                                  (*inquiry).pod,
	{Resource: "persistentvolumeclaims"}:                (*inquiry).claim,
	{Group: appsv1.GroupName, Resource: "deployments"}:  (*inquiry).deployment,
	{Group: appsv1.GroupName, Resource: "statefulsets"}: (*inquiry).statefulSet,
	{Group: batchv1.GroupName, Resource: "jobs"}:        (*inquiry).job,
	{Group: v1alpha1.Group, Resource: "appservices"}:    (*inquiry).appService,
	{Group: v1alpha1.Group, Resource: "jupyters"}:       (*inquiry).jupyter,
}

// Types returns the sorted names of the types that can be explained.
func Types() []string {
	var names []string
	for resource := range explanations {
		names = append(names, resource.String())
	}
	slices.Sort(names)
	return names
}

// ErrType reports a type that is not one of Types.
var ErrType = errors.New("cannot be explained")

// Explain returns the state of an object, and the cause if it does not run. It fails if
// the object does not exist or the cluster cannot be reached.
func (e *Explainer) Explain(ctx context.Context, resource schema.GroupResource, namespace, name string) (*Explanation, error) {
	explain, ok := explanations[resource]
	if !ok {
		return nil, fmt.Errorf("%s %w: use one of %s", resource, ErrType, strings.Join(Types(), ", "))
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

// inquiry holds the data of one call of Explain.
type inquiry struct {
	*Explainer
	//nolint:containedctx // an inquiry lives only during one call
	ctx             context.Context
	resource        schema.GroupResource
	namespace, name string

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
	// held is true if the target's deletion waits for a backup.
	held bool
}

// set sets the kind, the state and the summary of the explanation.
func (q *inquiry) set(kind string, state State, summary string) {
	q.explanation.Kind, q.explanation.State, q.explanation.Summary = kind, state, summary
}

// conclude diagnoses what was read, unless the target is not expected to run.
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
	q.readRelated()
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
		if x.State != Unknown { // Events alone do not show the present state
			x.State = Failing
		}
		q.readLog()
	}
}

// readRelated reads the claims, Events, quotas and nodes that may be the cause. It reads
// nothing if the target runs.
func (q *inquiry) readRelated() {
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

// State is the state of an explained object.
type State string

// The states.
const (
	// Running: the object runs as specified.
	Running State = "Running"
	// Waiting: the object does not run yet, and no problem is known.
	Waiting State = "Waiting"
	// Failing: the object does not run as specified, and the cause is known.
	Failing State = "Failing"
	// Stopped: the object is suspended, scaled to 0 or being deleted.
	Stopped State = "Stopped"
	// Completed: the object has ended successfully.
	Completed State = "Completed"
	// Unknown: the user may not read the object.
	Unknown State = "Unknown"
)

// Explanation is the result for an object, and the output of `bongsu explain -o json`.
// Its fields may be extended, but never changed.
type Explanation struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Summary is a sentence about the state.
	Summary string `json:"summary"`
	// Cause is why the object does not run. If State is Unknown, it is a possible cause.
	Cause *Cause `json:"cause,omitempty"`
	// Others are further problems, the most important first.
	Others []Cause `json:"others,omitempty"`
	// Log is the end of the log of the container that failed.
	Log *Log `json:"log,omitempty"`
	// LastCrash is the last crash of a container that runs again.
	LastCrash *Cause `json:"lastCrash,omitempty"`
	// Conditions and LastFailure come from the status of a Jupyter or AppService.
	Conditions  []metav1.Condition    `json:"conditions,omitempty"`
	LastFailure *v1alpha1.LastFailure `json:"lastFailure,omitempty"`
	// PodStatuses come from the status of an AppService: the pods that its health check
	// does not find healthy.
	PodStatuses []v1alpha1.PodStatus `json:"podStatuses,omitempty"`
	// Deletion explains why the deletion of an AppService waits.
	Deletion *Deletion `json:"deletion,omitempty"`
	// Unread lists the objects that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// Object names an object.
type Object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Cause is why an object does not run.
type Cause struct {
	Reason    string `json:"reason"`
	Object    Object `json:"object"`
	Container string `json:"container,omitempty"`
	ExitCode  *int32 `json:"exitCode,omitempty"`
	// Message says what is wrong, Advice what to do.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// Passing is true if the problem may disappear by itself.
	Passing bool `json:"passing"`
	// Time is the last occurrence, Count the number of occurrences.
	Time  *time.Time `json:"time,omitempty"`
	Count int32      `json:"count"`
}

// Log is the end of a container's log.
type Log struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Previous is true if the lines are from before the container's last restart.
	Previous bool     `json:"previous"`
	Lines    []string `json:"lines"`
}

// Deletion is why an object that is being deleted is still there.
type Deletion struct {
	// WaitsFor says what the deletion waits for. Release is the command that deletes the
	// object without a backup.
	WaitsFor string `json:"waitsFor"`
	Release  string `json:"release,omitempty"`
	// Backup comes from the status.
	Backup *v1alpha1.BackupStatus `json:"backup,omitempty"`
}

// Unread is an object or a list that could not be read.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func causeOf(c *diagnosis.Cause) *Cause {
	if c == nil {
		return nil
	}
	cause := &Cause{
		Reason: c.Reason, Object: Object(c.Object), Container: c.Container, ExitCode: c.ExitCode,
		Message: c.Message, Advice: c.Advice, Passing: c.Transient, Count: c.Count,
	}
	if !c.Time.IsZero() {
		at := c.Time.UTC()
		cause.Time = &at
	}
	return cause
}
