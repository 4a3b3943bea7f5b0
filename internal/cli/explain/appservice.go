package explain

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

func (q *inquiry) appService() error {
	a := &v1alpha1.AppService{}
	readable, err := q.target(a)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable(v1alpha1.KindAppService)
		return nil
	}
	q.tellHealth(a)
	howMany := fmt.Sprintf("%d of %s ready", a.Status.ReadyReplicas, plural(int(a.Spec.Size), "pod"))
	runs := q.hear(a, account{
		kind: v1alpha1.KindAppService, suspended: a.Spec.Suspend, conditions: a.Status.Conditions, lastFailure: a.Status.LastFailure,
		ready: howMany, notReady: howMany,
	})
	switch {
	case runs:
		q.readApp(a)
		q.judgeApp(a)
	case a.DeletionTimestamp != nil:
		q.heldForBackup(a)
	}
	return nil
}

// readApp reads what runs the app, if it is the app's: its Deployment is nobody's
// child where it is to outlive the AppService.
func (q *inquiry) readApp(a *v1alpha1.AppService) {
	said := q.fallback
	d := &appsv1.Deployment{}
	if q.child("deployments", a.Name, d) && kube.ChildNames.IsOurs(workload.AppDeployment(a, corev1.PodTemplateSpec{}), d) {
		q.readDeployment(d)
	}
	if said != nil { // the operator has read the Deployment, and more
		q.fallback = said
	}
}

// judgeApp says of one that is ready what its being ready does not.
func (q *inquiry) judgeApp(a *v1alpha1.AppService) {
	x := &q.explanation
	unhealthy := slices.IndexFunc(a.Status.PodStatuses, func(n v1alpha1.PodStatus) bool { return n.Health == v1alpha1.PodUnhealthy })
	switch {
	case unhealthy >= 0:
		x.Summary += fmt.Sprintf(", %d unhealthy", a.Status.Unhealthy)
		if q.fallback == nil {
			q.fallback = checkFailed(&a.Status.PodStatuses[unhealthy])
		}
	case x.State == Running && a.Spec.Size == 0:
		q.found(v1alpha1.KindAppService, Stopped, "it is scaled to 0 pods")
	}
}

// tellHealth takes over which pods are not healthy.
func (q *inquiry) tellHealth(a *v1alpha1.AppService) {
	for _, n := range a.Status.PodStatuses {
		n.Message = plaintext.Line(n.Message)
		q.explanation.PodStatuses = append(q.explanation.PodStatuses, n)
	}
}

// checkFailed is the cause where pods are ready that their health check finds unwell.
func checkFailed(n *v1alpha1.PodStatus) *diagnosis.Cause {
	return &diagnosis.Cause{
		Reason: n.Reason, Object: diagnosis.Object{Kind: kindPod, Name: n.Name}, Time: n.LastTransitionTime.Time,
		Message:   "the health check finds the pod unhealthy: " + plaintext.Line(n.Message),
		Advice:    "see what keeps the app from answering, or correct spec.healthCheck; with remedy Restart, the operator replaces such pods",
		Transient: true, Count: n.ConsecutiveFailures,
	}
}
