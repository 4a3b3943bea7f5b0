// Package probe checks pods periodically, outside of reconciles. It is for operators that ask
// the server in a pod whether it is healthy or in use.
//
// # Prober
//
// A [Prober] runs HTTP and exec checks with thresholds, and enqueues the owner of a pod when its
// health changes. It is a source of the controller:
//
//	prober, err := probe.ForManager(mgr)
//	if err != nil {
//		return err
//	}
//	return ctrl.NewControllerManagedBy(mgr).For(&cachev1.Memcached{}).Owns(&appsv1.Deployment{}).WatchesRawSource(prober).Complete(r)
//
// The reconciler passes the pods to check, and stores the results in the status. After a
// restart of the operator, the health of a pod stays the stored one until checks change it:
//
//	spec := probe.Spec{Probe: corev1.Probe{
//		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"memcached-ping"}}},
//		PeriodSeconds: 10, FailureThreshold: 3,
//	}}
//	cache.Status.Pods = prober.Probe(req.NamespacedName, &spec, pods, cache.Status.Pods)
//
// [History] describes the thresholds. Check the pods of one owner with one Prober: a Prober
// checks each pod once.
//
// # Pool
//
// A [Pool] is for checks of your own. It schedules them and decides which results still count.
// You make the checks, evaluate the results, and keep the history:
//
//	pool := probe.NewPool(64, clock.RealClock{}, func(ctx context.Context, key types.NamespacedName, uid types.UID, healthy bool) {
//		// Store the result and enqueue the object of the pod.
//	})
//	if err := mgr.Add(pool); err != nil {
//		return err
//	}
//	pool.Put(probe.Check[bool]{
//		Key: types.NamespacedName{Namespace: "shop", Name: "web-0"}, PodUID: pod.UID,
//		Period: 10 * time.Second, Timeout: time.Second,
//		Run: func(ctx context.Context) bool { return get(ctx, url) == nil },
//	})
//
// Call [Pool.Put] in every reconcile: it does not change the schedule of a check that
// exists. Call [Pool.Remove] when the pod is deleted.
//
// The pool of a Prober has 1,024 workers. A pool guarantees:
//
//   - At most one run is in flight for each pod UID.
//   - A run ends at its timeout. If it ignores its context, the pool gives up on it one
//     second later. Until it returns, only its own pod is not checked.
//   - One namespace uses at most half of the workers, rounded up. Its checks take turns.
//   - The result for a pod that was replaced or removed during the run is discarded.
//   - First runs are spread over one period, at most a minute, by a hash of key and UID.
//     A restart therefore does not start all checks at once.
//   - A waiting check needs neither a goroutine nor a timer.
//
// If there are more due checks than workers, runs are late and missed runs are skipped.
// Errors are a part of the result, whose type the caller chooses.
package probe
