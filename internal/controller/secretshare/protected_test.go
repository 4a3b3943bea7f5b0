package secretshare

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// newProtectedFixture returns a fixture with Secrets in the protected namespace kube-system
// that have the marks of the rule. They are former copies, or forgeries of a tenant.
func newProtectedFixture(t *testing.T) *fixture {
	t.Helper()
	r := newSyncedFixture(t)
	forged, shared := r.putMarked(metav1.NamespaceSystem, "forged"), r.putMarked(metav1.NamespaceSystem, "shared")
	r.requests = nil
	r.protected = []string{metav1.NamespaceSystem}
	r.start(r.secret("source"), r.secret("target"), shared)
	r.converge()
	r.observe(forged)
	r.converge()
	return r
}

// putMarked creates a Secret with the marks of a copy.
func (r *fixture) putMarked(namespace, name string, finalizers ...string) *corev1.Secret {
	r.t.Helper()
	copied := r.secret("target")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: copied.Labels, Annotations: copied.Annotations, Finalizers: finalizers,
	}}
	r.must(r.Create(r.t.Context(), secret))
	return secret
}

func (r *fixture) deleteRule() {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	r.must(r.Delete(r.t.Context(), rule))
	r.reconcileRule()
	r.sync()
}

func (r *fixture) expectNoRule() {
	r.t.Helper()
	if rule, err := r.rule(); !apierrors.IsNotFound(err) {
		r.t.Errorf("the rule still exists: %v, status %+v", err, rule.Status)
	}
}

func (r *fixture) expectNoWriteIn(namespace string) {
	r.t.Helper()
	for _, request := range r.requests {
		if strings.Contains(request, " "+namespace+"/") {
			r.t.Errorf("sent %q", request)
		}
	}
}

func TestSecretsInAProtectedNamespaceNeverBlockTheDeletionOfARule(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyDelete, v1alpha1.DeletionPolicyRetain} {
		t.Run(string(policy), func(t *testing.T) {
			r := newProtectedFixture(t)
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.DeletionPolicy = policy })
			r.deleteRule()
			r.converge()
			r.expectNoRule()
			r.expectNoWriteIn(metav1.NamespaceSystem)
			if policy == v1alpha1.DeletionPolicyDelete {
				r.expectNoCopy()
			}
		})
	}
}

func TestTheStatusNamesProtectedNamespacesWithCopiesOnce(t *testing.T) {
	r := newProtectedFixture(t)
	r.expectReady(v1alpha1.ReasonReady)
	r.expectNoWriteIn(metav1.NamespaceSystem)
	rule, err := r.rule()
	r.must(err)
	ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
	const want = "all copies are up to date; Secrets with the marks of copies remain in protected namespaces (kube-system): delete them there"
	if ready.Message != want || rule.Status.Failed != 0 || len(rule.Status.Failing) > 0 {
		t.Errorf("message %q, want %q; %d failed, %v", ready.Message, want, rule.Status.Failed, rule.Status.Failing)
	}
	for _, name := range []string{"forged", "shared"} {
		r.store().OnDelete(t.Context(), types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: name})
	}
	r.converge()
	rule, err = r.rule()
	r.must(err)
	if got := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady).Message; got != share.UpToDate {
		t.Errorf("without these Secrets, the message is %q", got)
	}
}

func TestACopyThatIsBeingDeletedDoesNotBlockTheDeletionOfItsRule(t *testing.T) {
	r := newSyncedFixture(t)
	held := r.putMarked("target", "held", "example.com/foreign")
	r.observe(held)
	r.deleteRule()
	r.must(r.Get(t.Context(), types.NamespacedName{Namespace: "target", Name: "held"}, held))
	r.observe(held)
	r.converge()
	r.expectNoRule()
	r.expectNoCopy()
	if held.DeletionTimestamp == nil || !slices.Contains(held.Finalizers, "example.com/foreign") || share.RuleOf(held.Annotations) == "" {
		t.Errorf("the Secret with a foreign finalizer is not being deleted: %+v", held.ObjectMeta)
	}
}
