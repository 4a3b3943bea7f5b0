package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCachesDropManagedFieldsAndTheLastAppliedConfig(t *testing.T) {
	for object, options := range cacheOptions().ByObject {
		object.SetName("a")
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "a": "b"})
		transform := options.Transform
		if transform == nil {
			transform = cacheOptions().DefaultTransform
		}
		kept, err := transform(object)
		if err != nil {
			t.Fatal(err)
		}
		o := kept.(client.Object)
		if _, applied := o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; applied || o.GetManagedFields() != nil || o.GetName() != "a" {
			t.Errorf("%T keeps annotations %v and managed fields %v", o, o.GetAnnotations(), o.GetManagedFields())
		}
		tombstone := toolscache.DeletedFinalStateUnknown{Key: "a"}
		if kept, err := transform(tombstone); err != nil || kept != any(tombstone) {
			t.Errorf("%T: a tombstone became %v, error %v", o, kept, err)
		}
	}
}
