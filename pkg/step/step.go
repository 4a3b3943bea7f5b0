// Package step runs the steps of a reconcile. A step changes the object in memory and
// returns what follows from it.
package step

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// conflictDelay gives the cache time to receive the newer object.
	conflictDelay = 200 * time.Millisecond
	// minDelay limits how often a step can requeue an object.
	minDelay = time.Second
)

// Result is the result of a step. The zero Result continues with the next step.
type Result struct {
	// Stop skips the remaining steps: they need something that this step could not do.
	Stop bool
	// RequeueAfter is when to reconcile again if nothing changes. Zero means never.
	RequeueAfter time.Duration
}

// Func is a step. An error skips the remaining steps; the queue retries.
type Func[T any] func(ctx context.Context, object T) (Result, error)

// Run runs steps in order until one stops or fails. It returns the shortest
// RequeueAfter of the steps that ran.
func Run[T any](ctx context.Context, object T, steps ...Func[T]) (Result, error) {
	var all Result
	for _, step := range steps {
		result, err := step(ctx, object)
		all.Stop, all.RequeueAfter = result.Stop, Sooner(all.RequeueAfter, result.RequeueAfter)
		if err != nil || all.Stop {
			return all, err
		}
	}
	return all, nil
}

// Sooner returns the shortest delay. Zero means never.
func Sooner(delays ...time.Duration) time.Duration {
	var first time.Duration
	for _, d := range delays {
		if d > 0 && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}

// Finish returns the result of a reconcile. A write conflict is not an error: another
// client changed the object, and the reconcile runs again with the newer one.
func Finish(requeueAfter time.Duration, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	case requeueAfter > 0:
		return reconcile.Result{RequeueAfter: max(requeueAfter, minDelay)}, nil
	}
	return reconcile.Result{}, nil
}
