package finalizer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/finalizer"
)

// jobScene is a scene whose work is a Job. The test is the controller of the Job.
type jobScene struct {
	*scene
	// check runs before a Job is created.
	check  func() error
	policy finalizer.Policy
}

func newJobScene(t *testing.T) *jobScene {
	t.Helper()
	s := &jobScene{scene: newScene(t), check: func() error { return nil }, policy: finalizer.Policy{OnFailure: finalizer.Abandon}}
	s.delete()
	return s
}

func (s *jobScene) reconcile() error {
	s.t.Helper()
	c := s.read()
	f := s.operator()
	_, err := f.Reconcile(s.t.Context(), c, &c.Status.Backup, s.policy, func(ctx context.Context) error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "backup"}}
		return f.RunJob(ctx, s.api, job, c.Status.Backup.Attempts, s.check)
	})
	return err
}

// step reconciles and compares the state.
func (s *jobScene) step(want string) {
	s.t.Helper()
	if err := s.reconcile(); err != nil {
		s.t.Fatal(err)
	}
	s.expect(0, want)
}

// change changes the Job.
func (s *jobScene) change(change func(*batchv1.Job)) {
	s.t.Helper()
	job := &batchv1.Job{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "team", Name: "backup"}, job); err != nil {
		s.t.Fatal(err)
	}
	change(job)
	status := job.Status
	if err := s.api.Update(s.t.Context(), job); err != nil {
		s.t.Fatal(err)
	}
	job.Status = status
	if err := s.api.Status().Update(s.t.Context(), job); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

func (s *jobScene) end(with batchv1.JobConditionType, message string) {
	s.t.Helper()
	s.change(func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: with, Status: corev1.ConditionTrue, Message: message}}
	})
}

// pod creates a pod of the Job with that UID, whose container has ended.
func (s *jobScene) pod(uid types.UID, code int32) {
	s.t.Helper()
	if err := s.api.Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "backup-" + string(uid), Labels: map[string]string{batchv1.ControllerUidLabel: string(uid)}},
		Spec:       corev1.PodSpec{NodeName: "node", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "backup"}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "backup", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		}}},
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestRunJobEndsWithTheJob(t *testing.T) {
	s := newJobScene(t)
	s.step("Pending 1")
	s.step("Pending 1")
	s.pass(10 * time.Second)
	s.step("Pending 1 Job backup has no pod: kubectl describe job -n team backup shows why")
	s.end(batchv1.JobComplete, "")
	s.step("gone")
}

func TestRunJobSaysWhyThereIsNoPod(t *testing.T) {
	s := newJobScene(t)
	s.step("Pending 1")
	s.change(func(j *batchv1.Job) { j.UID = "first" })
	for uid, note := range map[types.UID]string{
		"first": `Error creating: pods "backup-x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0`,
		"other": `Error creating: pods "backup-y" is forbidden: violates PodSecurity "restricted:latest": x`,
	} {
		event := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: string(uid)}, Type: "Warning", Reason: "FailedCreate", Note: note}
		event.Regarding = corev1.ObjectReference{Kind: "Job", Namespace: "team", Name: "backup", UID: uid}
		if err := s.api.Create(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	s.refuseEvents = apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", errors.New("no permission"))
	s.pass(10 * time.Second)
	s.step("Pending 1 Job backup has no pod: kubectl describe job -n team backup shows why")
	s.refuseEvents = nil
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if message := s.read().Status.Backup.Message; !strings.HasPrefix(message, "Job backup: ") || !strings.Contains(message, `"none" is exceeded`) {
		t.Errorf("message %q", message)
	}
}

func TestRunJobSaysWhyTheJobIsForbidden(t *testing.T) {
	s := newJobScene(t)
	s.refuseJob = apierrors.NewForbidden(batchv1.Resource("jobs"), "backup", errors.New("exceeded quota: none, requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0"))
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	state := s.read().Status.Backup
	if !strings.HasPrefix(state.Message, `Job "backup" is rejected: `) && !strings.Contains(state.Message, `"none" is exceeded`) || state.Phase != finalizer.Failed {
		t.Errorf("%+v", state)
	}
}

// Nothing can be created there, so each further attempt would only delay the end of the namespace.
func TestRunJobGivesUpInANamespaceThatIsBeingDeleted(t *testing.T) {
	terminating := apierrors.NewForbidden(batchv1.Resource("jobs"), "backup", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	s := newJobScene(t)
	s.refuseJob = terminating
	s.step("gone")
	s = newJobScene(t)
	s.refuseJob, s.policy.OnFailure = terminating, finalizer.Block
	s.step("Failed 1 the namespace is being deleted, so no Job can be created")
}

func TestRunJobCreatesNoJobIfACheckFails(t *testing.T) {
	s := newJobScene(t)
	s.step("Pending 1")
	s.check = func() error { return errors.New("no server runs") }
	s.step("Pending 1") // the Job can still succeed
	s.end(batchv1.JobFailed, "it has reached the backoff limit")
	s.step("Failed 1 the Job has failed: it has reached the backoff limit (Job backup)")
	s.pass(10 * time.Second)
	s.step("Failed 2 no server runs")
	s.pass(20 * time.Second)
	s.step("gone")
	jobs := &batchv1.JobList{}
	if err := s.api.List(t.Context(), jobs); err != nil || len(jobs.Items) > 0 {
		t.Errorf("there are %d Jobs, and the error %v", len(jobs.Items), err)
	}
}

func TestRunJobIsAnotherJobInEachAttempt(t *testing.T) {
	const cause = `container "backup" ended with exit code 3: check its log (kubectl logs -n team backup-first -c backup)`
	s := newJobScene(t)
	s.step("Pending 1")
	s.change(func(j *batchv1.Job) { j.UID = "first" })
	s.pod("first", 3)
	s.pod("other", 9)
	s.step("Pending 1 Job backup: " + cause)
	s.end(batchv1.JobFailed, "it has reached the backoff limit")
	s.step("Failed 1 the Job backup failed: " + cause)
	s.pass(10 * time.Second)
	s.step("Pending 2")
	s.step("Pending 2") // a new Job, which has not failed
	s.end(batchv1.JobFailed, "it has reached the backoff limit")
	s.step("Failed 2 the Job has failed: it has reached the backoff limit (Job backup)")
	s.pass(20 * time.Second)
	s.step("Pending 3")
	s.end(batchv1.JobComplete, "")
	s.step("gone")
}

// The operator is killed after it has created the Job, before it can write that.
func TestRunJobContinuesWithTheJobOfAnUnknownAttempt(t *testing.T) {
	s := newJobScene(t)
	s.during = nil
	c := s.read()
	f := s.operator()
	_, err := f.Reconcile(t.Context(), c, &c.Status.Backup, finalizer.Policy{}, func(ctx context.Context) error {
		defer func() { s.killed = true }()
		return f.RunJob(ctx, s.api, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "backup"}}, 1)
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.killed = false
	s.change(func(j *batchv1.Job) { j.UID = "first" })
	s.step("Pending 2")
	s.end(batchv1.JobComplete, "")
	s.step("gone")
	job := &batchv1.Job{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "backup"}, job); err != nil || job.UID != "first" {
		t.Errorf("Job %q, %v", job.UID, err)
	}
}

func TestRunJobWaitsForAJobThatIsDeleted(t *testing.T) {
	s := newJobScene(t)
	s.step("Pending 1")
	s.change(func(j *batchv1.Job) { j.Finalizers = []string{"example.com/hold"} })
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "backup"}}
	if err := s.api.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	s.step("Pending 1 the Job backup is being deleted")
	s.change(func(j *batchv1.Job) { j.Finalizers = nil })
	s.step("Pending 1")
	if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(job), job); apierrors.IsNotFound(err) {
		t.Error("there is no new Job")
	}
}
