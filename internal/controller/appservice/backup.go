package appservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
	"github.com/bongsu-io/bongsu/pkg/podexec"
	"github.com/bongsu-io/bongsu/pkg/step"
)

const (
	// maxAttempts is how often a command runs before its backup is abandoned.
	maxAttempts = 3

	// minRetry and maxRetry limit the pauses between the runs of a command that fails.
	minRetry = 10 * time.Second
	maxRetry = 10 * time.Minute

	// maxMessage is the limit of messages in status.backup, in bytes.
	maxMessage = 1024
)

func cutMessage(s string) string { return plaintext.Cut(s, maxMessage) }

// isOver reports whether a backup has ended, with or without success.
func isOver(b *v1alpha1.BackupStatus) bool {
	return b != nil && (b.Phase == v1alpha1.BackupSucceeded || b.Phase == v1alpha1.BackupAbandoned || b.Phase == v1alpha1.BackupSkipped)
}

// hasNoBackup reports whether an app neither has a backup nor had one that began.
func hasNoBackup(a *v1alpha1.AppService) bool {
	return a.Spec.Backup == nil && a.Status.Backup == nil
}

// backUp continues the backup of an app that is being deleted.
func (r *Reconciler) backUp(ctx context.Context, a *app) (step.Result, error) {
	if !a.deleting() {
		a.service.Status.Backup = nil
		return step.Result{}, nil
	}
	terminating, err := r.namespaceTerminates(ctx, a)
	backup := a.service.Spec.Backup
	switch {
	case err != nil:
		return step.Result{}, err
	case isOver(a.service.Status.Backup):
	case backup == nil:
		r.endBackup(a, v1alpha1.BackupSkipped, "there is no spec.backup")
	case terminating:
		logr.FromContextOrDiscard(ctx).Info("skipped a backup: the namespace is being deleted")
		r.endBackup(a, v1alpha1.BackupSkipped, "the namespace is being deleted")
	case a.service.Annotations[v1alpha1.AnnotationAbandonBackup] == "true":
		r.endBackup(a, v1alpha1.BackupAbandoned, "annotation "+v1alpha1.AnnotationAbandonBackup+" is set")
	case a.disabled.backup != "": // no attempt was made that could be the last
		r.failBackup(a, a.disabled.backup, false)
	case backup.JobTemplate != nil:
		return r.backUpByJob(ctx, a)
	default:
		return step.Result{RequeueAfter: r.backUpByCommand(a)}, nil
	}
	return step.Result{}, nil
}

// namespaceTerminates reports whether the app's namespace is being deleted.
func (r *Reconciler) namespaceTerminates(ctx context.Context, a *app) (bool, error) {
	namespace, err := kube.NamespaceMetadata(ctx, r.Client, a.name.Namespace, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return !namespace.DeletionTimestamp.IsZero(), err
}

// backupStatus returns the status of the backup. The backup begins if it has not.
func (r *Reconciler) backupStatus(a *app) *v1alpha1.BackupStatus {
	if a.service.Status.Backup == nil {
		a.service.Status.Backup = &v1alpha1.BackupStatus{StartTime: new(r.now())}
	}
	return a.service.Status.Backup
}

func (r *Reconciler) now() metav1.Time { return metav1.NewTime(r.Clock.Now().Truncate(time.Second)) }

func (r *Reconciler) startBackup(a *app, message string) {
	b := r.backupStatus(a)
	b.Phase, b.Message = v1alpha1.BackupRunning, message
}

// failBackup records a failure. The last attempt abandons the backup if the spec says so.
func (r *Reconciler) failBackup(a *app, message string, last bool) {
	if last && a.service.Spec.Backup.OnFailure == v1alpha1.BackupAbandon {
		r.endBackup(a, v1alpha1.BackupAbandoned, message)
		return
	}
	b := r.backupStatus(a)
	b.Phase, b.Message = v1alpha1.BackupFailed, cutMessage(message)
}

func (r *Reconciler) endBackup(a *app, phase v1alpha1.BackupPhase, message string) {
	b := r.backupStatus(a)
	b.Phase, b.Message, b.CompletionTime = phase, cutMessage(message), new(r.now())
}

// backUpByCommand runs the command in a pod. After a restart of the operator, it runs
// again. It returns when to continue.
func (r *Reconciler) backUpByCommand(a *app) time.Duration {
	b, spec := r.backupStatus(a), a.service.Spec.Backup
	limit := time.Duration(spec.DeadlineSeconds) * time.Second
	run, known := r.backups.last(a.name, a.service.UID)
	a.commandForbidden = errors.Is(run.err, podexec.ErrForbidden)
	switch {
	case known && run.ended.IsZero():
		r.startBackup(a, "")
		return 0
	case known && !run.counted:
		return r.countCommand(a, run)
	}
	if wait := run.retryAt(b.Attempts).Sub(r.Clock.Now()); known && wait > 0 {
		return wait
	}
	if pod := a.podToBackUp(); pod != nil {
		r.startBackup(a, "")
		r.backups.begin(a.name, a.service.UID, targetIn(pod, spec.Exec), spec.Exec.Command, limit)
		return 0
	}
	// A missing pod may take as long as a run. The time before the start of the operator does not
	// count: the pods may just be starting too.
	if left := limit - r.backups.waited(a.name, a.service.UID); left > 0 {
		r.startBackup(a, "there is no pod yet to run the command in")
		return left
	}
	r.failBackup(a, fmt.Sprintf("for %v there was no pod to run the command in", limit), true)
	return 0
}

// countCommand records the result of a run. The run is counted when the status is
// written: otherwise a failed write would repeat a command that succeeded.
func (r *Reconciler) countCommand(a *app, run commandRun) time.Duration {
	b := a.service.Status.Backup
	a.commandCounted = true
	attempted := !a.commandForbidden && !r.isUnreached(a, run)
	if attempted {
		b.Attempts++
	}
	if run.err == nil {
		r.endBackup(a, v1alpha1.BackupSucceeded, run.message)
		return 0
	}
	r.failBackup(a, run.message, b.Attempts >= maxAttempts && attempted)
	return run.retryAt(b.Attempts).Sub(r.Clock.Now())
}

// isUnreached reports whether a run is no attempt because it did not reach its pod, for example
// while the kubelet restarts. This may take as long as a run.
func (r *Reconciler) isUnreached(a *app, run commandRun) bool {
	if !errors.Is(run.err, podexec.ErrUnreached) {
		return false
	}
	limit := time.Duration(a.service.Spec.Backup.DeadlineSeconds) * time.Second
	return r.backups.waited(a.name, a.service.UID) < limit
}

// backUpByJob runs the Job. Its name follows from the AppService, so that a restart of the
// operator creates no second one. A Job that failed and was deleted is recreated.
func (r *Reconciler) backUpByJob(ctx context.Context, a *app) (step.Result, error) {
	wanted, refused := workload.BackupJob(a.service)
	if len(refused) > 0 {
		cause := workload.Refusal(a.findings.Self(), refused)
		r.failBackup(a, cause.Sentence(), true)
		return step.Result{}, nil
	}
	var job batchv1.Job
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), &job)
	if apierrors.IsNotFound(err) { // the cache may be late
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), &job)
	}
	b := r.backupStatus(a)
	switch {
	case apierrors.IsNotFound(err) && b.Phase == v1alpha1.BackupRunning && b.Attempts > 0:
		r.failBackup(a, fmt.Sprintf("Job %s was deleted before its result was read", wanted.Name), true)
	case apierrors.IsNotFound(err):
		return r.createJob(ctx, a, wanted)
	case err != nil:
		return step.Result{}, err
	case !kube.ChildNames.IsOurs(wanted, &job):
		r.failBackup(a, children.NewConflict("Job", &job).Error(), true)
	default:
		b.Attempts = max(b.Attempts, 1)
		r.readJob(a, &job)
	}
	return step.Result{}, nil
}

func (r *Reconciler) createJob(ctx context.Context, a *app, wanted *batchv1.Job) (step.Result, error) {
	err := r.ConfirmOwner(ctx, a.before)
	if err == nil {
		err = r.Children.Make(ctx, wanted, &batchv1.Job{})
	}
	if err == nil {
		r.startBackup(a, "")
		a.service.Status.Backup.Attempts++
		return step.Result{}, nil
	}
	if conflict, ok := errors.AsType[*children.ConflictError](err); ok {
		r.failBackup(a, conflict.Error(), true)
		return step.Result{}, nil
	}
	cause, refused := diagnosis.FromAPIError(diagnosis.Object{Kind: "Job", Name: wanted.Name}, err)
	if !refused {
		return step.Result{}, err
	}
	// A webhook that cannot be called says nothing about the Job: try again before the backup
	// is abandoned.
	r.failBackup(a, cause.Sentence(), !apierrors.IsInternalError(err))
	return step.Result{RequeueAfter: r.RetryAfter(a.before)}, nil
}

// readJob takes the result of the Job.
func (r *Reconciler) readJob(a *app, job *batchv1.Job) {
	if c := jobCondition(job, batchv1.JobComplete); c != nil {
		r.endBackup(a, v1alpha1.BackupSucceeded, fmt.Sprintf("Job %s is complete", job.Name))
		return
	}
	if c := jobCondition(job, batchv1.JobFailed); c != nil {
		r.failBackup(a, fmt.Sprintf("Job %s failed: %s; delete the Job to run it again", job.Name, cmp.Or(c.Message, c.Reason)), true)
		return
	}
	r.startBackup(a, "")
}

// jobCondition returns a condition that is True, else nil.
func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// deletion describes what the deletion waits for.
func (a *app) deletion() (reason, message string) {
	release := fmt.Sprintf("; to delete the app without it, annotate it with %s=true", v1alpha1.AnnotationAbandonBackup)
	if b := a.service.Status.Backup; b != nil && b.Phase == v1alpha1.BackupFailed {
		return a.failureReason(), "the deletion waits for the backup, which failed: " + b.Message + release
	}
	return v1alpha1.ReasonBackupStarted, "the deletion waits for the backup" + release
}

// failureReason is the reason of a backup that failed.
func (a *app) failureReason() string {
	if a.disabled.forbidden || a.commandForbidden {
		return v1alpha1.ReasonExecForbidden
	}
	return v1alpha1.ReasonBackupFailed
}

func (r *Reconciler) setBackedUp(a *app) {
	b := a.service.Status.Backup
	if b == nil {
		return
	}
	c := condition(v1alpha1.ConditionBackupSucceeded, metav1.ConditionFalse, "", cmp.Or(b.Message, "the backup is running"))
	switch b.Phase {
	case v1alpha1.BackupSucceeded:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded
	case v1alpha1.BackupFailed:
		c.Reason = a.failureReason()
	case v1alpha1.BackupAbandoned:
		c.Reason = v1alpha1.ReasonBackupAbandoned
	case v1alpha1.BackupSkipped:
		c.Reason = v1alpha1.ReasonBackupSkipped
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonBackupStarted
	}
	r.Writer.SetCondition(a.service, c)
}

// backupEvents are the Events about changes of the backup. Their time is that of the
// deletion, which a restart of the operator does not change.
func (a *app) backupEvents() []events.Event {
	b, was := a.service.Status.Backup, a.before.Status.Backup
	if b == nil {
		return nil
	}
	var all []events.Event
	add := func(kind, reason, note string) {
		all = append(all, events.Event{Type: kind, Reason: reason, Action: "BackUp", Note: note, Since: a.service.DeletionTimestamp.Time})
	}
	if was == nil && b.Phase == v1alpha1.BackupRunning {
		add(corev1.EventTypeNormal, v1alpha1.ReasonBackupStarted, "nothing is deleted until the backup has ended")
	}
	if was != nil && was.Phase == b.Phase && was.Attempts == b.Attempts {
		return all
	}
	switch b.Phase {
	case v1alpha1.BackupSucceeded:
		add(corev1.EventTypeNormal, v1alpha1.ReasonBackupSucceeded, b.Message)
	case v1alpha1.BackupFailed:
		reason, message := a.deletion()
		add(corev1.EventTypeWarning, reason, message)
	case v1alpha1.BackupAbandoned:
		add(corev1.EventTypeWarning, v1alpha1.ReasonBackupAbandoned, "the deletion continues without a backup: "+b.Message)
	case v1alpha1.BackupSkipped:
		add(corev1.EventTypeNormal, v1alpha1.ReasonBackupSkipped, b.Message)
	case v1alpha1.BackupRunning:
	}
	return all
}

// runner runs commands in pods.
type runner interface {
	Run(ctx context.Context, t podexec.Target, command []string, limit time.Duration) (podexec.Result, error)
}

// backups runs the commands of backups, outside of every reconcile. It enqueues an app
// when its command has ended.
type backups struct {
	clock   clock.PassiveClock
	runner  runner
	enqueue func(name types.NamespacedName)

	mu   sync.Mutex
	ctx  context.Context //nolint:containedctx // the context of Start, which limits runs
	runs map[types.NamespacedName]*commandRun
	// waits are the AppServices without a pod that can be reached.
	waits map[types.NamespacedName]podWait
	all   sync.WaitGroup
}

// podWait is the wait of an AppService for a pod.
type podWait struct {
	uid   types.UID
	since time.Time
}

// commandRun is the current or the last run of a command.
type commandRun struct {
	uid types.UID
	// ended is zero while it runs.
	ended   time.Time
	message string
	err     error
	// counted: the status contains the result.
	counted bool
	cancel  context.CancelFunc
}

// retryAt is when a command may run again after that many attempts.
func (c commandRun) retryAt(attempts int32) time.Time {
	if errors.Is(c.err, podexec.ErrForbidden) {
		return c.ended.Add(askAgain)
	}
	pause := minRetry << min(max(attempts-1, 0), 6)
	return c.ended.Add(min(pause, maxRetry))
}

func newBackups(clk clock.PassiveClock, r runner, enqueue func(types.NamespacedName)) *backups {
	return &backups{clock: clk, runner: r, enqueue: enqueue, runs: map[types.NamespacedName]*commandRun{}, waits: map[types.NamespacedName]podWait{}}
}

// Start implements manager.Runnable. Commands run until the context ends.
func (b *backups) Start(ctx context.Context) error {
	b.mu.Lock()
	b.ctx = ctx
	b.mu.Unlock()
	<-ctx.Done()
	b.all.Wait()
	return nil
}

// last returns the last run of an AppService's command, if there was one.
func (b *backups) last(name types.NamespacedName, uid types.UID) (commandRun, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run := b.runs[name]; run != nil && run.uid == uid {
		return *run, true
	}
	return commandRun{}, false
}

// waited returns how long an AppService has waited for a pod that can be reached. The wait begins with the first call.
func (b *backups) waited(name types.NamespacedName, uid types.UID) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := b.waits[name]
	if wait.uid != uid {
		wait = podWait{uid, b.clock.Now()}
		b.waits[name] = wait
	}
	return b.clock.Since(wait.since)
}

// count records that the status contains the result of the last run.
func (b *backups) count(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run := b.runs[name]; run != nil {
		run.counted = true
	}
}

// begin runs a command. No other command of that AppService may be running.
func (b *backups) begin(name types.NamespacedName, uid types.UID, t podexec.Target, command []string, limit time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || b.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(b.ctx)
	run := &commandRun{uid: uid, cancel: cancel}
	b.runs[name] = run
	b.all.Go(func() {
		defer cancel()
		result, err := b.runner.Run(ctx, t, command, limit)
		b.end(name, run, result, err)
		b.enqueue(name)
	})
}

func (b *backups) end(name types.NamespacedName, run *commandRun, result podexec.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run.ended = b.clock.Now()
	if !errors.Is(err, podexec.ErrUnreached) {
		delete(b.waits, name)
	}
	switch {
	case err != nil:
		run.err, run.message = err, err.Error()
	case result.ExitCode != 0:
		run.err = fmt.Errorf("exit code %d", result.ExitCode)
		run.message = run.err.Error() + outputOf(result)
	default:
		run.message = "the command ended with exit code 0"
	}
}

// forget ends the run of an AppService that was deleted.
func (b *backups) forget(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waits, name)
	if run := b.runs[name]; run != nil {
		run.cancel()
		delete(b.runs, name)
	}
}

// podToBackUp is the first ready pod, or else the first running pod.
func (a *app) podToBackUp() *corev1.Pod {
	var found *corev1.Pod
	container := a.service.Spec.Backup.Exec.Container
	for _, pod := range a.pods {
		if running(pod, container) == nil {
			continue
		}
		if kube.IsPodReady(pod) {
			return pod
		}
		if found == nil {
			found = pod
		}
	}
	return found
}

func targetIn(pod *corev1.Pod, check *v1alpha1.ExecCheck) podexec.Target {
	return podexec.Target{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: check.Container}
}

// outputOf is the first line of a command's output, for a message.
func outputOf(result podexec.Result) string {
	if line := plaintext.Cut(plaintext.Line(result.Output), maxMessage/2); line != "" {
		return ": " + line
	}
	return ""
}
