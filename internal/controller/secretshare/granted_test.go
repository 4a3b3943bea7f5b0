package secretshare

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/kube"
)

var tenantKey = kube.Key{Kind: v1alpha1.KindSecretShare, Namespace: "source", Name: "tenants"}

// newTenantFixture returns a fixture with a SecretShare that selects the Secret "shared".
func newTenantFixture(t *testing.T) *fixture {
	t.Helper()
	r := newFixture(t)
	rule, err := r.rule()
	r.must(err)
	rule.Finalizers = nil
	r.must(r.Update(t.Context(), rule))
	r.must(r.Delete(t.Context(), rule))
	r.putSource("first")
	r.must(r.Create(t.Context(), &v1alpha1.SecretShare{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantKey.Namespace, Name: tenantKey.Name, Generation: 1, Finalizers: []string{Finalizer}},
		Spec:       v1alpha1.SecretShareSpec{Source: v1alpha1.SecretSource{Names: []string{"shared"}}},
	}))
	return r
}

// newGrant returns a grant for the namespace "source" in the namespace "target". Grants with
// a lower number are older.
func newGrant(number int, names ...string) *v1alpha1.SecretShareGrant {
	g := &v1alpha1.SecretShareGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "target", Name: fmt.Sprintf("grant-%04d", number), UID: types.UID(fmt.Sprintf("grant-%04d", number)),
			Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(int64(number), 0)),
		},
		Spec: v1alpha1.SecretShareGrantSpec{From: []v1alpha1.SecretShareGrantFrom{{Namespace: "source"}}},
		Status: v1alpha1.SecretShareGrantStatus{
			From: []v1alpha1.NamespaceIdentity{{Namespace: "source", UID: "namespace-source", Generation: 1}},
		},
	}
	for _, name := range names {
		g.Spec.To = append(g.Spec.To, v1alpha1.SecretShareGrantTo{Name: name})
	}
	return g
}

// names returns count different names.
func names(prefix string, count int) []string {
	var found []string
	for i := range count {
		found = append(found, fmt.Sprintf("%s-%d", prefix, i))
	}
	return found
}

func (r *fixture) tenants() *Reconciler {
	r.t.Helper()
	i := slices.IndexFunc(r.controllers.rules, func(found *Reconciler) bool { return found.kind == tenantKey.Kind })
	return r.controllers.rules[i]
}

// reconcileTenants reconciles the SecretShare and its copies until nothing changes.
func (r *fixture) reconcileTenants() {
	r.t.Helper()
	for range 3 {
		_, err := r.tenants().Reconcile(r.t.Context(), reconcile.Request{NamespacedName: tenantKey.NamespacedName()})
		r.must(err)
		r.sync()
	}
}

func (r *fixture) tenantReason() string {
	r.t.Helper()
	var rule v1alpha1.SecretShare
	r.must(r.Get(r.t.Context(), tenantKey.NamespacedName(), &rule))
	if c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// grantReady reconciles a grant and returns its condition Ready.
func (r *fixture) grantReady(grant *v1alpha1.SecretShareGrant) metav1.Condition {
	r.t.Helper()
	_, err := r.controllers.grants.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(grant)})
	r.must(err)
	r.must(r.Get(r.t.Context(), client.ObjectKeyFromObject(grant), grant))
	if c := meta.FindStatusCondition(grant.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// The owner of the grants is not the owner of the SecretShare.
func TestTheNamesOfManyGrantsUseLittleMemoryOfASecretShare(t *testing.T) {
	r := newTenantFixture(t)
	r.tenants().budget = budget.New[kube.Key](40<<10, 40<<10)
	var last *v1alpha1.SecretShareGrant
	for i := range 20 {
		last = newGrant(i, names(fmt.Sprint("secret-", i), 64)...)
		if i == 0 {
			last.Spec.To[0].Name = "shared"
		}
		r.must(r.Create(t.Context(), last))
	}
	r.reconcileTenants()
	if reason := r.tenantReason(); reason != v1alpha1.ReasonReady {
		t.Errorf("the reason is %s", reason)
	}
	r.expectCopy("first")
	if c := r.grantReady(last); c.Reason != v1alpha1.ReasonOverBudget || c.Status != metav1.ConditionFalse {
		t.Errorf("the last grant: %s %s: %s", c.Status, c.Reason, c.Message)
	}
	if c := r.grantReady(newGrant(0)); c.Reason != v1alpha1.ReasonReady {
		t.Errorf("the first grant: %s: %s", c.Reason, c.Message)
	}
}

// The times can come from two API servers whose clocks differ.
func TestTheNamespaceOfASecretShareIsRecognizedWithoutTimes(t *testing.T) {
	r := newTenantFixture(t)
	r.must(r.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "source"}}))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "source", CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}}
	r.must(r.Create(t.Context(), ns))
	ns.UID = "namespace-source"
	r.must(r.Update(t.Context(), ns))
	r.must(r.Create(t.Context(), newGrant(1)))
	r.reconcileTenants()
	r.expectCopy("first")
}

// The cache still contains the SecretShare of the former namespace.
func TestADeletedSecretShareGetsNoGrantOfANewNamespace(t *testing.T) {
	r := newTenantFixture(t)
	r.must(r.Create(t.Context(), newGrant(1)))
	rule := &v1alpha1.SecretShare{}
	r.must(r.Get(t.Context(), tenantKey.NamespacedName(), rule))
	for name, uid := range map[string]types.UID{"deleted": "", "created again": "another"} {
		t.Run(name, func(t *testing.T) {
			live := withNamespace(t, "namespace-source", nil)
			if uid != "" {
				live = withNamespace(t, "namespace-source", nil, &v1alpha1.SecretShare{
					ObjectMeta: metav1.ObjectMeta{Namespace: tenantKey.Namespace, Name: tenantKey.Name, UID: uid},
				})
			}
			r.tenants().live = live
			if _, err := r.tenants().updatePlan(t.Context(), tenantKey, rule.DeepCopy()); err == nil {
				t.Error("no error, so nothing retries")
			}
			r.sync()
			r.expectNoCopy()
		})
	}
}

// A grant has no record before the first start of a version that writes it, or if its status
// was lost.
func TestCopiesStayAsTheyAreUntilTheirGrantHasARecord(t *testing.T) {
	for name, named := range map[string][]v1alpha1.NamespaceGlob{"all namespaces": nil, "a named one": {"target"}} {
		t.Run(name, func(t *testing.T) {
			r := newTenantFixture(t)
			rule := &v1alpha1.SecretShare{}
			r.must(r.Get(t.Context(), tenantKey.NamespacedName(), rule))
			rule.Spec.Targets.Names = named
			r.must(r.Update(t.Context(), rule))
			grant := newGrant(1)
			r.must(r.Create(t.Context(), grant))
			r.reconcileTenants()
			r.expectCopy("first")

			r.must(r.Get(t.Context(), client.ObjectKeyFromObject(grant), grant))
			grant.Status.From = nil
			r.must(r.Status().Update(t.Context(), grant))
			r.start(r.secret("source"), r.secret("target"))
			r.putSource("second")
			r.reconcileTenants()
			r.expectCopy("first")
			if reason := r.tenantReason(); reason != v1alpha1.ReasonCopying {
				t.Errorf("the reason is %s", reason)
			}

			if recorded := r.grantReady(grant); len(grant.Status.From) != 1 {
				t.Fatalf("no record: %v", recorded)
			}
			r.reconcileTenants()
			r.expectCopy("second")
			if reason := r.tenantReason(); reason != v1alpha1.ReasonReady {
				t.Errorf("the reason is %s", reason)
			}
			r.must(r.Delete(t.Context(), grant))
			r.reconcileTenants()
			r.expectNoCopy()
		})
	}
}

// Such a grant protects no copy that the SecretShare itself no longer wants in the namespace.
func TestAGrantWithoutARecordKeepsNoCopyThatItsRuleExcludes(t *testing.T) {
	r := newTenantFixture(t)
	grant := newGrant(1)
	r.must(r.Create(t.Context(), grant))
	r.reconcileTenants()
	r.expectCopy("first")
	grant.Status.From = nil
	r.must(r.Status().Update(t.Context(), grant))
	rule := &v1alpha1.SecretShare{}
	r.must(r.Get(t.Context(), tenantKey.NamespacedName(), rule))
	rule.Spec.Targets.Exclude = []v1alpha1.NamespaceGlob{"target"}
	rule.Generation++
	r.must(r.Update(t.Context(), rule))
	r.reconcileTenants()
	r.expectNoCopy()
}

// The state of the copies stays unknown while the first list of all Secrets is missing.
func TestARecreatedNamespaceIsReportedWhileCopiesAreNotKnown(t *testing.T) {
	r := newTenantFixture(t)
	grant := newGrant(1)
	r.must(r.Create(t.Context(), grant))
	r.recreateNamespace("another")
	r.startUnlisted()
	if c := r.grantReady(grant); c.Reason != v1alpha1.ReasonSourceRecreated || c.Status != metav1.ConditionFalse {
		t.Errorf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}
