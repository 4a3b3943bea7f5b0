package enrich

import (
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/eventcache"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	// maxPods is how many pods of a controller are read, and maxSets how many ReplicaSets of
	// a Deployment. maxList limits the list of the pods in bytes, if [kube.LimitResponses] wraps
	// the reader.
	maxPods = 100
	maxSets = 5
	maxList = 2 << 20

	// Occurrences of all namespaces share the time for reads. The pods may therefore use a
	// quarter of the Enricher's timeout, and wait for their turn for a twentieth.
	podsShare = 4
	turnShare = 20
)

// The reasons in the cacheKey of a controller: with the cause of its pods, and without it, because
// they could not be read. The cause does not depend on the reason of the Event, so a storm of
// Events reads the pods once.
const (
	ofPods      = "of pods"
	withoutPods = "without pods"
)

// errPodsUnread reports that an object was read, but not its pods.
var errPodsUnread = errors.New("the pods cannot be read")

// podController is an object that controls pods, with the selector of these.
type podController struct {
	client.Object
	selector func() *metav1.LabelSelector
}

// podControllerOf returns an empty object of a kind whose Warnings get the cause of its pods,
// and false for other kinds. The admission policy in config/admission/alarms.yaml requires that
// authors of alarms on these kinds can list pods.
func podControllerOf(kind string) (podController, bool) {
	switch kind {
	case "DaemonSet":
		o := &appsv1.DaemonSet{}
		return podController{o, func() *metav1.LabelSelector { return o.Spec.Selector }}, true
	case "Deployment":
		o := &appsv1.Deployment{}
		return podController{o, func() *metav1.LabelSelector { return o.Spec.Selector }}, true
	case "Job":
		o := &batchv1.Job{}
		return podController{o, func() *metav1.LabelSelector { return o.Spec.Selector }}, true
	case "ReplicaSet":
		o := &appsv1.ReplicaSet{}
		return podController{o, func() *metav1.LabelSelector { return o.Spec.Selector }}, true
	case "StatefulSet":
		o := &appsv1.StatefulSet{}
		return podController{o, func() *metav1.LabelSelector { return o.Spec.Selector }}, true
	}
	return podController{}, false
}

// needsPods reports whether only the pods of the object can show the cause of an Event.
func needsPods(event *alarm.Event, kind string) bool {
	_, ok := podControllerOf(kind)
	return ok && event.Type == corev1.EventTypeWarning && causeIn(event) == ""
}

// controller reads an object that controls pods, and diagnoses why these do not run. Like pod,
// it does not read Events. reason is ofPods or withoutPods. The cause is optional: if the pods
// cannot be read, it returns the object with errPodsUnread.
func (e *Enricher) controller(ctx context.Context, ref alarm.Reference, reason string, owner podController) (alarm.Object, error) {
	if err := read(ctx, e.live, ref, owner.Object); err != nil {
		return alarm.Object{}, err
	}
	object := objectOf(ref, owner)
	var err error
	if reason != withoutPods {
		object.Cause, err = e.causeOfPods(ctx, owner)
	}
	if reason == withoutPods || err != nil {
		object.Cause = e.causeOf(ctx, owner, diagnosis.Workload{})
	}
	return object, err
}

// causeOfPods returns the cause that the pods of an object show, or else its status. It handles
// the pods of one object at a time, because decoded they need several times the memory of the
// list. It returns errPodsUnread if it has no turn soon, or if a read fails and must be retried.
func (e *Enricher) causeOfPods(ctx context.Context, owner podController) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout/podsShare)
	defer cancel()
	soon, cancelWait := context.WithTimeout(ctx, e.timeout/turnShare)
	defer cancelWait()
	if e.podsTurn.Acquire(soon, 1) != nil {
		return "", errPodsUnread
	}
	defer e.podsTurn.Release(1)
	pods, err := e.podsOf(ctx, owner)
	if err != nil {
		return "", errPodsUnread
	}
	return e.causeOf(ctx, owner, e.workload(ctx, pods...)), nil
}

// causeOf returns the cause that the pods show, or else the status of the object that controls
// them. It returns an empty string if there is none, or if the pods are still starting.
func (e *Enricher) causeOf(ctx context.Context, owner podController, w diagnosis.Workload) string {
	switch o := owner.Object.(type) {
	case *appsv1.Deployment:
		w.Surging, w.KeepsOldPods = diagnosis.SurgingDeployment(o), diagnosis.KeepsOldPods(o)
	case *appsv1.StatefulSet:
		w.Outdated = diagnosis.OutdatedPod(o, w.Pods)
	}
	d := diagnosis.DiagnoseOr(w, diagnosis.FromController(owner.Object))
	return e.sentenceOf(ctx, owner.Object, w, d.Cause)
}

// podsOf returns the pods that an object controls, or some of them if there are many. Pods that
// only have the labels are left out. It returns an error only if a read must be retried.
func (e *Enricher) podsOf(ctx context.Context, owner podController) ([]*corev1.Pod, error) {
	labels, err := metav1.LabelSelectorAsSelector(owner.selector())
	if err != nil || labels.Empty() {
		return nil, nil //nolint:nilerr // it selects no pods
	}
	var list corev1.PodList
	err = e.live.List(kube.WithResponseLimit(ctx, maxList), &list, client.InNamespace(owner.GetNamespace()), client.MatchingLabelsSelector{Selector: labels}, client.Limit(maxPods))
	if errors.Is(err, kube.ErrTooLarge) || err != nil && Classify(err) == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	controllers, err := e.controllersOf(ctx, owner, list.Items)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		// The replacement of a failed pod may be among those that were not read.
		if controls(controllers, pod) && (list.Continue == "" || pod.Status.Phase != corev1.PodFailed) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func controls(controllers []types.UID, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && slices.Contains(controllers, ref.UID)
}

// controllersOf returns the UIDs of the objects that control the pods of an object: itself, or
// the ReplicaSets of a Deployment.
func (e *Enricher) controllersOf(ctx context.Context, owner podController, pods []corev1.Pod) ([]types.UID, error) {
	if _, ok := owner.Object.(*appsv1.Deployment); !ok {
		return []types.UID{owner.GetUID()}, nil
	}
	var names []string
	for i := range pods {
		ref := metav1.GetControllerOfNoCopy(&pods[i])
		if ref != nil && ref.Kind == "ReplicaSet" && !slices.Contains(names, ref.Name) && len(names) < maxSets {
			names = append(names, ref.Name)
		}
	}
	var uids []types.UID
	for _, name := range names {
		set := &metav1.PartialObjectMetadata{}
		set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		err := e.live.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, set)
		switch {
		case err == nil && metav1.IsControlledBy(set, owner):
			uids = append(uids, set.UID)
		case Classify(err) != "":
			return nil, err
		}
	}
	return uids, nil
}

// causeIn returns the cause that the Event itself contains, or an empty string. It reads
// no further object.
func causeIn(event *alarm.Event) string {
	if cause := diagnosis.FromEvent(eventcache.EventOf(event)); cause != nil {
		return cause.Sentence()
	}
	return ""
}

// workload returns pods with the states of their Nodes. If a pod is not scheduled, it contains a summary
// of all Nodes too. It does not read volumes, because the author of an alarm may not do so.
func (e *Enricher) workload(ctx context.Context, pods ...*corev1.Pod) diagnosis.Workload {
	w := diagnosis.Workload{Pods: pods, Now: e.clock.Now()}
	if nodes, err := kube.NodesOf(ctx, e.nodes, pods); err == nil {
		w.NodeStates = diagnosis.NodeStates(nodes)
	}
	if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) {
		w.Nodes = e.nodeSummary(ctx)
	}
	return w
}

// nodeSummary returns a summary of all Nodes, or nil if they cannot be read. It is kept for a while,
// because a storm of Events can regard many pods.
func (e *Enricher) nodeSummary(ctx context.Context) *diagnosis.Nodes {
	if summary, ok := e.summary.Get(struct{}{}); ok {
		return summary
	}
	var nodes corev1.NodeList
	if e.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	summary := diagnosis.SummarizeNodes(nodes.Items)
	e.summary.Add(struct{}{}, summary)
	return summary
}
