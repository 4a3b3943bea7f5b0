package secretshare

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// All rules are looked at for each change of a namespace that is let through.
func TestWhatOfANamespaceMakesItATargetOrNotIsHeard(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Namespace)
		want   bool
	}{
		"a label changes":       {func(ns *corev1.Namespace) { ns.Labels = map[string]string{"team": "data"} }, true},
		"a label goes":          {func(ns *corev1.Namespace) { ns.Labels = nil }, true},
		"it begins to go":       {func(ns *corev1.Namespace) { now := metav1.Now(); ns.DeletionTimestamp = &now }, true},
		"an annotation changes": {func(ns *corev1.Namespace) { ns.Annotations = map[string]string{"note": "x"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}}
			after := before.DeepCopy()
			tc.change(after)
			if got := namespaceChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// Its status is what the rule's own reconciler writes.
func TestOfARuleItsStatusIsNotHeard(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.SecretShare)
		want   bool
	}{
		"its spec changes":     {func(o *v1alpha1.SecretShare) { o.Generation++ }, true},
		"its finalizer goes":   {func(o *v1alpha1.SecretShare) { o.Finalizers = nil }, true},
		"its status is filled": {func(o *v1alpha1.SecretShare) { o.Status.Synced = 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.SecretShare{ObjectMeta: metav1.ObjectMeta{Generation: 1, Finalizers: []string{Finalizer}}}
			after := before.DeepCopy()
			tc.change(after)
			if got := ruleChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
