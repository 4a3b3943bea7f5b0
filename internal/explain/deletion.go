package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// stuckAfter is the age of a deletion from which on its finalizers are a problem. Most
// controllers remove theirs within seconds.
const stuckAfter = time.Minute

// terminating explains the deletion of the target. The API server deletes an object when
// metadata.finalizers is empty.
func (q *inquiry) terminating() {
	o := q.object
	if o == nil || o.GetDeletionTimestamp() == nil || q.explanation.Deletion != nil {
		return
	}
	x := &q.explanation
	if x.State != Stopped {
		q.set(x.Kind, Stopped, "it is being deleted")
	}
	finalizers := o.GetFinalizers()
	if len(finalizers) > 0 {
		x.Summary += "; its finalizers are " + nameList(finalizers)
	}
	if !q.isStuck(o) {
		return
	}
	switch p, isPod := o.(*corev1.Pod); {
	case isPod && (len(finalizers) > 0 || p.Spec.NodeName != ""):
		q.stuckPod(p)
	case len(finalizers) > 0:
		q.hold(finalizersCause(diagnosis.Object{Kind: x.Kind, Name: o.GetName()}, o))
	}
}

// stuckPod explains a pod that its node does not end, or whose finalizers remain.
func (q *inquiry) stuckPod(p *corev1.Pod) {
	if len(p.Finalizers) == 0 {
		q.readNodes()
	}
	q.readEventsOf(kindPod, []string{p.Name})
	cause, _ := diagnosis.StuckPod(p, q.workload.Events, q.workload.NodeStates, q.clock.Now())
	q.workload.Events = nil // the diagnosis reads them again
	if cause == nil {
		return
	}
	q.hold(*cause)
}

// awaitDeleted notes that the target waits for the end of deleted pods.
func (q *inquiry) awaitDeleted() {
	q.awaitsDeleted = slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return q.isStuck(p) })
}

// addStuck adds why deleted pods still exist, if the target waits for their end.
func (q *inquiry) addStuck(d *diagnosis.Diagnosis) {
	if !q.awaitsDeleted || q.explanation.State == Running {
		return
	}
	if q.workload.Nodes == nil {
		q.readNodes()
	}
	d.AddStuck(q.workload.Pods, q.workload, q.clock.Now())
}

// hold explains the deletion with a cause, unless there is another.
func (q *inquiry) hold(cause diagnosis.Cause) {
	q.held = true
	if q.fallback == nil {
		q.fallback = &cause
	}
}

// isStuck reports whether an object should have been deleted before.
func (q *inquiry) isStuck(o metav1.Object) bool {
	if p, ok := o.(*corev1.Pod); ok {
		cause, _ := diagnosis.StuckPod(p, nil, nil, q.clock.Now())
		return cause != nil
	}
	deleted := o.GetDeletionTimestamp()
	return deleted != nil && q.clock.Since(deleted.Time) > stuckAfter
}

// knownFinalizers say what the controllers of Kubernetes wait for before they remove
// their finalizers, and what to do. None advises what destroys data.
var knownFinalizers = map[string]string{
	// apimachinery/pkg/apis/meta/v1/types.go, pkg/controller/garbagecollector
	metav1.FinalizerDeleteDependents: "the garbage collector first deletes the objects that it owns; look at those that are being deleted, too",
	metav1.FinalizerOrphanDependents: "the garbage collector first removes the owner references to it",
	// pkg/volume/util/finalizer.go
	"kubernetes.io/pvc-protection": "the claim and its files are lost when the last pod that mounts it ends: copy the files first if you need them",
	"kubernetes.io/pv-protection":  "the volume and its files can be lost when its claim is deleted: copy the files first if you need them",
	// cloud-provider/service/helpers/helper.go
	"service.kubernetes.io/load-balancer-cleanup": "the cloud controller manager first deletes the load balancer; its Events say why it cannot",
	// apiextensions-apiserver/pkg/controller/finalizer
	"customresourcecleanup.apiextensions.k8s.io": "the API server first deletes all objects of this type: look at those that remain, and at their finalizers; without this finalizer, they would stay in the database for ever",
	// api/batch/v1/types.go
	"batch.kubernetes.io/job-tracking": "the Job controller first counts the pod; check that the controller manager is running",
}

// finalizersCause is the cause for an object whose deletion waits for its finalizers.
func finalizersCause(object diagnosis.Object, o metav1.Object) diagnosis.Cause {
	finalizers := o.GetFinalizers()
	cause := diagnosis.Cause{
		Reason: diagnosis.ReasonFinalizersRemaining, Object: object, Time: o.GetDeletionTimestamp().Time, Transient: true,
		Message: "the deletion waits until these finalizers are removed: " + nameList(finalizers),
		Advice:  "check that the controller that removes them is running; remove them yourself only if it no longer exists",
	}
	var known []string
	for _, f := range finalizers {
		if text, ok := knownFinalizers[f]; ok {
			known = append(known, text)
		}
	}
	if len(known) > 0 && len(known) < len(finalizers) {
		known = append(known, "check that the controllers of the other finalizers are running; remove those yourself only if their controller no longer exists")
	}
	if len(known) > 0 {
		cause.Advice = strings.Join(known, "; ")
	}
	return cause
}

// nameList returns a sorted list of names, with a limit.
func nameList(names []string) string {
	const most = 10
	names = slices.Sorted(slices.Values(names))
	if len(names) > most {
		names = append(names[:most], "...")
	}
	return strings.Join(names, ", ")
}
