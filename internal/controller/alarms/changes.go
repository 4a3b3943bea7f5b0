package alarms

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Changes watches the resources that alarms name.
type Changes interface {
	// Status returns whether the changes of a resource are watched that an alarm needs.
	Status(resource alarm.Resource, by kube.Key, named fields.Shape) objects.Status
	// ReadStatus returns whether the operator can read objects of a resource for spec.readObjects.
	ReadStatus(resource alarm.Resource) objects.Status
	// Kinds returns what the API server serves, to check these kinds.
	Kinds(ctx context.Context, kinds []string) objects.Served
	// Notify makes it call a function after each change of a status, with the alarms concerned.
	Notify(changed func(objects.Concerns))
}

// resourcesProblem returns the first problem of a resource in spec.readObjects, spec.changes or
// spec.states. The status stays as it is until it is known whether all can be read. It also does so
// until all objects are read with the fields of the alarm, because changes before that are missed.
func (r *Reconciler) resourcesProblem(object Object, key kube.Key) status.Result {
	reads := r.firstProblem(object.AlarmSpec().ReadObjects, r.changes.ReadStatus)
	if reads.Reason != "" {
		return reads
	}
	needs := r.alarms.NeedsOf(key.String())
	by := kube.Key{Kind: r.kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	changes := r.firstProblem(resourcesOf(object), func(resource alarm.Resource) objects.Status {
		return r.changes.Status(resource, by, needs[resource])
	})
	changes.Unchanged = changes.Unchanged || reads.Unchanged && changes.Reason == ""
	return changes
}

// reads returns a function that reports whether objects of a kind are read for an alarm.
func (r *Reconciler) reads(object Object) func(kind string) bool {
	return func(kind string) bool {
		return enrich.Reads(kind) || slices.ContainsFunc(object.AlarmSpec().ReadObjects, func(named v1alpha1.ChangeResource) bool {
			return r.changes.ReadStatus(match.ResourceOf(&named)).Kind == kind
		})
	}
}

// firstProblem returns the first problem of resources. Without one, it is Unchanged if some are not
// read yet.
func (r *Reconciler) firstProblem(resources []v1alpha1.ChangeResource, statusOf func(alarm.Resource) objects.Status) status.Result {
	reading := false
	for i := range resources {
		resource := match.ResourceOf(&resources[i])
		of := statusOf(resource)
		switch {
		case of.Reason != "":
			return status.Result{Reason: of.Reason, Message: of.Message}
		case of.Kind != "" && !of.Namespaced && r.kind == alarm.KindAlarm:
			return status.Result{Reason: v1alpha1.ReasonInvalidMatch, Message: objects.NamespacedMessage(resource)}
		case !of.Synced:
			reading = true
		}
	}
	return status.Result{Unchanged: reading}
}

// resourcesOf returns the resources in spec.changes and spec.states.
func resourcesOf(object Object) (all []v1alpha1.ChangeResource) {
	spec := object.AlarmSpec()
	for i := range spec.Changes {
		all = append(all, spec.Changes[i].Resource)
	}
	for i := range spec.States {
		all = append(all, spec.States[i].Resource)
	}
	return all
}

// changesSource enqueues the alarms that a change of the status of a resource concerns.
func (r *Reconciler) changesSource() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.changes.Notify(func(concerns objects.Concerns) {
			list := r.newList()
			if err := r.client.List(ctx, list); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "the alarms cannot be listed")
				return
			}
			for _, object := range objectsOf(list) {
				if r.isConcerned(object, concerns) {
					queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
				}
			}
		})
		return nil
	})
}

func (r *Reconciler) isConcerned(object Object, concerns objects.Concerns) bool {
	by := kube.Key{Kind: r.kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	for _, named := range object.AlarmSpec().ReadObjects {
		if concerns(match.ResourceOf(&named), by, fields.Shape{}) {
			return true
		}
	}
	if len(resourcesOf(object)) == 0 {
		return false
	}
	for resource, needed := range r.alarms.NeedsOf(by.String()) {
		if concerns(resource, by, needed) {
			return true
		}
	}
	return false
}
