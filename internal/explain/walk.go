package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxChain limits the objects from the explained one to the root of its problem. maxExplained limits all
// that are explained for one answer.
const (
	maxChain     = 8
	maxExplained = 12
)

// walk is the way from an explained object along the objects that causes blame.
type walk struct {
	// from are the objects on the way to the present one, and explained counts all.
	from      []string
	explained *int
	// lists are the lists that were read on the way, by type and namespace.
	lists map[string][]client.Object
	// failed are those that could not be read.
	failed map[string]bool
	// fine are the explained objects without a problem.
	fine map[string]*Explanation
}

// Link is an object between the explained one and the root of its problem.
type Link struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Message is what its own status says, and Time when it last did. The time is left out if it is unknown.
	Message string     `json:"message"`
	Time    *time.Time `json:"time,omitempty"`
}

// reasonStopped is the reason of an object that others need, and that is stopped.
const reasonStopped = "Stopped"

// follow looks for the root of the problem: it explains the objects that the cause blames, and those
// that these blame. The cause of the last one becomes the cause of the target.
func (q *inquiry) follow() {
	x := &q.explanation
	if len(q.next) == 0 && (x.State == Stopped || x.State == Running) || x.State == Completed || q.byWebhook() {
		return
	}
	for r := range q.blamed() {
		found, cycle := q.explainNext(r)
		switch {
		case cycle && r.relation == dependsOn:
			q.deadlock(r)
			return
		case found == nil:
			continue
		case found.Cause == nil && r.mustRun && found.State == Stopped:
			found = found.stopped()
		case found.Cause == nil:
			if x.State == Stopped && found.State == Waiting { // what stopped it waits: for quota, for example
				x.Summary = shortLine(x.Summary + ": " + found.Summary)
			}
			continue
		}
		q.inherit(r, found)
		return
	}
}

// stopped returns the explanation of an object that others need, with its stop as the cause.
func (x *Explanation) stopped() *Explanation {
	stopped := *x
	stopped.Cause = &Cause{Reason: reasonStopped, Object: Object{x.Kind, x.Name}, Message: x.Summary, Advice: "start it again", Count: 1}
	return &stopped
}

// explainNext explains an object on the walk. It returns nil if it cannot be explained, or if the walk
// is too long. It reports a cycle if the walk has been there.
func (q *inquiry) explainNext(r reference) (found *Explanation, cycle bool) {
	if !q.within.admits(r, q.allText()) {
		return nil, false
	}
	mapping, err := q.client.RESTMapper().RESTMapping(r.kind)
	if err != nil {
		return nil, false // the cluster does not have this type
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		r.namespace = ""
	}
	if slices.Contains(q.walk.from, r.key()) {
		return nil, len(q.walk.from) > 1
	}
	if len(q.walk.from) >= maxChain || *q.walk.explained >= maxExplained {
		q.unread(r.String(), "", fmt.Errorf("the chain of causes is longer than %d objects", maxChain))
		return nil, false
	}
	if fine := q.walk.fine[r.key()]; fine != nil {
		return fine, false
	}
	next := q.walk
	next.from = append(slices.Clone(q.walk.from), r.key())
	found, err = q.explain(q.ctx, mapping, r.namespace, r.name, next)
	switch {
	case apierrors.IsNotFound(err) && r.mustExist && (r.namespace != "" || mapping.Scope.Name() == meta.RESTScopeNameRoot):
		return notFoundOf(r), false
	case apierrors.IsNotFound(err):
		return nil, false
	case err != nil:
		q.unread(r.String(), "get it", err)
		return nil, false
	}
	q.alsoUnread(found.NotChecked)
	if found.Cause == nil {
		q.walk.fine[r.key()] = found
	}
	return found, false
}

// doesNotExist is what is wrong with an object that others need and that does not exist.
const doesNotExist = "it does not exist"

// notFoundOf explains an object that does not exist.
func notFoundOf(r reference) *Explanation {
	return &Explanation{Kind: r.kind.Kind, Namespace: r.namespace, Name: r.name, State: Failing, Summary: doesNotExist, passive: true, Cause: &Cause{
		Reason: string(metav1.StatusReasonNotFound), Object: Object{r.kind.Kind, r.name}, Message: doesNotExist, Advice: "create it, or correct its name", Count: 1,
	}}
}

// alsoUnread adds what could not be read on the way.
func (q *inquiry) alsoUnread(unread []NotChecked) {
	for _, u := range unread {
		if !slices.Contains(q.explanation.NotChecked, u) {
			q.explanation.NotChecked = append(q.explanation.NotChecked, u)
		}
	}
}

// inherit makes the cause of a blamed object that of the target.
func (q *inquiry) inherit(r reference, found *Explanation) {
	x, root := &q.explanation, *found.Cause
	own := x.Summary
	if x.Cause != nil {
		own, x.ownTime = x.Cause.Message, x.Cause.Time
	}
	link := Link{Kind: found.Kind, Namespace: found.Namespace, Name: found.Name, Message: cmp.Or(found.own, found.Cause.Message), Time: found.ownTime}
	if len(found.Chain) == 0 {
		link.Time = found.Cause.Time
	}
	x.Chain = append([]Link{link}, found.Chain...)
	x.own = own
	relation := r.relation
	if root.alone == "" {
		root.alone = root.Message
	} else {
		relation = "" // the root is further away
	}
	last := x.Chain[len(x.Chain)-1]
	switch {
	case own == root.alone || strings.Contains(own, root.alone):
		root.Message = own
	case root.alone == doesNotExist:
		root.Message = shortLine(fmt.Sprintf("%s: %s %q%s does not exist", own, last.Kind, last.Name, relation))
	default:
		root.Message = shortLine(fmt.Sprintf("%s: %s %q%s has a problem: %s", own, last.Kind, last.Name, relation, root.alone))
	}
	if root.root == "" {
		root.root = causeKey(ProblemObject{Namespace: found.Namespace}, found.Cause)
	}
	x.Cause = &root
	if len(found.Others) > 0 { // such as the last Warning of the root, which can have the details
		x.Others = append([]Cause{found.Others[0]}, x.Others...)
	}
	if x.State != Unknown {
		x.State = Failing
	}
	if found.Log != nil { // the log of the root has the details
		x.Log = found.Log
	}
}

// deadlock makes a cycle of objects that wait for each other the cause of the target.
func (q *inquiry) deadlock(r reference) {
	if c := q.explanation.Cause; c != nil {
		c.add(r.String()+" waits for it in turn, so that waiting does not help", "")
		c.Passing = false
	}
}
