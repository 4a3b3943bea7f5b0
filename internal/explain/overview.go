package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Overview lists what does not run as specified in a namespace or in the cluster. It is
// the output of `bongsu explain -o json` without an object. Its fields may be extended,
// but never changed.
type Overview struct {
	// Namespace is empty for all namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Checked is the number of objects. It excludes objects that another one of them
	// controls, such as the pods of a Deployment.
	Checked int `json:"checked"`
	// Problems are the causes, the most important first.
	Problems []Problem `json:"problems"`
	// NotChecked lists what could not be read, or was not.
	NotChecked []NotChecked `json:"notChecked,omitempty"`
}

// Problem is a cause, and the objects that do not run because of it.
type Problem struct {
	// State is Failing, or Waiting if there is no cause.
	State State  `json:"state"`
	Cause *Cause `json:"cause,omitempty"`
	// Objects are sorted by namespace, kind and name.
	Objects []ProblemObject `json:"objects"`

	// key is equal for the same problem in two overviews.
	key string
	// partial is true if a part of each object runs.
	partial bool
}

// ProblemObject is an object that does not run as specified.
type ProblemObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Summary   string `json:"summary"`
}

// clusterTypes are types that belong to no namespace, and that few users may list.
var clusterTypes = []string{
	"nodes", "namespaces", "ingressclasses.networking.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"clusteralarms.bongsu.io", "clusteralarmreceivers.bongsu.io", "clustersecretshares.bongsu.io",
}

// Incomplete returns an error if objects of the namespace could not be read.
func (o *Overview) Incomplete() error {
	var what []string
	for _, u := range o.NotChecked {
		ofCluster := slices.Contains(clusterTypes, u.What) && u.Why == "you may not list them"
		if !ofCluster && u.Why != notInOverview {
			what = append(what, u.What)
		}
	}
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("the overview is incomplete: could not read %s", strings.Join(what, ", "))
}

// Overview explains all objects of a namespace, or of all namespaces if it is empty. It
// reads no logs.
func (e *Explainer) Overview(ctx context.Context, namespace string) (*Overview, error) {
	deleted, err := e.checkNamespace(ctx, namespace)
	if err != nil {
		return nil, err
	}
	s := newSnapshot(e.client, namespace)
	v := &overview{
		Explainer: &Explainer{client: e.client, objects: s, clock: e.clock, served: e.served}, snapshot: s,
		Overview: &Overview{Namespace: namespace, Problems: []Problem{}}, byKey: map[string]*Problem{},
	}
	targets, err := v.targets(ctx)
	if err != nil {
		return nil, err
	}
	if deleted {
		targets = append(targets, target{schema.GroupResource{Resource: "namespaces"}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}})
	}
	if err := v.explainAll(ctx, targets); err != nil {
		return nil, err
	}
	return v.result(), nil
}

// notInOverview is why an overview does not contain the objects of other API groups.
const notInOverview = "an overview does not contain them; name one to explain it"

// withoutProblems are further groups that an overview does not need: its own, and those of the API server.
var withoutProblems = []string{v1alpha1.Group, "apiextensions.k8s.io", "apiregistration.k8s.io", "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}

// notListed are types of Kubernetes that can have a problem of their own, and that an overview does not contain.
var notListed = []string{"apiservices", "certificatesigningrequests", "persistentvolumes", "replicationcontrollers"}

// otherTypes records the types that the overview does not contain.
func (v *overview) otherTypes() {
	groups, err := v.served.ServerGroups()
	if err != nil {
		v.readFailed("the API groups", err)
		return
	}
	var others []string
	for _, g := range groups.Groups {
		if !clientscheme.Scheme.IsGroupRegistered(g.Name) && !slices.Contains(withoutProblems, g.Name) {
			others = append(others, g.Name)
		}
	}
	what := nameList(notListed)
	if len(others) > 0 {
		slices.Sort(others)
		what += ", and custom resources of " + nameList(others)
	}
	v.addUnread(NotChecked{What: what, Why: notInOverview})
}

// checkNamespace fails if the namespace does not exist. Lists of such a namespace are
// empty. It returns whether the namespace is being deleted, as far as the user may read it.
func (e *Explainer) checkNamespace(ctx context.Context, namespace string) (deleted bool, err error) {
	if namespace == "" {
		return false, nil
	}
	n := &corev1.Namespace{}
	err = e.objects.Get(ctx, client.ObjectKey{Name: namespace}, n)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return n.DeletionTimestamp != nil, err
}

// overview holds the data of one call of Overview.
type overview struct {
	*Explainer
	*Overview
	snapshot *snapshot
	byKey    map[string]*Problem
}

// target is an object to explain.
type target struct {
	resource schema.GroupResource
	object   client.Object
}

func (v *overview) explainAll(ctx context.Context, targets []target) error {
	for _, t := range targets {
		x, err := v.Explain(ctx, t.resource, t.object.GetNamespace(), t.object.GetName())
		switch {
		case apierrors.IsNotFound(err): // deleted since
		case err != nil:
			return err
		default:
			v.Checked++
			v.add(x)
		}
	}
	return nil
}

// targets returns the objects that no other object of these types controls. It fails if
// no type could be read, and not only because of permissions.
func (v *overview) targets(ctx context.Context) ([]target, error) {
	var all []target
	var failures []error
	uids := map[types.UID]bool{}
	for _, resource := range v.resources() {
		kind, err := v.client.GroupVersionKindFor(supportedTypes[resource].object)
		if err != nil {
			return nil, err
		}
		l := v.snapshot.read(ctx, kind)
		if meta.IsNoMatchError(l.err) {
			continue // the server does not have this type
		}
		if l.err != nil && !apierrors.IsForbidden(l.err) {
			failures = append(failures, l.err)
		}
		for _, o := range l.byKey {
			all = append(all, target{resource: resource, object: o})
			uids[o.GetUID()] = true
		}
		v.readFailed(resource.String(), l.err)
	}
	if len(all) == 0 && len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	all = slices.DeleteFunc(all, func(t target) bool {
		owner := metav1.GetControllerOfNoCopy(t.object)
		return owner != nil && uids[owner.UID]
	})
	// The first object of a problem provides its cause, which must not change between two calls.
	slices.SortStableFunc(all, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()), cmp.Compare(a.object.GetNamespace(), b.object.GetNamespace()), cmp.Compare(a.object.GetName(), b.object.GetName()))
	})
	return all, nil
}

// resources returns the types to list. Those without a namespace belong to the overview of
// all namespaces.
func (v *overview) resources() []schema.GroupResource {
	return slices.DeleteFunc(sortedResources(), func(r schema.GroupResource) bool {
		return v.Namespace != "" && slices.Contains(clusterTypes, r.String())
	})
}

// readFailed records that a list could not be read.
func (v *overview) readFailed(what string, err error) {
	if err != nil {
		v.addUnread(unreadOf(what, "list them", err))
	}
}

func (v *overview) addUnread(u NotChecked) {
	if !slices.Contains(v.NotChecked, u) {
		v.NotChecked = append(v.NotChecked, u)
	}
}

// add adds the problems of an object.
func (v *overview) add(x *Explanation) {
	for _, u := range x.NotChecked {
		v.addUnread(u)
	}
	o := ProblemObject{Kind: x.Kind, Namespace: x.Namespace, Name: x.Name, Summary: x.Summary}
	switch {
	case x.Cause != nil:
		v.addCause(x, o, x.Cause)
		for i := range x.Others { // of other pods than the first
			if c := &x.Others[i]; c.Object != x.Cause.Object || x.Kind == kindNamespace {
				v.addCause(x, o, c)
			}
		}
	case x.LateAfter != nil: // it is starting
	case x.State == Waiting && !x.passive: // a claim may wait for its first pod, a Service for its pods
		v.addProblem(Problem{State: Waiting, key: fmt.Sprintf("%s/%s/%s", o.Kind, o.Namespace, o.Name), partial: x.partial}, o)
	}
}

func (v *overview) addCause(x *Explanation, o ProblemObject, c *Cause) {
	v.addProblem(Problem{State: Failing, Cause: c, key: causeKey(o, c), partial: x.partial}, o)
}

// ownCauses are reasons of failures in a program. Such failures of two pods are two
// problems, even if they look the same. A Service shares the problem of its pods.
var ownCauses = []string{
	diagnosis.ReasonOOMKilled, diagnosis.ReasonCrashLoopBackOff, diagnosis.ReasonError, diagnosis.ReasonUnhealthy, diagnosis.ReasonPodInitializing,
	diagnosis.ReasonProgressDeadlineExceeded,
}

// causeKey returns a key that is equal for causes that one change can correct. A problem of a
// node is the same in all namespaces.
func causeKey(o ProblemObject, c *Cause) string {
	if c.root != "" {
		return c.root
	}
	if c.Node != "" {
		return "Node/" + c.Node + "|" + c.Reason
	}
	problem := diagnosis.Cause{Message: c.Message, Items: c.Items}
	key := o.Namespace + "|" + diagnosis.Identity(c.Reason, "", "", "", nil, problem.Sentence())
	if slices.Contains(ownCauses, c.Reason) {
		key += "|" + c.Object.Kind + "/" + c.Object.Name
	}
	return key
}

func (v *overview) addProblem(p Problem, o ProblemObject) {
	known, ok := v.byKey[p.key]
	if !ok {
		known = &p
		v.byKey[p.key] = known
	}
	if p.Cause != nil && known.Cause != nil && known.Cause.root != "" && p.Cause.root == "" {
		known.Cause = p.Cause // of the object in which the problem lies
	}
	if !slices.Contains(known.Objects, o) {
		known.Objects = append(known.Objects, o)
	}
	known.partial = known.partial && p.partial
}

// result sorts the problems.
func (v *overview) result() *Overview {
	for _, l := range v.snapshot.truncatedKinds() {
		v.addUnread(NotChecked{What: "all " + l, Why: fmt.Sprintf("there are more than %d", pageSize*maxPages)})
	}
	v.otherTypes()
	for _, p := range v.byKey {
		slices.SortFunc(p.Objects, compareObjects)
		v.Problems = append(v.Problems, *p)
	}
	slices.SortFunc(v.Problems, compareProblems)
	return v.Overview
}

func compareObjects(a, b ProblemObject) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// compareProblems orders problems by severity, and then by the number of objects.
func compareProblems(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.severity(), b.severity()),
		cmp.Compare(len(b.Objects), len(a.Objects)),
		compareObjects(a.Objects[0], b.Objects[0]),
		cmp.Compare(a.key, b.key),
	)
}

// severity returns a lower number for a worse problem. A lost node is the worst. Objects
// that run in part, or that may still start, are less severe.
func (p *Problem) severity() int {
	const lostNode, failing, failingInPart, waiting, waitingInPart = 0, 1, 2, 3, 4
	switch {
	case p.Cause == nil && p.partial:
		return waitingInPart
	case p.Cause == nil:
		return waiting
	case p.Cause.Reason == diagnosis.ReasonNodeLost:
		return lostNode
	case p.partial:
		return failingInPart
	}
	return failing
}
