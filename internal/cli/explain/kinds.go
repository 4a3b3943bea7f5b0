package explain

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// pod explains a pod. A pod that no longer exists is explained from its Events.
func (q *inquiry) pod() error {
	p := &corev1.Pod{}
	readable, err := q.target(p)
	switch {
	case apierrors.IsNotFound(err):
		q.notFound, q.gonePods = err, []string{q.name}
		q.set(kindPod, Failing, "it no longer exists; the cause comes from its Events")
		return nil
	case err != nil:
		return err
	case !readable:
		q.gonePods = []string{q.name}
		q.set(kindPod, Unknown, "you may not read it; a possible cause comes from its Events")
		return nil
	}
	q.workload.Pods = []*corev1.Pod{p}
	state, summary := podState(p)
	q.set(kindPod, state, summary)
	return nil
}

func podState(p *corev1.Pod) (State, string) {
	containers, ready := len(p.Spec.Containers), 0
	for _, s := range p.Status.ContainerStatuses {
		if s.Ready {
			ready++
		}
	}
	summary := fmt.Sprintf("%d of %s ready", ready, plural(containers, "container"))
	switch {
	case p.DeletionTimestamp != nil:
		return Stopped, "it is being deleted"
	case p.Status.Phase == corev1.PodSucceeded:
		return Completed, "its containers have succeeded"
	case podIsReady(p):
		return Running, summary
	}
	return Waiting, summary
}

func podIsReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (q *inquiry) claim() error {
	c := &corev1.PersistentVolumeClaim{}
	readable, err := q.target(c)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable(kindClaim)
		return nil
	}
	q.workload.Claims = []*corev1.PersistentVolumeClaim{c}
	switch {
	case c.DeletionTimestamp != nil:
		q.set(kindClaim, Stopped, "it is being deleted, once no pod uses it")
	case c.Status.Phase == corev1.ClaimBound:
		q.set(kindClaim, Running, "it is bound to volume "+c.Spec.VolumeName)
	default:
		q.set(kindClaim, Waiting, "it has no volume yet; it may be waiting for a pod that mounts it")
	}
	return nil
}

func (q *inquiry) deployment() error {
	const kind = "Deployment"
	d := &appsv1.Deployment{}
	readable, err := q.target(d)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable(kind)
		return nil
	}
	wanted, s := replicas(d.Spec.Replicas), d.Status
	done := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == wanted && s.Replicas == wanted && s.ReadyReplicas >= wanted
	q.scaled(kind, wanted, s.ReadyReplicas, done)
	q.readDeployment(d)
	return nil
}

func (q *inquiry) readDeployment(d *appsv1.Deployment) {
	q.missing = d.Status.UpdatedReplicas < replicas(d.Spec.Replicas)
	sets := q.replicaSets(d)
	q.readPods(d.Spec.Selector, sets...)
	q.deploymentConditions(d)
}

// replicaSets returns the ReplicaSets of the Deployment that have or want pods.
func (q *inquiry) replicaSets(d *appsv1.Deployment) []client.Object {
	labels, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		q.unread("replicasets", "", err)
		return nil
	}
	var sets []client.Object
	var list appsv1.ReplicaSetList
	q.list("replicasets", &list, func() {
		for i := range list.Items {
			r := list.Items[i].DeepCopy()
			if metav1.IsControlledBy(r, d) && (replicas(r.Spec.Replicas) > 0 || r.Status.Replicas > 0) {
				sets = append(sets, r)
				q.controlledBy("ReplicaSet", r)
			}
		}
	}, client.InNamespace(q.namespace), client.MatchingLabelsSelector{Selector: labels})
	return sets
}

// deploymentConditions sets the fallback cause from the conditions of the Deployment.
func (q *inquiry) deploymentConditions(d *appsv1.Deployment) {
	object := diagnosis.Object{Kind: "Deployment", Name: d.Name}
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && q.missing:
			cause := diagnosis.FromCreateFailure(object, c.Message)
			cause.Time = c.LastTransitionTime.Time
			q.fallback = &cause
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && q.fallback == nil:
			q.fallback = &diagnosis.Cause{
				Reason: diagnosis.ReasonProgressDeadlineExceeded, Object: object, Time: c.LastTransitionTime.Time,
				Message: "the rollout takes longer than progressDeadlineSeconds", Advice: "no cause was found; check the pods", Transient: true,
			}
		}
	}
}

func (q *inquiry) statefulSet() error {
	s := &appsv1.StatefulSet{}
	readable, err := q.target(s)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable("StatefulSet")
		return nil
	}
	wanted := replicas(s.Spec.Replicas)
	done := s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas >= wanted && s.Status.Replicas == wanted
	q.scaled("StatefulSet", wanted, s.Status.ReadyReplicas, done)
	q.readStatefulSet(s)
	return nil
}

// readStatefulSet reads the pods, and records the names of missing ones.
func (q *inquiry) readStatefulSet(s *appsv1.StatefulSet) {
	const mostNamed = 20
	q.controlledBy("StatefulSet", s)
	q.readPods(s.Spec.Selector, s)
	wanted := int(replicas(s.Spec.Replicas))
	q.missing = len(q.workload.Pods) < wanted
	first := 0
	if s.Spec.Ordinals != nil {
		first = int(s.Spec.Ordinals.Start)
	}
	for i := range min(wanted, mostNamed) {
		name := fmt.Sprintf("%s-%d", s.Name, first+i)
		if !slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			q.gonePods = append(q.gonePods, name)
		}
	}
}

// controlledBy records an object that creates the pods.
func (q *inquiry) controlledBy(kind string, o client.Object) {
	q.controllers = append(q.controllers, diagnosis.Object{Kind: kind, Name: o.GetName()})
	q.workload.Controllers = append(q.workload.Controllers, o.GetUID())
}

func (q *inquiry) job() error {
	j := &batchv1.Job{}
	readable, err := q.target(j)
	if err != nil {
		return err
	}
	if !readable {
		q.unreadable("Job")
		return nil
	}
	q.readJob(j)
	summary := fmt.Sprintf("%d active, %d succeeded, %d failed", j.Status.Active, j.Status.Succeeded, j.Status.Failed)
	switch failed := jobCondition(j, batchv1.JobFailed); {
	case jobCondition(j, batchv1.JobComplete) != nil:
		q.set("Job", Completed, summary)
	case failed != nil:
		q.set("Job", Failing, summary)
		q.fallback = jobFailure(j, failed)
	case j.Spec.Suspend != nil && *j.Spec.Suspend:
		q.set("Job", Stopped, "it is suspended")
	case slices.ContainsFunc(q.workload.Pods, podIsReady):
		q.set("Job", Running, summary)
	default:
		q.set("Job", Waiting, summary)
	}
	return nil
}

func (q *inquiry) readJob(j *batchv1.Job) {
	q.controlledBy("Job", j)
	q.missing = true
	q.readPods(j.Spec.Selector, j)
}

func jobCondition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &j.Status.Conditions[i]
}

func jobFailure(j *batchv1.Job, failed *batchv1.JobCondition) *diagnosis.Cause {
	advice := "its pods and their logs no longer exist; create the Job again to see why it fails"
	if failed.Reason == batchv1.JobReasonDeadlineExceeded {
		advice = "raise activeDeadlineSeconds, or reduce the work of the Job"
	}
	return &diagnosis.Cause{
		Reason: diagnosis.ReasonError, Object: diagnosis.Object{Kind: "Job", Name: j.Name}, Time: failed.LastTransitionTime.Time,
		Message: "the Job has failed: " + failed.Message, Advice: advice,
	}
}

// unreadable sets the state of a target that the user may not read.
func (q *inquiry) unreadable(kind string) { q.set(kind, Unknown, "you may not read it") }

// scaled sets the state of a target with a number of pods.
func (q *inquiry) scaled(kind string, wanted, ready int32, done bool) {
	summary := fmt.Sprintf("%d of %s ready", ready, plural(int(wanted), "pod"))
	switch {
	case wanted == 0:
		q.set(kind, Stopped, "it is scaled to 0 pods")
	case done:
		q.set(kind, Running, summary)
	default:
		q.set(kind, Waiting, summary)
	}
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
