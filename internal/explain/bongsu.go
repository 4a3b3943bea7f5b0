package explain

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// ownStatus is the part of the status that Jupyter and AppService share.
type ownStatus struct {
	kind        string
	suspended   bool
	conditions  []metav1.Condition
	lastFailure *v1alpha1.LastFailure
	// ready and notReady are the summaries for the two values of condition Ready.
	ready, notReady string
}

// ownState sets the state of a Jupyter or AppService from its own status. It returns
// whether the object should run.
func (q *inquiry) ownState(o client.Object, a ownStatus) bool {
	q.copyStatus(a)
	switch {
	case o.GetDeletionTimestamp() != nil:
		q.set(a.kind, Stopped, "it is being deleted")
		return false
	case a.suspended:
		q.set(a.kind, Stopped, "it is suspended; set spec.suspend to false to start it")
		if stalled := meta.FindStatusCondition(a.conditions, v1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
			q.held = true
			q.conditionCause(diagnosis.Object{Kind: a.kind, Name: o.GetName()}, stalled)
		}
		return false
	}
	q.readyState(o.GetName(), a)
	return true
}

// copyStatus copies the conditions and the last failure.
func (q *inquiry) copyStatus(a ownStatus) {
	for _, c := range a.conditions {
		c.Message = plaintext.Clean(c.Message)
		q.explanation.Conditions = append(q.explanation.Conditions, c)
	}
	if a.lastFailure != nil {
		q.explanation.LastFailure = a.lastFailure.DeepCopy()
		q.explanation.LastFailure.Message = plaintext.Line(a.lastFailure.Message)
	}
}

// readyState sets the state from the conditions Ready and Stalled.
func (q *inquiry) readyState(name string, a ownStatus) {
	object := diagnosis.Object{Kind: a.kind, Name: name}
	ready := meta.FindStatusCondition(a.conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		q.set(a.kind, Waiting, q.notProcessed())
		q.limitWait(q.object.GetCreationTimestamp().Time, processedAfter)
	case ready.Status == metav1.ConditionTrue:
		q.set(a.kind, Running, a.ready)
		if stalled := meta.FindStatusCondition(a.conditions, v1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
			q.set(a.kind, Running, a.ready+", but parts of it are not applied")
			q.conditionCause(object, stalled)
		}
	default:
		q.set(a.kind, Waiting, a.notReady)
		q.conditionCause(object, ready)
	}
}

// ownReasons are the reasons of causes in the object itself, which its pods do not show.
var ownReasons = []string{
	diagnosis.ReasonInvalidSpec, diagnosis.ReasonResourceConflict, v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonInvalidSecret,
}

// conditionCause uses a condition of the operator as the cause if no other is found. It does so
// too if the user may not read everything. Causes in the object itself always count.
func (q *inquiry) conditionCause(object diagnosis.Object, c *metav1.Condition) {
	if !diagnosis.IsCause(c.Reason) {
		return
	}
	cause := diagnosis.Cause{Reason: c.Reason, Object: object, Time: c.LastTransitionTime.Time}
	cause.SetLines(c.Message)
	if slices.Contains(ownReasons, c.Reason) {
		q.workload.Known = append(q.workload.Known, cause)
		return
	}
	q.fallback = &cause
	if c.ObservedGeneration == q.object.GetGeneration() {
		q.condition = &cause
	}
}

func (q *inquiry) jupyter() error {
	j := &v1alpha1.Jupyter{}
	readable, err := q.target(j)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable(v1alpha1.KindJupyter)
		return nil
	}
	ready := "the notebook is ready"
	if update := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionUpdatePending); update != nil && update.Reason == v1alpha1.ReasonRestartNeeded {
		ready += ", and a change waits for its restart"
	}
	if q.ownState(j, ownStatus{
		kind: v1alpha1.KindJupyter, suspended: j.Spec.Suspend, conditions: j.Status.Conditions, lastFailure: j.Status.LastFailure,
		ready: ready, notReady: "the notebook is not ready",
	}) {
		q.readJupyter(j)
	}
	return nil
}

func (q *inquiry) readJupyter(j *v1alpha1.Jupyter) {
	s := &appsv1.StatefulSet{}
	if q.child("statefulsets", j.Name, s) && metav1.IsControlledBy(s, j) {
		q.readStatefulSet(s)
	}
}

// child reads an object that the operator may have created for the target. It returns
// false if it could not read it.
func (q *inquiry) child(what, name string, o client.Object) bool {
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		q.unread(what, "get them", err)
	}
	return err == nil
}

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
	q.copyPodStatuses(a)
	howMany := fmt.Sprintf("%d of %s ready", a.Status.ReadyReplicas, plural(int(a.Spec.Size), "pod"))
	q.explanation.partial = a.Status.ReadyReplicas > 0
	runs := q.ownState(a, ownStatus{
		kind: v1alpha1.KindAppService, suspended: a.Spec.Suspend, conditions: a.Status.Conditions, lastFailure: a.Status.LastFailure,
		ready: howMany, notReady: howMany,
	})
	switch {
	case runs:
		q.readApp(a)
		q.addHealth(a)
		q.addRollout(a.Status.UpdatedReplicas, a.Status.Replicas)
	case a.DeletionTimestamp != nil:
		q.explainDeletion(a)
	}
	return nil
}

// readApp reads the app's Deployment. A Deployment that outlives its AppService has no
// owner reference, so readApp checks more than that.
func (q *inquiry) readApp(a *v1alpha1.AppService) {
	fallback := q.fallback
	d := &appsv1.Deployment{}
	if q.child("deployments", a.Name, d) && kube.ChildNames.IsOurs(workload.AppDeployment(a, corev1.PodTemplateSpec{}), d) {
		q.readDeployment(d)
	}
	if fallback != nil { // the operator's condition is more precise than the Deployment's
		q.fallback = fallback
	}
}

// addHealth adds unhealthy pods, and features that the operator lacks, to the explanation. It
// marks an app without pods as stopped.
func (q *inquiry) addHealth(a *v1alpha1.AppService) {
	x := &q.explanation
	degraded := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionDegraded)
	unhealthy := slices.IndexFunc(a.Status.PodStatuses, func(n v1alpha1.PodStatus) bool { return n.Health == v1alpha1.PodUnhealthy })
	switch {
	case unhealthy >= 0:
		x.Summary += fmt.Sprintf(", %d unhealthy", a.Status.Unhealthy)
		if q.fallback == nil {
			q.fallback = checkFailed(a, &a.Status.PodStatuses[unhealthy])
		}
	case x.State == Running && a.Spec.Size == 0:
		q.set(v1alpha1.KindAppService, Stopped, "it is scaled to 0 pods")
	case q.fallback == nil && degraded != nil && degraded.Reason == v1alpha1.ReasonFeatureDisabled:
		q.fallback = &diagnosis.Cause{
			Reason: degraded.Reason, Object: diagnosis.Object{Kind: v1alpha1.KindAppService, Name: a.Name},
			Message: plaintext.Line(degraded.Message), Time: degraded.LastTransitionTime.Time,
		}
	}
}

// copyPodStatuses copies the list of pods that are not healthy.
func (q *inquiry) copyPodStatuses(a *v1alpha1.AppService) {
	for _, n := range a.Status.PodStatuses {
		n.Message = plaintext.Line(n.Message)
		q.explanation.PodStatuses = append(q.explanation.PodStatuses, n)
	}
}

// checkFailed returns the cause for a pod that is ready, but unhealthy by its health
// check.
func checkFailed(a *v1alpha1.AppService, n *v1alpha1.PodStatus) *diagnosis.Cause {
	last := n.LastTransitionTime
	if n.LastCheckTime != nil {
		last = *n.LastCheckTime
	}
	return &diagnosis.Cause{
		Reason: n.Reason, Object: diagnosis.Object{Kind: kindPod, Name: n.Name}, Time: last.Time,
		Message:   "the health check finds the pod unhealthy: " + plaintext.Line(n.Message),
		Advice:    "find out why the app does not answer, or correct spec.healthCheck; " + remedyFor(a),
		Transient: true, Count: n.ConsecutiveFailures,
	}
}

// remedyFor describes what the operator does about unhealthy pods.
func remedyFor(a *v1alpha1.AppService) string {
	check := a.Spec.HealthCheck
	switch {
	case check == nil || check.Remedy != v1alpha1.HealthCheckRemedyRestart:
		return "with remedy: Restart, the operator replaces such pods"
	case meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionEvictionBlocked):
		return "the operator cannot replace the pod: see condition " + v1alpha1.ConditionEvictionBlocked
	default:
		return "the operator replaces such pods, as far as maxRestartsPerHour allows"
	}
}

// explainDeletion explains what the deletion of an AppService waits for. If it waits for
// a backup, explainDeletion also reads what may keep the backup from completing.
func (q *inquiry) explainDeletion(a *v1alpha1.AppService) {
	if !slices.Contains(a.Finalizers, v1alpha1.FinalizerBackup) {
		return
	}
	b := a.Status.Backup.DeepCopy()
	if b != nil {
		b.Message = plaintext.Line(b.Message)
	}
	d := &Deletion{WaitsFor: waitsFor(a), Backup: b}
	q.explanation.Deletion = d
	if !isPending(a) {
		return
	}
	q.held = true
	d.Release = fmt.Sprintf("kubectl annotate appservices.%s %s -n %s %s=true", v1alpha1.Group, a.Name, a.Namespace, v1alpha1.AnnotationAbandonBackup)
	q.explanation.Summary = "it is being deleted and waits for its backup"
	q.readBackup(a)
	if b != nil && b.Phase == v1alpha1.BackupFailed && (q.fallback == nil || q.fallback.Reason == diagnosis.ReasonProgressDeadlineExceeded) {
		q.fallback = backupFailed(a)
	}
}

// isPending reports whether the deletion needs a backup that is not complete yet.
func isPending(a *v1alpha1.AppService) bool {
	if a.Spec.Backup == nil || a.Annotations[v1alpha1.AnnotationAbandonBackup] == "true" {
		return false
	}
	final := []v1alpha1.BackupPhase{v1alpha1.BackupSucceeded, v1alpha1.BackupAbandoned, v1alpha1.BackupSkipped}
	return !slices.Contains(final, phaseOf(a))
}

func phaseOf(a *v1alpha1.AppService) v1alpha1.BackupPhase {
	if a.Status.Backup == nil {
		return ""
	}
	return a.Status.Backup.Phase
}

func waitsFor(a *v1alpha1.AppService) string {
	switch {
	case a.Annotations[v1alpha1.AnnotationAbandonBackup] == "true" && phaseOf(a) != v1alpha1.BackupSucceeded:
		return "the operator, which skips the backup as requested: check that the operator is running"
	case !isPending(a):
		return "the operator, which has no backup left to make: check that the operator is running"
	}
	how := "by Job " + workload.BackupJobName(a)
	if a.Spec.Backup.Exec != nil {
		how = "by a command in container " + a.Spec.Backup.Exec.Container
	}
	switch phaseOf(a) {
	case v1alpha1.BackupRunning:
		return "the backup " + how + ", which is running"
	case v1alpha1.BackupFailed:
		return "the backup " + how + ", which failed"
	default:
		return "the backup " + how + ", which the operator has not started: check that the operator is running"
	}
}

// readBackup reads the Job or the pods that make the backup. A command needs only one
// ready pod of the app: if there is one, problems of other pods do not matter.
func (q *inquiry) readBackup(a *v1alpha1.AppService) {
	if a.Spec.Backup.JobTemplate != nil {
		q.readBackupJob(a)
		return
	}
	q.readApp(a)
	if slices.ContainsFunc(q.workload.Pods, podIsReady) {
		q.workload, q.controllers, q.missing, q.fallback = diagnosis.Workload{}, nil, false, nil
	}
}

func (q *inquiry) readBackupJob(a *v1alpha1.AppService) {
	wanted, refused := workload.BackupJob(a)
	if len(refused) > 0 { // the Job is invalid, so the operator did not create it
		return
	}
	j := &batchv1.Job{}
	if q.child("jobs", wanted.Name, j) && kube.ChildNames.IsOurs(wanted, j) {
		q.readJob(j)
	}
}

// backupFailed returns the cause for a failed backup if no other cause is known.
func backupFailed(a *v1alpha1.AppService) *diagnosis.Cause {
	b := a.Status.Backup
	advice := "fix the problem that makes the command fail: the operator runs it again"
	switch {
	case a.Spec.Backup.JobTemplate != nil:
		advice = "fix the problem that makes the Job fail, and delete the Job: the operator runs it again"
	case a.Spec.Suspend || a.Spec.Size == 0:
		advice = "the command needs a pod to run in: set spec.suspend to false and spec.size to 1 or more"
	}
	return &diagnosis.Cause{
		Reason: v1alpha1.ReasonBackupFailed, Object: diagnosis.Object{Kind: v1alpha1.KindAppService, Name: a.Name},
		Message: "the backup failed: " + b.Message, Advice: advice, Transient: a.Spec.Backup.Exec != nil, Count: b.Attempts,
	}
}
