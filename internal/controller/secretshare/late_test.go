package secretshare

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A former leader that was paused can have a request in flight, which arrives when its successor has removed all copies
// and the rule.
func TestACopyThatAFormerLeaderCreatesLateIsRemoved(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "after some minutes": 9 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			r := newSyncedFixture(t)
			copied := r.secret("target")
			r.deleteRule()
			r.store().OnDelete(t.Context(), client.ObjectKeyFromObject(copied))
			r.converge()
			r.expectNoRule()
			r.expectNoCopy()
			r.pass(after)
			late := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: copied.Namespace, Name: copied.Name, Labels: copied.Labels, Annotations: copied.Annotations,
			}, Data: copied.Data}
			r.must(r.Create(t.Context(), late))
			r.observe(late)
			r.converge()
			r.expectNoCopy()
		})
	}
}

func TestThePlanOfADeletedRuleIsForgotten(t *testing.T) {
	r := newSyncedFixture(t)
	copied := r.secret("target")
	r.deleteRule()
	r.store().OnDelete(t.Context(), client.ObjectKeyFromObject(copied))
	r.converge()
	r.expectNoRule()
	r.pass(lateWrites)
	if n := len(r.store().rules.byKey); n > 0 {
		t.Errorf("%d plans are kept", n)
	}
}
