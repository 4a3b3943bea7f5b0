package secretshare

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

var copyKey = types.NamespacedName{Namespace: "target", Name: "shared"}

// settled is a race in which all is as it should be.
func settled(t *testing.T) *race {
	t.Helper()
	r := newRace(t)
	r.put("first")
	r.plan()
	r.settle()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
	return r
}

func (r *race) secret(namespace string) *corev1.Secret {
	r.t.Helper()
	secret := &corev1.Secret{}
	r.must(r.Get(r.t.Context(), client.ObjectKey{Namespace: namespace, Name: "shared"}, secret))
	return secret
}

// A rule is reconciled whenever any namespace changes, and a watch that begins anew
// tells of what is known.
func TestASettledRuleAsksForNothing(t *testing.T) {
	r := settled(t)
	source, copied := r.secret("source"), r.secret("target")
	r.requests = nil
	r.tell(source)
	r.tell(copied)
	r.settle()
	if len(r.requests) > 0 {
		t.Errorf("asked: %q", r.requests)
	}
}

func TestNoCopyIsMadeBeforeItsRuleHasAFinalizer(t *testing.T) {
	r := newRace(t)
	rule, err := r.rule()
	r.must(err)
	rule.Finalizers = nil
	r.must(r.Update(t.Context(), rule))
	r.put("first")
	r.unpatched = apierrors.NewConflict(corev1.Resource("clustersecretshares"), "rule", nil)
	r.settle()
	r.expectNoCopy()
	r.unpatched = nil
	r.settle()
	r.expectCopy("first")
}

// Until all Secrets are listed, a copy that is missing looks like one that is there.
func TestNothingIsDoneAndNothingSaidBeforeItIsKnownWhatThereIs(t *testing.T) {
	r := settled(t)
	copied := r.secret("target")
	r.startUntold()
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.CopyLabels = []v1alpha1.MetadataGlob{"*"} })
	r.requests = nil
	r.plan()
	r.queue = append(r.queue, Item{Rule: kube.Key{Kind: v1alpha1.KindClusterSecretShare, Name: "rule"}, Namespace: "target"})
	r.carryOut()
	r.plan()
	if len(r.requests) != 1 || r.requests[0] != "get source/shared" {
		t.Errorf("asked: %q, want the source alone to be read", r.requests)
	}
	r.tell(copied)
	r.book().Listed(t.Context(), func(types.NamespacedName) bool { return true })
	r.settle()
	r.expectReady(v1alpha1.ReasonReady)
	if rule, err := r.rule(); err != nil || rule.Status.ObservedGeneration != rule.Generation {
		t.Errorf("the status is of generation %d: %v", rule.Status.ObservedGeneration, err)
	}
}

// A watch that was interrupted for long is followed by a list.
func TestWhatGoesUnheardIsNoticedAtTheNextList(t *testing.T) {
	t.Run("a source", func(t *testing.T) {
		r := settled(t)
		r.must(r.Delete(t.Context(), r.secret("source")))
		r.book().Listed(t.Context(), func(name types.NamespacedName) bool { return name == copyKey })
		r.settle()
		r.expectNoCopy()
		r.expectReady(v1alpha1.ReasonSourceNotFound)
	})
	t.Run("a copy", func(t *testing.T) {
		r := settled(t)
		r.must(r.Delete(t.Context(), r.secret("target")))
		r.book().Listed(t.Context(), func(name types.NamespacedName) bool { return name != copyKey })
		r.settle()
		r.expectCopy("first")
	})
}

func TestACopyIsMadeWhenWhatBlocksItGoes(t *testing.T) {
	r := newRace(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "shared"}, Data: map[string][]byte{"key": []byte("foreign")}}
	r.must(r.Create(t.Context(), foreign))
	r.tell(foreign)
	r.put("first")
	r.plan()
	r.settle()
	r.expectCopy("foreign")
	r.expectReady(v1alpha1.ReasonConflict)
	r.must(r.Delete(t.Context(), foreign))
	r.book().Gone(t.Context(), copyKey)
	r.settle()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
}

func TestASuspendedRuleIsLeftAsItIs(t *testing.T) {
	r := settled(t)
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = true })
	r.settle()
	r.put("second")
	r.settle()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSuspended)
}

func TestAStatusNamesTwentyNamespacesAndCountsAll(t *testing.T) {
	r := newRace(t)
	rule := r.controllers.rules[0]
	targets := map[string]target{}
	for i := range 25 {
		targets[fmt.Sprint("target-", i)] = target{}
	}
	p := &plan{
		key: kube.Key{Kind: rule.kind, Name: "many"}, rule: &share.Rule{}, targets: targets,
		sources: sources{wants: map[string]want{"shared": {}}},
	}
	r.book().put(p)
	for namespace := range targets {
		item := Item{p.key, namespace}
		r.book().begin(item)
		r.book().settle(item, p, result{failed: 1, reason: v1alpha1.ReasonCopyFailed, done: true})
	}
	var status v1alpha1.SecretShareStatus
	rule.count(&status, p, verdict{})
	if status.Desired != 25 || status.Failed != 25 || len(status.Failing) != 20 {
		t.Errorf("%d of %d have failed, %d are named", status.Failed, status.Desired, len(status.Failing))
	}
}

// The source is there, and what it lacks may come back.
func TestNothingIsWithdrawnWhileItsSourceLacksAKey(t *testing.T) {
	r := newRace(t)
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Keys = []v1alpha1.SecretKeyMapping{{From: "key"}} })
	r.put("first")
	r.plan()
	r.settle()
	r.expectCopy("first")
	source := r.secret("source")
	source.Data = map[string][]byte{"other": []byte("x")}
	r.must(r.Update(t.Context(), source))
	r.tell(source)
	r.plan()
	r.settle()
	r.expectReady(v1alpha1.ReasonKeyNotFound)
	r.expectCopy("first")
}

// What an administrator changes or deletes stays so, whenever the operator starts.
func TestTheDefaultRuleIsCreatedAtTheFirstStartOnly(t *testing.T) {
	r := newRace(t)
	key := client.ObjectKey{Name: defaultRule}
	start := func() { r.must(EnsureDefault(t.Context(), r, "bongsu-system")) }
	start()
	var rule v1alpha1.ClusterSecretShare
	r.must(r.Get(t.Context(), key, &rule))
	rule.Spec.Source.Type = "example.com/other"
	r.must(r.Update(t.Context(), &rule))
	start()
	r.must(r.Get(t.Context(), key, &rule))
	if rule.Spec.Source.Type != "example.com/other" {
		t.Errorf("its type is %q again", rule.Spec.Source.Type)
	}
	r.must(r.Delete(t.Context(), &rule))
	start()
	if err := r.Get(t.Context(), key, &rule); !apierrors.IsNotFound(err) {
		t.Errorf("it is there again: %v", err)
	}
}
