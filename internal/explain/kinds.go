package explain

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
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
	q.explanation.passive = true
	c := &corev1.PersistentVolumeClaim{}
	if readable, err := q.targetOf(kindClaim, c); !readable {
		return err
	}
	q.workload.Claims = []*corev1.PersistentVolumeClaim{c}
	switch {
	case c.DeletionTimestamp != nil:
		q.set(kindClaim, Stopped, "it is being deleted, once no pod uses it")
	case c.Status.Phase == corev1.ClaimBound:
		q.boundClaim(c)
	default:
		q.set(kindClaim, Waiting, "it has no volume yet; it may be waiting for a pod that mounts it")
	}
	return nil
}

// boundClaim explains a claim that has a volume, but perhaps not the size that it requests.
func (q *inquiry) boundClaim(c *corev1.PersistentVolumeClaim) {
	summary := "it is bound to volume " + c.Spec.VolumeName
	resizing := diagnosis.Resizing(c)
	if resizing == "" {
		q.set(kindClaim, Running, summary)
		return
	}
	q.readEventsOf(kindClaim, []string{c.Name})
	cause := diagnosis.FromClaim(c, q.workload.Events)
	q.workload.Events = nil // the diagnosis reads them again
	if cause != nil {
		q.set(kindClaim, Waiting, summary)
		q.explanation.partial = true
		q.workload.Known = append(q.workload.Known, *cause)
		return
	}
	q.set(kindClaim, Running, summary+", and is "+resizing)
}

func (q *inquiry) deployment() error {
	const kind = "Deployment"
	d := &appsv1.Deployment{}
	if readable, err := q.targetOf(kind, d); !readable {
		return err
	}
	wanted, s := replicas(d.Spec.Replicas), d.Status
	available := s.ReadyReplicas
	if d.Spec.MinReadySeconds > 0 {
		available = s.AvailableReplicas
	}
	done := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == wanted && s.Replicas == wanted && available >= wanted
	q.scaled(kind, wanted, s.ReadyReplicas, done)
	if available < s.ReadyReplicas {
		q.explanation.Summary += fmt.Sprintf(", but only %d for minReadySeconds (%d s)", available, d.Spec.MinReadySeconds)
	}
	q.addRollout(s.UpdatedReplicas, s.Replicas)
	q.readDeployment(d)
	return nil
}

func (q *inquiry) readDeployment(d *appsv1.Deployment) {
	q.missing = d.Status.UpdatedReplicas < replicas(d.Spec.Replicas)
	q.workload.Surging, q.workload.KeepsOldPods = diagnosis.SurgingDeployment(d), diagnosis.KeepsOldPods(d)
	waits := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || replicas(d.Spec.Replicas) == 0
	sets := q.replicaSets(d, waits)
	q.readPods(d.Spec.Selector, sets...)
	q.fallback = diagnosis.FromController(d)
	if waits {
		q.awaitDeleted()
	}
}

// replicaSets returns the ReplicaSets of the Deployment that have or want pods, or all of them.
// They do not count deleted pods. Only the former are expected to create pods.
func (q *inquiry) replicaSets(d *appsv1.Deployment, all bool) []client.Object {
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
			active := replicas(r.Spec.Replicas) > 0 || r.Status.Replicas > 0
			if !metav1.IsControlledBy(r, d) || !active && !all {
				continue
			}
			sets = append(sets, r)
			if active {
				q.controlledBy("ReplicaSet", r)
			}
		}
	}, client.InNamespace(q.namespace), client.MatchingLabelsSelector{Selector: labels})
	return sets
}

// replicaSet explains a ReplicaSet that no Deployment controls.
func (q *inquiry) replicaSet() error {
	r := &appsv1.ReplicaSet{}
	if readable, err := q.targetOf("ReplicaSet", r); !readable {
		return err
	}
	wanted := replicas(r.Spec.Replicas)
	q.scaled("ReplicaSet", wanted, r.Status.ReadyReplicas, r.Status.ObservedGeneration >= r.Generation && r.Status.ReadyReplicas == wanted)
	q.missing = r.Status.Replicas < wanted
	q.controlledBy("ReplicaSet", r)
	q.readPods(r.Spec.Selector, r)
	q.fallback = diagnosis.FromController(r)
	if wanted == 0 {
		q.awaitDeleted()
	}
	return nil
}

func (q *inquiry) daemonSet() error {
	d := &appsv1.DaemonSet{}
	if readable, err := q.targetOf("DaemonSet", d); !readable {
		return err
	}
	s := d.Status
	if s.DesiredNumberScheduled == 0 && s.ObservedGeneration >= d.Generation {
		selector := ""
		if labels := d.Spec.Template.Spec.NodeSelector; len(labels) > 0 {
			selector = " (" + metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}) + ")"
		}
		q.set("DaemonSet", Stopped, "no node matches its nodeSelector"+selector+", affinity and tolerations")
		return nil
	}
	onDelete := d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	done := s.ObservedGeneration >= d.Generation && s.NumberReady >= s.DesiredNumberScheduled && (onDelete || s.UpdatedNumberScheduled >= s.DesiredNumberScheduled)
	q.scaled("DaemonSet", max(s.DesiredNumberScheduled, 1), s.NumberReady, done)
	if old := s.CurrentNumberScheduled - s.UpdatedNumberScheduled; onDelete && old > 0 {
		q.explanation.Summary += "; " + keepTemplate(int(old))
	} else {
		q.addRollout(s.UpdatedNumberScheduled, s.CurrentNumberScheduled)
	}
	q.missing = s.CurrentNumberScheduled < s.DesiredNumberScheduled
	q.controlledBy("DaemonSet", d)
	q.readPods(d.Spec.Selector, d)
	q.awaitDeleted()
	return nil
}

// keepTemplate describes pods of the update strategy OnDelete.
func keepTemplate(pods int) string {
	if pods == 1 {
		return "1 pod keeps the old template until it is deleted"
	}
	return fmt.Sprintf("%d pods keep the old template until they are deleted", pods)
}

func (q *inquiry) statefulSet() error {
	s := &appsv1.StatefulSet{}
	if readable, err := q.targetOf("StatefulSet", s); !readable {
		return err
	}
	wanted := replicas(s.Spec.Replicas)
	rolling := s.Status.CurrentRevision != s.Status.UpdateRevision // otherwise, all pods count as updated
	done := s.Status.ObservedGeneration >= s.Generation && s.Status.ReadyReplicas >= wanted && s.Status.Replicas == wanted &&
		(!rolling || s.Status.UpdatedReplicas >= updatedAtEnd(s))
	q.scaled("StatefulSet", wanted, s.Status.ReadyReplicas, done)
	if rolling {
		q.addRollout(s.Status.UpdatedReplicas, s.Status.Replicas)
	}
	q.readStatefulSet(s)
	return nil
}

// updatedAtEnd returns how many pods have the new template when a rollout ends.
func updatedAtEnd(s *appsv1.StatefulSet) int32 {
	update := s.Spec.UpdateStrategy
	switch {
	case update.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return 0
	case update.RollingUpdate != nil && update.RollingUpdate.Partition != nil:
		return max(0, replicas(s.Spec.Replicas)-*update.RollingUpdate.Partition)
	}
	return replicas(s.Spec.Replicas)
}

// readStatefulSet reads the pods, and records the names of missing ones.
func (q *inquiry) readStatefulSet(s *appsv1.StatefulSet) {
	const mostNamed = 20
	q.controlledBy("StatefulSet", s)
	q.readPods(s.Spec.Selector, s)
	q.workload.Outdated = diagnosis.OutdatedPod(s, q.workload.Pods)
	q.awaitDeleted()
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

// targetOf is target, and sets the state if the user may not read the object.
func (q *inquiry) targetOf(kind string, o client.Object) (bool, error) {
	readable, err := q.target(o)
	if !readable && err == nil {
		q.unreadable(kind)
	}
	return readable, err
}

// unreadable sets the state of a target that the user may not read.
func (q *inquiry) unreadable(kind string) { q.set(kind, Unknown, "you may not read it") }

// scaled sets the state of a target with a number of pods.
func (q *inquiry) scaled(kind string, wanted, ready int32, done bool) {
	summary := fmt.Sprintf("%d of %s ready", ready, plural(int(wanted), "pod"))
	q.explanation.partial = ready > 0
	switch {
	case wanted == 0:
		q.set(kind, Stopped, "it is scaled to 0 pods")
	case done:
		q.set(kind, Running, summary)
	default:
		q.set(kind, Waiting, summary)
	}
}

// addRollout adds to the summary of a waiting target that some of the existing pods have an older
// template. Otherwise, the summary could count them as if nothing were wrong.
func (q *inquiry) addRollout(updated, existing int32) {
	if x := &q.explanation; x.State == Waiting && updated < existing {
		x.Summary += fmt.Sprintf("; the rollout has not ended: %s updated, %d old", plural(int(updated), "pod"), existing-updated)
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
