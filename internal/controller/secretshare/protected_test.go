package secretshare

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
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

// reported returns the notes of the Warnings on copies.
func (r *fixture) reported() (notes []string) {
	r.t.Helper()
	var list eventsv1.EventList
	r.must(r.List(r.t.Context(), &list))
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == v1alpha1.ReasonCopyFailed && e.Regarding.Kind == "Secret" {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

const waitsForFinalizer = "the Secret is being deleted, and waits until these finalizers are removed: example.com/foreign"

func TestACopyThatAFinalizerHoldsIsReportedInsteadOfReplacedAgainAndAgain(t *testing.T) {
	r := newSyncedFixture(t)
	copied := r.secret("target")
	copied.Finalizers, copied.Immutable, copied.Data = []string{"example.com/foreign"}, new(true), map[string][]byte{"key": []byte("edited")}
	r.must(r.Update(t.Context(), copied))
	r.observe(copied)
	r.retries = nil
	for range 5 {
		r.converge()
		r.queue = append(r.queue, workItem{kube.Key{Kind: v1alpha1.KindClusterSecretShare, Name: "rule"}, "target"})
	}
	raced := 0
	for _, after := range r.retries {
		if after == raceRetry {
			raced++
		}
	}
	if last := r.retries[len(r.retries)-1]; raced > 1 || last < minRetry {
		t.Errorf("the copy is retried after %v", r.retries)
	}
	if _, message := r.reasonOf("rule"); !strings.Contains(message, waitsForFinalizer) {
		t.Errorf("the rule reports %q", message)
	}
	if notes := r.reported(); len(notes) != 1 || !strings.HasSuffix(notes[0], waitsForFinalizer) {
		t.Errorf("the Events say %q", notes)
	}
	held := r.secret("target")
	held.Finalizers = nil
	r.must(r.Update(t.Context(), held))
	r.store().OnDelete(t.Context(), client.ObjectKeyFromObject(held))
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
}

func TestACopyThatIsNotWantedAndThatAFinalizerHoldsIsReported(t *testing.T) {
	r := newSyncedFixture(t)
	copied := r.secret("target")
	copied.Finalizers = []string{"example.com/foreign"}
	r.must(r.Update(t.Context(), copied))
	r.observe(copied)
	r.exclude()
	r.converge()
	r.observe(r.secret("target"))
	r.converge()
	if notes := r.reported(); len(notes) != 1 || !strings.HasSuffix(notes[0], waitsForFinalizer) {
		t.Errorf("the Events say %q", notes)
	}
}
