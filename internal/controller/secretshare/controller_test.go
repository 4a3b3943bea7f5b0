package secretshare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/kstatus"
)

var copyKey = types.NamespacedName{Namespace: "target", Name: "shared"}

// newSyncedFixture returns a fixture whose copy is up to date.
func newSyncedFixture(t *testing.T) *fixture {
	t.Helper()
	r := newFixture(t)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
	return r
}

func (r *fixture) secret(namespace string) *corev1.Secret {
	r.t.Helper()
	secret := &corev1.Secret{}
	r.must(r.Get(r.t.Context(), client.ObjectKey{Namespace: namespace, Name: "shared"}, secret))
	return secret
}

// Every change of a namespace reconciles the rule, and a new watch repeats known versions.
func TestARuleInSyncSendsNoRequests(t *testing.T) {
	r := newSyncedFixture(t)
	source, copied := r.secret("source"), r.secret("target")
	r.requests = nil
	r.observe(source)
	r.observe(copied)
	r.converge()
	if len(r.requests) > 0 {
		t.Errorf("requests: %q, want none", r.requests)
	}
}

func TestNoCopyIsMadeBeforeItsRuleHasAFinalizer(t *testing.T) {
	r := newFixture(t)
	rule, err := r.rule()
	r.must(err)
	rule.Finalizers = nil
	r.must(r.Update(t.Context(), rule))
	r.putSource("first")
	r.patchError = apierrors.NewConflict(corev1.Resource("clustersecretshares"), "rule", nil)
	r.converge()
	r.expectNoCopy()
	r.patchError = nil
	r.converge()
	r.expectCopy("first")
}

// Before the first list of all Secrets, the store does not know the existing copies.
func TestNothingIsWrittenBeforeTheFirstListOfSecrets(t *testing.T) {
	r := newSyncedFixture(t)
	copied := r.secret("target")
	r.startUnlisted()
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.CopyLabels = []v1alpha1.MetadataGlob{"*"} })
	r.requests = nil
	r.reconcileRule()
	r.queue = append(r.queue, workItem{Rule: kube.Key{Kind: v1alpha1.KindClusterSecretShare, Name: "rule"}, Namespace: "target"})
	r.sync()
	r.reconcileRule()
	if diff := cmp.Diff([]string{"update status of /rule", "get source/shared"}, r.requests); diff != "" {
		t.Errorf("want only the record of the source's namespace, and a read of the source: %s", diff)
	}
	r.observe(copied)
	r.store().OnList(t.Context(), func(types.NamespacedName) bool { return true })
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
	if rule, err := r.rule(); err != nil || rule.Status.ObservedGeneration != rule.Generation {
		t.Errorf("the status has generation %d: %v", rule.Status.ObservedGeneration, err)
	}
}

// A watch that was interrupted for too long begins with a new list.
func TestAMissedDeletionIsNoticedAtTheNextList(t *testing.T) {
	t.Run("a source", func(t *testing.T) {
		r := newSyncedFixture(t)
		r.must(r.Delete(t.Context(), r.secret("source")))
		r.store().OnList(t.Context(), func(name types.NamespacedName) bool { return name == copyKey })
		r.converge()
		r.expectNoCopy()
		r.expectReady(v1alpha1.ReasonSourceNotFound)
	})
	t.Run("a copy", func(t *testing.T) {
		r := newSyncedFixture(t)
		r.must(r.Delete(t.Context(), r.secret("target")))
		r.store().OnList(t.Context(), func(name types.NamespacedName) bool { return name != copyKey })
		r.converge()
		r.expectCopy("first")
	})
}

func TestACopyIsCreatedWhenTheConflictingSecretIsDeleted(t *testing.T) {
	r := newFixture(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "shared"}, Data: map[string][]byte{"key": []byte("foreign")}}
	r.must(r.Create(t.Context(), foreign))
	r.observe(foreign)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	r.expectCopy("foreign")
	r.expectReady(v1alpha1.ReasonConflict)
	r.must(r.Delete(t.Context(), foreign))
	r.store().OnDelete(t.Context(), copyKey)
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
	var events eventsv1.EventList
	r.must(r.List(t.Context(), &events))
	got := map[string]int{}
	for _, e := range events.Items {
		if e.Regarding.Kind == v1alpha1.KindClusterSecretShare {
			got[e.Reason]++
		}
	}
	if diff := cmp.Diff(map[string]int{v1alpha1.ReasonConflict: 1, v1alpha1.ReasonRecovered: 1}, got); diff != "" {
		t.Error(diff)
	}
}

// A rule that is Ready and copies nothing would hide a mistake.
func TestARuleSaysWhyNamespacesGetNoCopies(t *testing.T) {
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for name, tc := range map[string]struct {
		targets         v1alpha1.SecretTargets
		reason, message string
		desired, synced int32
	}{
		"a misspelt name": {
			v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"target", "tarket"}}, v1alpha1.ReasonTargetNotFound,
			"1 of 2 copies are up to date; namespace tarket: it does not exist: create it, or correct spec.targets.names", 2, 1,
		},
		"names and selector exclude each other": {
			v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"target"}, NamespaceSelector: labelled}, v1alpha1.ReasonTargetNotFound,
			"namespace target: it does not match spec.targets.namespaceSelector: add the labels, or correct spec.targets", 0, 0,
		},
		"no namespace": {
			v1alpha1.SecretTargets{NamespaceSelector: labelled}, v1alpha1.ReasonReady, "spec.targets selects no namespace", 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.putSource("first")
			r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Targets = tc.targets })
			r.reconcileRule()
			r.converge()
			r.expectReady(tc.reason)
			rule, err := r.rule()
			r.must(err)
			if got := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(got, tc.message) {
				t.Errorf("%q, want %q", got, tc.message)
			}
			if rule.Status.Desired != tc.desired || rule.Status.Synced != tc.synced {
				t.Errorf("%d of %d are synced, want %d of %d", rule.Status.Synced, rule.Status.Desired, tc.synced, tc.desired)
			}
		})
	}
}

// The tutorial that this project began with creates a Secret of its own type.
func TestARuleNamesTheSecretsThatItNearlySelects(t *testing.T) {
	const bySelector = "Secret shared has no labels that match spec.source.selector team=a"
	byType := func(spec *v1alpha1.ClusterSecretShareSpec) {
		spec.Source.Names, spec.Source.Type = nil, "bongsu.io/secretsync"
	}
	for name, tc := range map[string]struct {
		source          func(*v1alpha1.ClusterSecretShareSpec)
		reason, message string
	}{
		"another type": {byType, v1alpha1.ReasonReady, "not selected: Secret shared has the type k8s.ziwon.dev/secretsync, and spec.source.type is bongsu.io/secretsync"},
		"another type of a name": {
			func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Source.Type = "bongsu.io/secretsync" }, v1alpha1.ReasonSourceNotFound,
			"not selected: Secret shared has the type k8s.ziwon.dev/secretsync, and spec.source.type is bongsu.io/secretsync",
		},
		"another label": {
			func(spec *v1alpha1.ClusterSecretShareSpec) {
				spec.Source.Names, spec.Source.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			}, v1alpha1.ReasonReady, bySelector,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.change(tc.source)
			r.reconcileRule()
			r.converge()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "shared"}, Type: "k8s.ziwon.dev/secretsync"}
			r.must(r.Create(t.Context(), secret))
			r.observe(secret)
			r.converge()
			r.expectReady(tc.reason)
			if got := r.message(); !strings.Contains(got, tc.message) {
				t.Errorf("%q, want %q", got, tc.message)
			}
			r.deleteSource()
			r.converge()
			if got := r.message(); strings.Contains(got, "not selected") {
				t.Errorf("%q names a Secret that does not exist", got)
			}
		})
	}
}

func TestASuspendedRuleKeepsItsCopies(t *testing.T) {
	r := newSyncedFixture(t)
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = true })
	r.converge()
	r.putSource("second")
	r.converge()
	r.expectCopy("first")
	rule, err := r.rule()
	r.must(err)
	if got := rule.Status.Summary; got != (v1alpha1.Summary{State: v1alpha1.StateSuspended}) {
		t.Errorf("the summary is %v", got)
	}
	if ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		t.Errorf("there is a condition Ready: %v", ready)
	}
	if got := kstatus.Compute(t, rule); got != "Current" {
		t.Errorf("kstatus says %s", got)
	}
}

func TestTheStatusListsTwentyNamespacesAndCountsAll(t *testing.T) {
	r := newFixture(t)
	rule := r.controllers.rules[0]
	targets := map[string]share.Target{}
	for i := range 25 {
		targets[fmt.Sprint("target-", i)] = share.Target{}
	}
	p := &plan{
		key:  kube.Key{Kind: rule.kind, Name: "many"},
		Plan: share.Plan{Rule: &share.Rule{}, Sources: share.Sources{Wanted: map[string]share.Wanted{"shared": {}}}},
	}
	p.Targets = targets
	r.store().setPlan(p)
	for namespace := range targets {
		item := workItem{p.key, namespace}
		r.store().beginSync(item)
		r.store().endSync(item, p, syncResult{failed: 1, reason: v1alpha1.ReasonCopyFailed, done: true})
	}
	var status v1alpha1.SecretShareStatus
	rule.setCounts(&status, p, readiness{})
	if status.Desired != 25 || status.Failed != 25 || len(status.Failing) != 20 {
		t.Errorf("%d of %d have failed, %d are listed", status.Failed, status.Desired, len(status.Failing))
	}
}

// The source exists, and the key may be added again.
func TestNoCopyIsRemovedWhileItsSourceLacksAKey(t *testing.T) {
	r := newFixture(t)
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Keys = []v1alpha1.SecretKeyMapping{{From: "key"}} })
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	r.expectCopy("first")
	source := r.secret("source")
	source.Data = map[string][]byte{"other": []byte("x")}
	r.must(r.Update(t.Context(), source))
	r.observe(source)
	r.reconcileRule()
	r.converge()
	r.expectReady(v1alpha1.ReasonKeyNotFound)
	r.expectCopy("first")
}

// A later start does not revert what an administrator has changed or deleted.
func TestTheDefaultRuleIsCreatedAtTheFirstStartOnly(t *testing.T) {
	r := newFixture(t)
	key := client.ObjectKey{Name: defaultRule}
	start := func() {
		r.must(EnsureDefault(t.Context(), r, client.ObjectKey{Namespace: "bongsu-system", Name: "bongsu-defaults"}))
	}
	start()
	var rule v1alpha1.ClusterSecretShare
	r.must(r.Get(t.Context(), key, &rule))
	rule.Spec.Source.Type = "example.com/other"
	r.must(r.Update(t.Context(), &rule))
	start()
	r.must(r.Get(t.Context(), key, &rule))
	if rule.Spec.Source.Type != "example.com/other" {
		t.Errorf("the type is %q again", rule.Spec.Source.Type)
	}
	r.must(r.Delete(t.Context(), &rule))
	start()
	if err := r.Get(t.Context(), key, &rule); !apierrors.IsNotFound(err) {
		t.Errorf("the rule was created again: %v", err)
	}
}

// A user who created the namespace before the installation could write these Secrets.
func TestTheDefaultRuleIsSuspendedIfItsSourceExistsAtTheFirstStart(t *testing.T) {
	for name, tc := range map[string]struct {
		kind corev1.SecretType
		want bool
	}{
		"a Secret that it would copy": {defaultType, true},
		"a Secret of another type":    {corev1.SecretTypeOpaque, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: defaultRule, Name: "theirs"}, Type: tc.kind}
			r.must(r.Create(t.Context(), secret))
			r.must(EnsureDefault(t.Context(), r, client.ObjectKey{Namespace: "bongsu-system", Name: "bongsu-defaults"}))
			var rule v1alpha1.ClusterSecretShare
			r.must(r.Get(t.Context(), client.ObjectKey{Name: defaultRule}, &rule))
			if rule.Spec.Suspend != tc.want {
				t.Errorf("suspend is %v, want %v", rule.Spec.Suspend, tc.want)
			}
		})
	}
}

// Each accepted change of a namespace reconciles all rules.
func TestOnlyLabelChangesAndDeletionsOfNamespacesAreHandled(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Namespace)
		want   bool
	}{
		"a changed label":      {func(ns *corev1.Namespace) { ns.Labels = map[string]string{"team": "data"} }, true},
		"a removed label":      {func(ns *corev1.Namespace) { ns.Labels = nil }, true},
		"a deletion":           {func(ns *corev1.Namespace) { now := metav1.Now(); ns.DeletionTimestamp = &now }, true},
		"a changed annotation": {func(ns *corev1.Namespace) { ns.Annotations = map[string]string{"note": "x"} }, false},
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

// The reconciler itself writes the status.
func TestStatusUpdatesOfARuleAreIgnored(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.SecretShare)
		want   bool
	}{
		"a changed spec":      {func(o *v1alpha1.SecretShare) { o.Generation++ }, true},
		"a removed finalizer": {func(o *v1alpha1.SecretShare) { o.Finalizers = nil }, true},
		"a changed status":    {func(o *v1alpha1.SecretShare) { o.Status.Synced = 1 }, false},
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

// A rule with nothing to copy is Ready. A new namespace must not change that for a moment.
func TestANamespaceWithNothingToCopyIsNotSynced(t *testing.T) {
	s := newStore()
	s.copies.listed = true
	var items []workItem
	s.setSyncQueue(func(item workItem) { items = append(items, item) })
	p := &plan{
		key:  kube.Key{Kind: v1alpha1.KindClusterSecretShare, Name: "empty"},
		Plan: share.Plan{Rule: &share.Rule{Definition: share.Definition{UID: "empty"}}},
	}
	p.Targets = map[string]share.Target{"a": {}}
	s.setPlan(p)
	if results := s.resultsOf(p.key); len(results) != 0 || len(items) != 0 {
		t.Errorf("the results are %v, and %v is enqueued", results, items)
	}
	first := *p
	first.Generation, first.Wanted = 1, map[string]share.Wanted{"shared": {}}
	s.setPlan(&first)
	if len(items) != 1 {
		t.Errorf("%v is enqueued for a new Secret", items)
	}
}
