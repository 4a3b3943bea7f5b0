package explain

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

func (q *inquiry) job() error {
	j := &batchv1.Job{}
	if readable, err := q.targetOf("Job", j); !readable {
		return err
	}
	q.setJob(j)
	return nil
}

// setJob reads the pods of a Job, and sets the state.
func (q *inquiry) setJob(j *batchv1.Job) {
	q.readJob(j)
	summary := fmt.Sprintf("%d active, %d succeeded, %d failed", j.Status.Active, j.Status.Succeeded, j.Status.Failed)
	failed := jobCondition(j, batchv1.JobFailed)
	switch {
	case jobCondition(j, batchv1.JobComplete) != nil:
		q.set("Job", Completed, summary)
	case failed != nil:
		q.set("Job", Failing, summary+"; it gave up ("+plaintext.Line(failed.Reason)+")")
		q.fallback = diagnosis.FromController(j)
	case j.Spec.Suspend != nil && *j.Spec.Suspend:
		summary := "it is suspended; set spec.suspend to false to start it"
		if queue := diagnosis.QueueText(j.Labels); queue != "" {
			summary = "it is suspended; " + queue
			q.next = append(q.next, q.ownedOf(j, ownedKinds[jobKind])...)
		}
		q.set("Job", Stopped, summary)
	case slices.ContainsFunc(q.workload.Pods, podIsReady):
		q.set("Job", Running, summary)
	default:
		q.set("Job", Waiting, summary)
		started := j.CreationTimestamp.Time
		if j.Status.StartTime != nil {
			started = j.Status.StartTime.Time
		}
		q.limitWait(latest(started, notReadySince(q.workload.Pods)), podsReadyAfter)
	}
}

func (q *inquiry) readJob(j *batchv1.Job) {
	q.controlledBy("Job", j)
	q.missing = true
	q.readPods(j.Spec.Selector, j)
	q.awaitDeleted()
}

// jobCondition returns the condition of a Job if it is true, or nil.
func jobCondition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	if i < 0 {
		return nil
	}
	return &j.Status.Conditions[i]
}

// cronJob explains a CronJob by its last Job.
func (q *inquiry) cronJob() error {
	const kind = "CronJob"
	c := &batchv1.CronJob{}
	if readable, err := q.targetOf(kind, c); !readable {
		return err
	}
	if c.Spec.Suspend != nil && *c.Spec.Suspend {
		q.set(kind, Stopped, "it is suspended; set spec.suspend to false to start it")
		return nil
	}
	last, read := q.lastJob(c)
	switch {
	case !read:
		q.set(kind, Unknown, "you may not read its Jobs")
	case last == nil:
		q.set(kind, Running, "it has no Jobs; the schedule is "+c.Spec.Schedule)
		q.lastRun(c)
	default:
		q.setJob(last)
		q.formerTemplate(c, last)
		q.explanation.Kind = kind
		q.explanation.Summary = "the last Job is " + last.Name + ": " + q.explanation.Summary
	}
	events := q.newEventsOf(c, last)
	if cause := lastWarningOf(events); cause != nil {
		q.set(kind, Waiting, q.explanation.Summary)
		q.workload.Known = append(q.workload.Known, *cause)
	}
	if slices.ContainsFunc(events, func(e diagnosis.Event) bool { return e.Reason == diagnosis.ReasonFailedCreate }) {
		q.explanation.Summary = "it cannot create its next Job; " + q.explanation.Summary
		if q.explanation.State != Unknown {
			q.explanation.State = Waiting
		}
		q.controlledBy(kind, c)
		q.missing = true
	}
	return nil
}

// formerTemplate notes that the last Job has other containers than the CronJob has now, and prevents the next
// Job. Its template cannot change.
func (q *inquiry) formerTemplate(c *batchv1.CronJob, last *batchv1.Job) {
	if q.explanation.State != Waiting || c.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		return
	}
	if change := containerChange(last.Spec.Template.Spec, c.Spec.JobTemplate.Spec.Template.Spec); change != "" {
		q.workload.FormerJob = &diagnosis.FormerJob{Name: last.Name, Namespace: last.Namespace, Change: change}
	}
}

// containerChange describes the first container that differs between two templates in what an author changes to correct it,
// or returns "". It leaves out other fields, which an admission webhook can set, and prints no values of variables.
func containerChange(was, is corev1.PodSpec) string {
	for _, c := range was.Containers {
		i := slices.IndexFunc(is.Containers, func(now corev1.Container) bool { return now.Name == c.Name })
		if i < 0 {
			continue
		}
		now := &is.Containers[i]
		switch {
		case now.Image != c.Image:
			return fmt.Sprintf("its image was %q, and is %q now", shortLine(c.Image), shortLine(now.Image))
		case !slices.Equal(now.Command, c.Command) || !slices.Equal(now.Args, c.Args):
			return fmt.Sprintf("command or args of container %q have changed since", c.Name)
		}
		if what := settingChange(&c, now); what != "" {
			return fmt.Sprintf("%s of container %q has changed since", what, c.Name)
		}
	}
	return ""
}

// settingChange names a variable or a limit that a container did not have, or "".
func settingChange(was, is *corev1.Container) string {
	for _, v := range is.Env {
		if !slices.ContainsFunc(was.Env, func(old corev1.EnvVar) bool { return equality.Semantic.DeepEqual(old, v) }) {
			return "variable " + v.Name
		}
	}
	for _, what := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		if limit, isSet := is.Resources.Limits[what]; isSet && limit.Cmp(was.Resources.Limits[what]) != 0 {
			return "the limit of " + string(what)
		}
	}
	return ""
}

// newEventsOf returns the Events of a CronJob after its last Job, which can be nil.
func (q *inquiry) newEventsOf(c *batchv1.CronJob, last *batchv1.Job) []diagnosis.Event {
	q.readEventsOf("CronJob", []string{c.Name})
	events := q.workload.Events
	q.workload.Events = nil // the diagnosis reads them again, with those of the pods
	return slices.DeleteFunc(events, func(e diagnosis.Event) bool {
		return e.UID != "" && e.UID != c.UID || last != nil && !e.LastSeen.After(last.CreationTimestamp.Time)
	})
}

// lastWarningOf returns the cause of the last Warning that is not about creating a Job, such as a wrong
// time zone, or nil.
func lastWarningOf(events []diagnosis.Event) *diagnosis.Cause {
	var last *diagnosis.Cause
	for _, e := range events {
		if e.Type != corev1.EventTypeWarning || e.Reason == diagnosis.ReasonFailedCreate {
			continue
		}
		if cause := diagnosis.FromEvent(e); cause != nil && (last == nil || !cause.Time.Before(last.Time)) {
			last = cause
		}
	}
	return last
}

// lastRun explains a CronJob whose last Job no longer exists. The controller deletes failed Jobs that
// exceed the history, perhaps all of them. With ttlSecondsAfterFinished, a Job can be deleted before the
// controller has noticed its success.
func (q *inquiry) lastRun(c *batchv1.CronJob) {
	s := &c.Status
	if c.Spec.JobTemplate.Spec.TTLSecondsAfterFinished != nil || s.LastScheduleTime == nil || len(s.Active) > 0 || s.LastSuccessfulTime != nil && !s.LastSuccessfulTime.Before(s.LastScheduleTime) {
		return
	}
	q.explanation.State = Waiting
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: diagnosis.ReasonError, Object: diagnosis.Object{Kind: "CronJob", Name: c.Name}, Time: s.LastScheduleTime.Time,
		Message: "its last Job has not succeeded, and no longer exists",
		Advice:  "set failedJobsHistoryLimit to 1 or more, so that the next one that fails can be examined",
	})
}

// lastJob returns the newest Job of the CronJob, or nil. It returns false if the Jobs could
// not be read.
func (q *inquiry) lastJob(c *batchv1.CronJob) (last *batchv1.Job, read bool) {
	var list batchv1.JobList
	read = q.list("jobs", &list, func() {
		for i := range list.Items {
			j := &list.Items[i]
			if metav1.IsControlledBy(j, c) && (last == nil || last.CreationTimestamp.Before(&j.CreationTimestamp)) {
				last = j.DeepCopy()
			}
		}
	}, client.InNamespace(q.namespace))
	return last, read
}
