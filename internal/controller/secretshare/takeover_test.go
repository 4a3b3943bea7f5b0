package secretshare

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// putSecond creates a rule that wants the same as the first one. The operator does not process it yet.
func (r *fixture) putSecond() {
	r.t.Helper()
	first, err := r.rule()
	r.must(err)
	r.must(r.Create(r.t.Context(), &v1alpha1.ClusterSecretShare{
		ObjectMeta: metav1.ObjectMeta{Name: "second", Generation: 1, Finalizers: []string{Finalizer}}, Spec: first.Spec,
	}))
}

// reconcileSecond processes the second rule.
func (r *fixture) reconcileSecond() {
	r.t.Helper()
	for _, reconciler := range r.controllers.rules {
		if reconciler.kind == v1alpha1.KindClusterSecretShare {
			_, err := reconciler.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "second"}})
			r.must(err)
		}
	}
}

// syncFirst syncs the copies of the first rule in the target.
func (r *fixture) syncFirst() {
	r.t.Helper()
	for key := range r.store().rules.byKey {
		if key.Name == "rule" {
			r.queue = []workItem{{key, "target"}}
		}
	}
	r.sync()
}

func TestUnwantedCopiesWaitForRulesThatMayWantThem(t *testing.T) {
	for name, tc := range map[string]struct {
		second func(*fixture)
		// removedAt is when the copy is removed, or zero if the second rule has it then.
		removedAt time.Duration
	}{
		"no other rule":                {func(*fixture) {}, RemovalDelay},
		"a rule that is not processed": {(*fixture).putSecond, maxRemovalWait},
		"a rule that wants it":         {func(r *fixture) { r.putSecond(); r.reconcileSecond() }, 0},
		"a rule that wants it and cannot write it": {func(r *fixture) {
			r.putSecond()
			r.reconcileSecond()
			r.readError = errFault
		}, maxRemovalWait},
		"a suspended rule": {func(r *fixture) {
			r.putSecond()
			r.changeSecond(func(s *v1alpha1.ClusterSecretShareSpec) { s.Suspend = true })
			r.reconcileSecond()
		}, RemovalDelay},
		"a rule whose change is not processed": {func(r *fixture) {
			r.putSecond()
			r.changeSecond(func(s *v1alpha1.ClusterSecretShareSpec) { s.Suspend = true })
			r.reconcileSecond()
			r.changeSecond(func(s *v1alpha1.ClusterSecretShareSpec) { s.Suspend = false })
		}, maxRemovalWait},
		"a rule that is being deleted": {func(r *fixture) {
			r.putSecond()
			r.must(r.Delete(r.t.Context(), &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: "second"}}))
		}, RemovalDelay},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSyncedFixture(t)
			r.controllers.syncer.removalDelay = RemovalDelay
			before := r.secret("target").UID
			r.deleteRule()
			r.reconcileRule()
			tc.second(r)
			r.controllers.syncer.contents.drop()
			start := r.clock.Now()
			for waited := time.Duration(0); waited < maxRemovalWait; waited += time.Second {
				r.clock.SetTime(start.Add(waited))
				r.syncFirst()
				if tc.removedAt > 0 && waited >= tc.removedAt {
					r.expectNoCopy()
				} else if now := r.secret("target"); now.UID != before {
					t.Fatalf("after %s, the copy has UID %s", waited, now.UID)
				}
			}
			r.clock.SetTime(start.Add(maxRemovalWait))
			r.syncFirst()
			if tc.removedAt > 0 {
				r.expectNoCopy()
			} else if now := r.secret("target"); now.UID != before || now.Annotations["bongsu.io/rule"] != "ClusterSecretShare/second" {
				t.Errorf("the copy is %s of %s", now.UID, now.Annotations["bongsu.io/rule"])
			}
		})
	}
}

func (r *fixture) changeSecond(spec func(*v1alpha1.ClusterSecretShareSpec)) {
	r.t.Helper()
	rule := &v1alpha1.ClusterSecretShare{}
	r.must(r.Get(r.t.Context(), types.NamespacedName{Name: "second"}, rule))
	spec(&rule.Spec)
	rule.Generation++
	r.must(r.Update(r.t.Context(), rule))
}
