package policies

import (
	"context"
	"fmt"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/condition"
)

// Object is an object for whose author the operator works.
type Object interface {
	client.Object
	CommonStatus() v1alpha1.CommonStatus
}

// CheckObject returns whether the operator can work for an object. It does not for one whose spec
// was written without the policies, before anyone has checked that.
func (g *Gate) CheckObject(ctx context.Context, o Object) (State, error) {
	state, err := g.Check(ctx)
	if g == nil || err != nil || !g.IsUnchecked(o) && (!state.Blocked || isObserved(o)) {
		return state, err
	}
	return State{Blocked: true, Reason: v1alpha1.ReasonUnchecked, Message: uncheckedText}, nil
}

const uncheckedText = "it was written while an admission policy was missing, so it was not checked that its author has the permissions that it uses: " +
	"change its spec, or delete it and create it again"

// IsUnchecked reports whether the spec of an object was written without the policies, as far as
// a review has found.
func (g *Gate) IsUnchecked(o Object) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	generation, found := g.unchecked[o.GetUID()]
	g.mu.Unlock()
	return isMarked(o) || found && generation == o.GetGeneration() && !isObserved(o)
}

// isMarked reports whether the status says that the present spec is unchecked.
func isMarked(o Object) bool { return isMarkedAt(o, o.GetGeneration()) }

func isMarkedAt(o Object, generation int64) bool {
	ready := meta.FindStatusCondition(*o.CommonStatus().Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonUnchecked && ready.ObservedGeneration == generation
}

// isObserved reports whether the operator has worked for the present spec. It did so with the
// policies only.
func isObserved(o Object) bool {
	observed, present := *o.CommonStatus().ObservedGeneration, o.GetGeneration()
	if o.GetDeletionTimestamp() != nil && observed > 0 && observed == present-1 {
		present = observed // a deletion raises the generation by one
	}
	return observed == present && !isMarkedAt(o, present)
}

// review marks the objects that were possibly written without the policies. The operator has not
// observed their spec, and they were created before the policies were back. The caller holds the
// mutex.
func (g *Gate) review(ctx context.Context, policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding) error {
	if g.reviewed {
		return nil
	}
	record := &corev1.ConfigMap{}
	err := g.Live.Get(ctx, g.Record, record)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the record of the admission policies: %w", err)
	}
	present, back := g.compare(record, policies, bindings)
	if !g.backAt.IsZero() {
		back = g.Clock.Now()
	}
	if !back.IsZero() {
		if err := g.mark(ctx, back); err != nil {
			return fmt.Errorf("find the objects that were written without admission policies: %w", err)
		}
	}
	if !maps.Equal(present, record.Data) {
		record.Data = present
		if err := g.write(ctx, record); err != nil {
			return fmt.Errorf("record the admission policies: %w", err)
		}
	}
	g.reviewed = true
	return nil
}

// compare returns the UIDs of the present policies and bindings, and when the last one that was
// missing was back. It is zero if none was. Without a record, all were missing before. One that
// the record lacks is new in this version.
func (g *Gate) compare(record *corev1.ConfigMap, policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding) (present map[string]string, back time.Time) {
	present = map[string]string{}
	add := func(kind string, o client.Object) {
		if !g.Expected.Contains(o.GetName()) {
			return
		}
		key := kind + "." + o.GetName()
		present[key] = string(o.GetUID())
		since := o.GetCreationTimestamp().Time
		switch former, known := record.Data[key]; {
		case record.UID == "":
		case known && former != present[key]:
			since = since.Add(settle)
		default:
			return
		}
		if since.After(back) {
			back = since
		}
	}
	for i := range policies {
		add("policy", &policies[i])
	}
	for i := range bindings {
		add("binding", &bindings[i])
	}
	return present, back
}

// mark sets the status of objects that were created before the policies were back, and that the
// operator has not observed.
func (g *Gate) mark(ctx context.Context, back time.Time) error {
	if g.unchecked == nil { // a review that failed has marked objects, which caches can lack
		g.unchecked = map[types.UID]int64{}
	}
	for _, newList := range g.Lists {
		for next := ""; ; {
			list := newList()
			if err := g.Live.List(ctx, list, client.Limit(pageSize), client.Continue(next)); err != nil {
				return err
			}
			if err := meta.EachListItem(list, func(o runtime.Object) error { return g.markObject(ctx, o.(Object), back) }); err != nil {
				return err
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return nil
}

func (g *Gate) markObject(ctx context.Context, o Object, back time.Time) error {
	if isObserved(o) || isMarked(o) || !o.GetCreationTimestamp().Time.Before(back) {
		return nil
	}
	g.unchecked[o.GetUID()] = o.GetGeneration()
	condition.Set(o.CommonStatus().Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: o.GetGeneration(),
		Reason: v1alpha1.ReasonUnchecked, Message: uncheckedText,
	}, g.Clock)
	return client.IgnoreNotFound(g.Client.Status().Update(ctx, o))
}

// pageSize limits the objects of a list in memory.
const pageSize = 500

func (g *Gate) write(ctx context.Context, record *corev1.ConfigMap) error {
	if record.UID != "" {
		return g.Client.Update(ctx, record)
	}
	record.Namespace, record.Name = g.Record.Namespace, g.Record.Name
	return g.Client.Create(ctx, record)
}
