// Package finalizer runs something before an object is deleted, for example a backup. The
// deletion waits for a success, or goes on after a number of failures.
//
// Call Reconcile at the beginning of every reconcile:
//
//	backup := finalizer.New(mgr.GetClient(), clock.RealClock{}, recorder, "example.com/backup", "Backup")
//
//	result, err := backup.Reconcile(ctx, cache, &cache.Status.Backup, finalizer.Policy{OnFailure: finalizer.Abandon},
//		func(ctx context.Context) error { return r.dump(ctx, cache) })
//	if err != nil || result.Stop {
//		return step.Finish(result.RequeueAfter, err)
//	}
//
// The [State] is a field of the status of the object. The operator needs patch on the kind
// and on its status, and create on Events. A Warning says why a deletion waits, that an attempt
// failed, or that the object is deleted without a success.
//
// # Guarantees
//
//   - An attempt is counted in the status before it begins. If the operator is killed during
//     an attempt, its result is unknown, and it counts as a failure.
//   - A function that has succeeded can run again if the operator is killed before it has
//     written the result. It runs at least once, so make it idempotent.
//   - A cache that is late causes a conflict and no further attempt.
//   - After the last attempt of [Abandon], the object is deleted. With [Block], attempts go
//     on until one succeeds.
//
// # Limits
//
// The function occupies a worker of the controller until Policy.Timeout. For work that takes
// longer, let it return [ErrPending] until the work has ended. [Finalizer.RunJob] does so with a
// Job.
//
// With foreground deletion, the garbage collector deletes the children before the object,
// without waiting for the function. If the function needs a child, that child must have no
// owner reference to the object. Let Policy.CleanUp delete it.
package finalizer
