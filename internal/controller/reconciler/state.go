package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Pass is one look at one object. Steps add to it what they find, and change the
// object's conditions in memory; Report writes them.
type State struct {
	// Known are the causes that steps found; Stop says that no later step may act.
	Known []diagnosis.Cause
	Stop  bool
	// Cause is why the object does not do what it should; nil if nothing is wrong.
	// Others are further causes.
	Cause  *diagnosis.Cause
	Others []diagnosis.Cause
	// Crash is one that the object has recovered from; nil if there is no new one.
	Crash *diagnosis.Cause
	// Next is when to look again though nothing changes; zero is never.
	Next time.Duration

	kind       string
	object     client.Object
	conditions *[]metav1.Condition
	before     []metav1.Condition
}

// NewPass begins to look at an object of a kind. conditions are its own.
func NewState(kind string, object client.Object, conditions *[]metav1.Condition) *State {
	return &State{kind: kind, object: object, conditions: conditions, before: slices.Clone(*conditions)}
}

// Within has the object looked at again within d.
func (p *State) RequeueAfter(d time.Duration) {
	if p.Next == 0 || d < p.Next {
		p.Next = max(d, time.Second)
	}
}

// Found adds a cause that lies with the object itself, and stops.
func (p *State) Found(c diagnosis.Cause) {
	p.Known = append(p.Known, c)
	p.Stop = true
}

// Self is the object, as diagnosis names it.
func (p *State) Self() diagnosis.Object {
	return diagnosis.Object{Kind: p.kind, Name: p.object.GetName()}
}

// Condition returns a condition of the object's generation.
func (p *State) Condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: p.object.GetGeneration()}
}

// Before is a condition as it was written last; nil if it was not.
func (p *State) Before(kind string) *metav1.Condition {
	return meta.FindStatusCondition(p.before, kind)
}

// StalledBefore is the Stalled condition that was written last, if it is True.
func (p *State) StalledBefore() *metav1.Condition {
	c := p.Before(v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// FailedSince is when it was first told that the object does not do what it should, if
// it was not told since that it does.
func (p *State) FailedSince() (time.Time, bool) {
	if c := p.StalledBefore(); c != nil {
		return c.LastTransitionTime.Time, true
	}
	c := p.Before(v1alpha1.ConditionProgressing)
	if c == nil || c.Reason != v1alpha1.ReasonRecovering {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// stalledNow tells whether that is what the status says.
func (p *State) stalledNow() bool {
	return p.Cause != nil && meta.IsStatusConditionTrue(*p.conditions, v1alpha1.ConditionStalled)
}

// maxOthers is how many further causes are named.
const maxOthers = 5

// Sentence says what is in the way, and names what else is. There is a Cause.
func (p *State) Sentence() string {
	text := p.Cause.Sentence()
	if len(p.Others) == 0 {
		return text
	}
	named := p.Others[:min(len(p.Others), maxOthers)]
	others := make([]string, len(named), maxOthers+1)
	for i, c := range named {
		others[i] = strings.TrimSpace(fmt.Sprintf("%s of %s %s %s", c.Reason, c.Object.Kind, c.Object.Name, c.Container))
	}
	if more := len(p.Others) - len(named); more > 0 {
		others = append(others, fmt.Sprintf("and %d more", more))
	}
	return text + " (besides: " + strings.Join(others, ", ") + ")"
}

// CauseAt returns the cause that lies in an object, if any does.
func (p *State) CauseAt(kind, name string) *diagnosis.Cause {
	object := diagnosis.Object{Kind: kind, Name: name}
	if p.Cause != nil && p.Cause.Object == object {
		return p.Cause
	}
	for i := range p.Others {
		if p.Others[i].Object == object {
			return &p.Others[i]
		}
	}
	return nil
}
