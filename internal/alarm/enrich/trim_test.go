package enrich_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

func TestOfANodeOnlyWhatIsAskedForIsCached(t *testing.T) {
	now := metav1.Now()
	kept := metav1.ObjectMeta{
		Name: "node-0", UID: "uid", ResourceVersion: "7", CreationTimestamp: now, DeletionTimestamp: &now,
		Labels: map[string]string{"pool": "web"}, Annotations: map[string]string{"rack": "7"},
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	whole := &corev1.Node{
		ObjectMeta: *kept.DeepCopy(),
		Spec:       corev1.NodeSpec{ProviderID: "aws:///i-1", Taints: []corev1.Taint{{Key: "a"}}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Images:     []corev1.ContainerImage{{Names: []string{"example.com/a:1"}}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
			Addresses:  []corev1.NodeAddress{{Address: "10.0.0.1"}},
		},
	}
	whole.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	whole.OwnerReferences = []metav1.OwnerReference{{Name: "a"}}
	whole.Finalizers = []string{"a"}

	got, err := enrich.TrimNode(whole.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{ObjectMeta: kept, Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoNodePassesTheTrimmerUnchanged(t *testing.T) {
	want := cache.DeletedFinalStateUnknown{Key: "node-0"}
	if got, err := enrich.TrimNode(want); err != nil || got != any(want) {
		t.Errorf("got %v, %v", got, err)
	}
}
