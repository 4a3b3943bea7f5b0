package appservice

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// byApp is the index of what bears an app's label: to list the pods of one app must not
// cost more the more pods there are.
const byApp = "appservice"

func (r *Reconciler) addIndexes(mgr ctrl.Manager) error {
	for _, o := range []client.Object{&corev1.Pod{}, replicaSets()} {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), o, byApp, func(o client.Object) []string {
			return []string{o.GetLabels()[v1alpha1.LabelAppService]}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replicaSets is what is kept of ReplicaSets: whose they are.
func replicaSets() *metav1.PartialObjectMetadata {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	return set
}

// isNewOrGone leaves out changes: whose a ReplicaSet is does not change.
var isNewOrGone = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// findPods reads the app's pods: those of its Deployment's ReplicaSets, whatever labels
// others wear. None of another's is counted, checked or told of.
func (r *Reconciler) findPods(ctx context.Context, a *app) error {
	a.sets = map[types.UID]string{}
	if a.deployment.UID == "" {
		return nil
	}
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSetList"))
	if err := r.Client.List(ctx, sets, ofApp(a)...); err != nil {
		return err
	}
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], &a.deployment) {
			a.sets[sets.Items[i].UID] = sets.Items[i].Name
		}
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, ofApp(a)...); err != nil {
		return err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; a.controls(pod) && pod.DeletionTimestamp.IsZero() {
			a.pods = append(a.pods, pod)
		}
	}
	slices.SortFunc(a.pods, func(x, y *corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

func ofApp(a *app) []client.ListOption {
	return []client.ListOption{client.InNamespace(a.Namespace), client.MatchingFields{byApp: a.Name}, client.UnsafeDisableDeepCopy}
}

// controls tells whether a pod is the Deployment's, through one of its ReplicaSets.
func (a *app) controls(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return false
	}
	_, ours := a.sets[controller.UID]
	return ours
}

// running returns the status of a pod's container if it runs, else nil.
func running(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	if pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == container && status.State.Running != nil {
			return status
		}
	}
	return nil
}
