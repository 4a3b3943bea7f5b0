package explain

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// account is what an object of ours says of itself.
type account struct {
	kind        string
	suspended   bool
	conditions  []metav1.Condition
	lastFailure *v1alpha1.LastFailure
	// ready and notReady are what its being so is called.
	ready, notReady string
}

// hear takes over what an object of ours says of itself, and says whether it is asked
// to run.
func (q *inquiry) hear(o client.Object, a account) bool {
	q.told(a)
	switch {
	case o.GetDeletionTimestamp() != nil:
		q.found(a.kind, Stopped, "it is being deleted")
		return false
	case a.suspended:
		q.found(a.kind, Stopped, "it is suspended; set spec.suspend to false to start it")
		return false
	}
	q.judge(o.GetName(), a)
	return true
}

// told takes over conditions and failures.
func (q *inquiry) told(a account) {
	for _, c := range a.conditions {
		c.Message = plaintext.Line(c.Message)
		q.explanation.Conditions = append(q.explanation.Conditions, c)
	}
	if a.lastFailure != nil {
		q.explanation.LastFailure = a.lastFailure.DeepCopy()
		q.explanation.LastFailure.Message = plaintext.Line(a.lastFailure.Message)
	}
}

// judge says how it fares by its own account.
func (q *inquiry) judge(name string, a account) {
	object := diagnosis.Object{Kind: a.kind, Name: name}
	ready := meta.FindStatusCondition(a.conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		q.found(a.kind, Waiting, "the operator has not looked at it yet; is it running?")
	case ready.Status == metav1.ConditionTrue:
		q.found(a.kind, Running, a.ready)
		if stalled := meta.FindStatusCondition(a.conditions, v1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
			q.found(a.kind, Running, a.ready+", but not all that is asked for")
			q.saidCause(object, stalled)
		}
	default:
		q.found(a.kind, Waiting, a.notReady)
		q.saidCause(object, ready)
	}
}

// ownReasons are those of causes that lie in the object itself: its pods tell nothing
// of them.
var ownReasons = []string{
	diagnosis.ReasonInvalidSpec, diagnosis.ReasonResourceConflict, v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonInvalidSecret,
}

// saidCause takes over what the operator has found; it tells the cause where the
// caller may read none of what belongs to the object, or nothing else would.
func (q *inquiry) saidCause(object diagnosis.Object, said *metav1.Condition) {
	if !diagnosis.IsCause(said.Reason) {
		return
	}
	cause := diagnosis.Cause{Reason: said.Reason, Object: object, Message: said.Message, Time: said.LastTransitionTime.Time}
	if slices.Contains(ownReasons, said.Reason) {
		q.workload.Known = append(q.workload.Known, cause)
		return
	}
	q.fallback = &cause
}

func (q *inquiry) jupyter() error {
	j := &v1alpha1.Jupyter{}
	readable, err := q.target(j)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable(v1alpha1.KindJupyter)
		return nil
	}
	if q.hear(j, account{
		kind: v1alpha1.KindJupyter, suspended: j.Spec.Suspend, conditions: j.Status.Conditions, lastFailure: j.Status.LastFailure,
		ready: "the notebook is ready", notReady: "the notebook is not ready",
	}) {
		q.readJupyter(j)
	}
	return nil
}

func (q *inquiry) readJupyter(j *v1alpha1.Jupyter) {
	s := &appsv1.StatefulSet{}
	if q.child("statefulsets", j.Name, s) && metav1.IsControlledBy(s, j) {
		q.readStatefulSet(s)
	}
}

// child reads what may be made for the target, and says whether it could.
func (q *inquiry) child(what, name string, o client.Object) bool {
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		q.unread(what, "get them", err)
	}
	return err == nil
}
