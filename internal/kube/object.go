package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Key identifies an object of any kind. The outbox and the counters store it as text. No
// part can contain a slash.
type Key struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns KIND/NAMESPACE/NAME. The namespace is empty for cluster-scoped objects.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

// Display returns KIND NAMESPACE/NAME, or KIND NAME without a namespace, for users.
func (k Key) Display() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// NamespacedName returns the key without its kind.
func (k Key) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// ParseKey parses the result of [Key.String].
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("key %q is not KIND/NAMESPACE/NAME", s)
	}
	return Key{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, nil
}

// ChildNames defines the labels and the field owner of the objects that Bongsu creates
// for a Jupyter or an AppService.
var ChildNames = children.Names{Domain: v1alpha1.Group, FieldOwner: "bongsu"}

// SpecChanged accepts updates that change the spec. It also accepts an object that was
// deleted and created again while the watch was interrupted. Such an object looks like an
// update from generation 1 to generation 1.
var SpecChanged predicate.Predicate = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	},
}

// IsPodReady reports whether a pod receives requests. It returns false for nil and for a
// pod that is being deleted.
func IsPodReady(pod *corev1.Pod) bool {
	if pod == nil || !pod.DeletionTimestamp.IsZero() {
		return false
	}
	c := PodCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// NamespaceMetadata reads the metadata of a namespace.
func NamespaceMetadata(ctx context.Context, r client.Reader, name string, options ...client.GetOption) (*metav1.PartialObjectMetadata, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace, r.Get(ctx, client.ObjectKey{Name: name}, namespace, options...)
}

// NodesOf reads the Nodes of the pods. Those that do not exist are left out.
func NodesOf(ctx context.Context, r client.Reader, pods []*corev1.Pod) ([]corev1.Node, error) {
	var nodes []corev1.Node
	read := map[string]bool{"": true}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if read[name] {
			continue
		}
		read[name] = true
		var node corev1.Node
		switch err := r.Get(ctx, client.ObjectKey{Name: name}, &node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// VolumesOf reads the volumes of the claims of pods for which [diagnosis.Workload.NeedsVolumes] is true. Those
// that do not exist are left out.
func VolumesOf(ctx context.Context, r client.Reader, w *diagnosis.Workload) ([]*corev1.PersistentVolume, error) {
	var claims []client.ObjectKey
	for _, pod := range w.Pods {
		if !w.NeedsVolumes(pod) {
			continue
		}
		for _, name := range diagnosis.ClaimsOf(pod) {
			key := client.ObjectKey{Namespace: pod.Namespace, Name: name}
			if !slices.Contains(claims, key) && len(claims) < maxVolumes {
				claims = append(claims, key)
			}
		}
	}
	var volumes []*corev1.PersistentVolume
	for _, key := range claims {
		volume, err := volumeOf(ctx, r, key)
		switch {
		case err == nil:
			volumes = append(volumes, volume)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return volumes, nil
}

// volumeOf reads the volume of a claim. If the claim has none, the error is NotFound.
func volumeOf(ctx context.Context, r client.Reader, key client.ObjectKey) (*corev1.PersistentVolume, error) {
	var claim corev1.PersistentVolumeClaim
	if err := r.Get(ctx, key, &claim); err != nil {
		return nil, err
	}
	if claim.Spec.VolumeName == "" {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), "")
	}
	volume := &corev1.PersistentVolume{}
	return volume, r.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
}

// maxVolumes is how many volumes VolumesOf reads.
const maxVolumes = 8

// IsDisrupted reports whether a component deletes the pod, for example the scheduler for a pod of
// a higher priority.
func IsDisrupted(pod *corev1.Pod) bool {
	c := PodCondition(pod, corev1.DisruptionTarget)
	return pod.DeletionTimestamp != nil && c != nil && c.Status == corev1.ConditionTrue
}

// PodCondition returns the pod's condition of this type, or nil.
func PodCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
