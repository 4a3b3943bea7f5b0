package explain

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// reasonNotReady is the reason of an object that has not become ready in the usual time, without a
// known cause.
const reasonNotReady = "NotReadyInTime"

// How long objects usually need until they are ready. A Deployment says it itself. The others are
// what a large image, a slow start and a few pods, one after the other, can take.
const (
	podsReadyAfter   = 10 * time.Minute
	podReadyAfter    = 5 * time.Minute
	objectReadyAfter = 10 * time.Minute
	// processedAfter is how long an operator needs until it writes the first status.
	processedAfter = time.Minute
)

// waitLimit is until when it is usual that an object waits.
type waitLimit struct {
	// since is when the wait began, and usual how long it may take.
	since time.Time
	usual time.Duration
}

func (o waitLimit) at() time.Time { return o.since.Add(o.usual) }

// limitWait sets until when the wait of the target is usual. Without one, it is not limited: some objects
// wait for others that do not exist yet.
func (q *inquiry) limitWait(since time.Time, usual time.Duration) {
	if !since.IsZero() {
		q.wait = &waitLimit{since, usual}
	}
}

// limitPods sets the limit of an object with pods. A pod that is created, or that is not ready any
// more, begins it again. If all pods are ready, one is missing: its place is free since a pod ends, or since the
// status says so.
func (q *inquiry) limitPods() {
	if q.object == nil {
		return
	}
	since, usual := q.object.GetCreationTimestamp().Time, podsReadyAfter
	switch o := q.object.(type) {
	case *corev1.Pod:
		usual = podReadyAfter
	case *appsv1.Deployment:
		usual = time.Duration(ptr.Deref(o.Spec.ProgressDeadlineSeconds, 600)) * time.Second
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing && c.LastUpdateTime.After(since) {
				since = c.LastUpdateTime.Time
			}
		}
	}
	at := notReadySince(q.workload.Pods)
	if at.IsZero() {
		at = latest(endOf(q.workload.Pods), changedAt(q.object, subresourceStatus))
	}
	if at.IsZero() && !q.clock.Now().Before(since.Add(usual)) {
		return // it can have been ready until now
	}
	q.limitWait(latest(since, at), usual)
}

// notReadySince returns the latest time since when one of the pods is not ready. It is zero if all are.
func notReadySince(pods []*corev1.Pod) (since time.Time) {
	for _, p := range pods {
		if podIsReady(p) || p.DeletionTimestamp != nil {
			continue
		}
		since = latest(since, p.CreationTimestamp.Time)
		if ready := kube.PodCondition(p, corev1.PodReady); ready != nil {
			since = latest(since, ready.LastTransitionTime.Time)
		}
	}
	return since
}

// endOf returns when the last deleted pod has ended at the latest. It is zero if none is being deleted.
func endOf(pods []*corev1.Pod) (end time.Time) {
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			end = latest(end, p.DeletionTimestamp.Time)
		}
	}
	return end
}

const subresourceStatus = "status"

// changedAt returns when a subresource of an object was last changed. Without a subresource, that is the object itself. The
// time is zero if it is unknown.
func changedAt(o client.Object, subresource string) (at time.Time) {
	for _, f := range o.GetManagedFields() {
		if f.Subresource == subresource && f.Time != nil {
			at = latest(at, f.Time.Time)
		}
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// checkWait applies the limit to a target that waits without a known cause. Before the limit, the overview
// does not list it. After it, the wait itself is the cause.
func (q *inquiry) checkWait() {
	x, p := &q.explanation, q.wait
	if p == nil || x.State != Waiting || x.Cause != nil || x.LateAfter != nil {
		return
	}
	now := q.clock.Now()
	warning := ""
	if e := q.latestWarning(); e != nil {
		warning = "; the last Warning is " + e.Reason + ": " + shortLine(e.Note)
	}
	if at := p.at().UTC(); now.Before(at) {
		x.LateAfter = &at
		x.Summary += warning
		return
	}
	cause := diagnosis.Cause{
		Reason: reasonNotReady, Object: diagnosis.Object{Kind: x.Kind, Name: x.Name}, Time: p.since, Count: 1,
		Message: fmt.Sprintf("it has not been ready for %s, and nothing says why: %s", duration.HumanDuration(now.Sub(p.since)), x.Summary) + warning,
		Advice:  "waiting has not helped: " + q.whereToLook(),
	}
	x.Cause, x.State = causeOf(&cause), Failing
}

// latestWarning returns the latest Warning about what belongs to the target, or nil. No rule knows it.
func (q *inquiry) latestWarning() *diagnosis.Event {
	var last *diagnosis.Event
	for i := range q.workload.Events {
		if e := &q.workload.Events[i]; e.Type == corev1.EventTypeWarning && (last == nil || e.LastSeen.After(last.LastSeen)) {
			last = e
		}
	}
	return last
}

// whereToLook returns what can say more about the target.
func (q *inquiry) whereToLook() string {
	x := &q.explanation
	if i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return !podIsReady(p) }); i >= 0 {
		return fmt.Sprintf("read the log of pod %s (kubectl logs -n %s %[1]s --all-containers)", q.workload.Pods[i].Name, q.namespace)
	}
	if x.Namespace == "" {
		return fmt.Sprintf("check that the controller of %s runs, and its log", q.resource)
	}
	return fmt.Sprintf("see its Events (kubectl events -n %s --for %s/%s), or the log of its controller", x.Namespace, q.resource.Resource, x.Name)
}
