package alarm

import (
	"context"
	"errors"
	"fmt"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/controller/status"
)

// bringIntoForce hands the compiled alarm to the pipeline, or takes it out if it
// cannot be used. An error is the API server's; what is the user's to correct is
// in the verdict.
func (r *Reconciler) bringIntoForce(ctx context.Context, object Object, key string) (status.Result, error) {
	if object.AlarmSpec().Suspend {
		r.alarms.Delete(key)
		return status.Result{Reason: v1alpha1.ReasonSuspended, Message: "suspended: spec.suspend is true"}, nil
	}
	receivers, err := r.resolveReceivers(ctx, object)
	if err != nil {
		return status.Result{}, err
	}
	version := fmt.Sprint(object.GetUID(), object.GetGeneration(), receivers.keys)
	if r.alarms.Has(key, version) {
		return receivers.verdict, nil
	}
	compiled, err := r.compiler.Compile(Definition(r.kind, object, receivers.keys))
	if invalid, ok := errors.AsType[*match.CompileError](err); ok {
		r.alarms.Delete(key)
		return status.Result{Reason: invalid.Reason, Message: invalid.Error()}, nil
	}
	if err != nil {
		return status.Result{}, err
	}
	r.alarms.Set(key, version, compiled)
	return receivers.verdict, nil
}

// Definition returns what is compiled of an object of a kind, Alarm or ClusterAlarm,
// that sends to the receivers of these keys.
func Definition(kind string, object Object, receivers []string) match.Definition {
	return match.Definition{
		ID:                alarm.ID{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
		UID:               string(object.GetUID()),
		CreatedAt:         object.GetCreationTimestamp().Time,
		Spec:              *object.AlarmSpec(),
		NamespaceSelector: object.NamespaceSelector(),
		Receivers:         receivers,
	}
}
