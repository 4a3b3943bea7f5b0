package secretshare

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// ruleChanged lets through what is asked of a rule, its deletion included, and the
// loss of its finalizer.
var ruleChanged = predicate.Or(kube.SpecChanged, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers())
	},
})

// namespaceChanged lets through what makes a namespace a target or not.
var namespaceChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	},
}

// all maps a namespace to all rules.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx)
}

// granted maps a grant to the rules that it lets in.
func (r *Reconciler) granted(ctx context.Context, o client.Object) []reconcile.Request {
	grant, ok := o.(*v1alpha1.SecretShareGrant)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	for _, from := range grant.Spec.From {
		requests = append(requests, r.requests(ctx, client.InNamespace(from.Namespace))...)
	}
	return requests
}

func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := r.newList()
	if err := r.client.List(ctx, list, opts...); err != nil {
		return nil // only if the cache was stopped
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
		return nil
	})
	return requests
}
