package secretshare

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// addNamespace creates a namespace that the rule does not target.
func (r *fixture) addNamespace(name string) {
	r.t.Helper()
	r.must(r.WithWatch.Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// putFormer creates a Secret like the copy in target, with the marks of a rule that exists no
// longer.
func (r *fixture) putFormer(namespace, name string, change ...func(*corev1.Secret)) *corev1.Secret {
	r.t.Helper()
	copied := r.secret("target")
	former := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: copied.Labels, Annotations: copied.Annotations},
		Type:       copied.Type, Data: copied.Data,
	}
	former.Labels[share.LabelRuleUID], former.Annotations[share.AnnotationRuleUID] = "former", "former"
	for _, f := range change {
		f(former)
	}
	r.must(r.Create(r.t.Context(), former))
	return former
}

func (r *fixture) exists(o *corev1.Secret) bool {
	r.t.Helper()
	err := r.Get(r.t.Context(), client.ObjectKeyFromObject(o), &corev1.Secret{})
	r.must(client.IgnoreNotFound(err))
	return err == nil
}

// predecessorCase has a copy of an earlier rule in namespace "elsewhere". The present rule
// does not copy there, except in some cases.
type predecessorCase struct {
	spec   func(*v1alpha1.ClusterSecretShareSpec)
	change func(*corev1.Secret)
	// name of the copy. Default: shared.
	name string
	// kept: the copy stays as it is. released: it stays without its marks.
	kept, released bool
}

func excludeElsewhere(s *v1alpha1.ClusterSecretShareSpec) {
	s.Targets.Exclude = []v1alpha1.NamespaceGlob{"elsewhere"}
}

var predecessorCases = map[string]predecessorCase{
	"the namespace is no target": {spec: excludeElsewhere},
	"the rule retains its copies": {
		spec: func(s *v1alpha1.ClusterSecretShareSpec) {
			excludeElsewhere(s)
			s.DeletionPolicy = v1alpha1.DeletionPolicyRetain
		},
		released: true,
	},
	"the rule shares no such Secret": {
		spec: func(*v1alpha1.ClusterSecretShareSpec) {}, name: "another",
		change: func(s *corev1.Secret) { s.Annotations[share.AnnotationSource] = "source/another" },
	},
	"the rule is suspended": {
		spec: func(s *v1alpha1.ClusterSecretShareSpec) { excludeElsewhere(s); s.Suspend = true }, kept: true,
	},
	"the copy of a rule with another name": {
		spec: excludeElsewhere, kept: true,
		change: func(s *corev1.Secret) { s.Annotations[share.AnnotationRule] = "ClusterSecretShare/another" },
	},
	"the copy of a SecretShare": {
		spec: excludeElsewhere, kept: true,
		change: func(s *corev1.Secret) {
			s.Annotations[share.AnnotationRule], s.Annotations[share.AnnotationNamespaceUID] = "SecretShare/source/rule", "namespace-source"
		},
	},
	"a Secret that is no copy": {
		spec: excludeElsewhere, kept: true,
		change: func(s *corev1.Secret) { delete(s.Annotations, share.AnnotationSourceUID) },
	},
	"a Secret that was released": {spec: excludeElsewhere, kept: true, change: share.Release},
}

// No other rule removes the copies of a rule that was deleted without its copies, or that
// come from a backup.
func TestCopiesOfAFormerRuleAreRemovedWhereTheRuleWantsNone(t *testing.T) {
	for name, tc := range predecessorCases {
		for when, restart := range map[string]bool{"at the start": true, "when it is observed": false} {
			t.Run(name+", "+when, func(t *testing.T) { testPredecessor(t, tc, restart) })
		}
	}
}

func testPredecessor(t *testing.T, tc predecessorCase, restart bool) {
	t.Helper()
	r := newSyncedFixture(t)
	r.addNamespace("elsewhere")
	r.change(tc.spec)
	r.converge()
	if tc.name == "" {
		tc.name = "shared"
	}
	if tc.change == nil {
		tc.change = func(*corev1.Secret) {}
	}
	former := r.putFormer("elsewhere", tc.name, tc.change)
	before := r.get(former)
	if restart {
		r.start(r.secret("source"), r.secret("target"), before)
	} else {
		r.observe(before)
	}
	r.converge()
	r.expectCopy("first")
	if !tc.kept && !tc.released {
		if r.exists(former) {
			t.Error("the copy of the former rule still exists")
		}
		return
	}
	now := r.get(former)
	if tc.kept && now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret was changed: %v", now.Annotations)
	}
	if tc.released && (share.RuleOf(now.Annotations) != "" || now.Annotations[share.AnnotationReleasedBy] != "ClusterSecretShare/rule") {
		t.Errorf("the copy was not released: %v", now.Annotations)
	}
}

func (r *fixture) get(o *corev1.Secret) *corev1.Secret {
	r.t.Helper()
	found := &corev1.Secret{}
	r.must(r.Get(r.t.Context(), client.ObjectKeyFromObject(o), found))
	return found
}

// A user changes the copy, or gives its name to another Secret, before the store observes it.
func TestACopyOfAFormerRuleThatChangedUnobservedIsNotDeleted(t *testing.T) {
	r := newSyncedFixture(t)
	r.addNamespace("elsewhere")
	r.change(excludeElsewhere)
	former := r.putFormer("elsewhere", "shared")
	before := r.get(former)
	now := r.get(former)
	now.Annotations = nil
	r.must(r.Update(t.Context(), now))
	r.start(r.secret("source"), r.secret("target"), before)
	r.reconcileRule()
	for range 3 {
		r.sync()
	}
	if !r.exists(former) {
		t.Error("a Secret that is no copy any more was deleted")
	}
	r.observe(now)
	r.converge()
	if !r.exists(former) {
		t.Error("a Secret that is no copy any more was deleted")
	}
}

// The sources cannot be read, so the copy may still be wanted.
func TestCopiesOfAFormerRuleStayWhileTheSourceCannotBeRead(t *testing.T) {
	r := newSyncedFixture(t)
	r.addNamespace("elsewhere")
	r.addNamespace("excluded")
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Targets.Exclude = []v1alpha1.NamespaceGlob{"excluded"} })
	wanted, unwanted := r.putFormer("elsewhere", "shared"), r.putFormer("excluded", "shared")
	r.readError = apierrors.NewServiceUnavailable("")
	r.start(r.secret("target"), r.get(wanted), r.get(unwanted))
	r.converge()
	if !r.exists(wanted) || r.exists(unwanted) {
		t.Errorf("the copy in the target exists: %t; in another namespace: %t", r.exists(wanted), r.exists(unwanted))
	}
	r.readError = nil
	r.converge()
	if now := r.get(wanted); now.Annotations[share.AnnotationRuleUID] != "rule-uid" {
		t.Errorf("the copy has not been replaced: %v", now.Annotations)
	}
}

// The next owner of a namespace's name must not delete Secrets because of copies of the former one.
func TestASecretShareRemovesOnlyCopiesOfItsOwnNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		uid  string
		kept bool
	}{
		"the same namespace":             {"namespace-source", false},
		"a namespace that was recreated": {"namespace-former", true},
		"an unknown namespace":           {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTenantFixture(t)
			grant := newGrant(0)
			r.must(r.Create(t.Context(), grant))
			r.reconcileTenants()
			former := r.putFormer("elsewhere", "shared", func(s *corev1.Secret) { s.Annotations[share.AnnotationNamespaceUID] = tc.uid })
			r.must(r.Delete(t.Context(), grant)) // without a grant, nothing else needs the UID of the namespace
			r.start(r.secret("source"), r.secret("target"), r.get(former))
			r.reconcileTenants()
			r.expectNoCopy()
			if r.exists(former) != tc.kept {
				t.Errorf("the copy of the former rule exists: %t, want %t", r.exists(former), tc.kept)
			}
		})
	}
}

func TestADeletedRuleWaitsForTheCopiesOfItsPredecessor(t *testing.T) {
	r := newSyncedFixture(t)
	r.addNamespace("elsewhere")
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) { excludeElsewhere(s); s.Suspend = true })
	former := r.putFormer("elsewhere", "shared")
	r.start(r.secret("source"), r.secret("target"), r.get(former))
	r.converge()
	rule, err := r.rule()
	r.must(err)
	r.must(r.Delete(t.Context(), rule))
	r.reconcileRule()
	if _, err := r.rule(); err != nil {
		t.Fatalf("the rule is gone before its copies: %v", err)
	}
	r.converge()
	r.expectNoRule()
	if r.exists(former) {
		t.Error("the copy of the former rule still exists")
	}
}

// The operator is killed after it has deleted a copy of the former rule.
func TestAReplacedCopyIsCreatedAfterAKill(t *testing.T) {
	r := newSyncedFixture(t)
	r.must(r.Delete(t.Context(), r.secret("target").DeepCopy()))
	r.must(r.WithWatch.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "shared", Annotations: map[string]string{
			share.AnnotationRuleUID: "former", share.AnnotationSourceUID: "former", share.AnnotationRule: "ClusterSecretShare/rule",
		}}, Type: corev1.SecretTypeOpaque,
	}))
	r.start(r.secret("source"), r.secret("target"))
	r.createError = apierrors.NewServiceUnavailable("the operator is killed")
	r.reconcileRule()
	r.sync()
	r.expectNoCopy()

	r.createError = nil
	r.start(r.secret("source"))
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonReady)
}

// Tenants can write any annotations.
func TestTheOwnersOfCopiesUseMemoryOnlyAsLongAsTheCopiesExist(t *testing.T) {
	r := newSyncedFixture(t)
	s := r.store()
	before := len(s.copies.owners)
	var forged []*corev1.Secret
	for _, rule := range []string{"ClusterSecretShare/rule", "ClusterSecretShare/other", "SecretShare/a/b", "", "ClusterSecretShare/" + strings.Repeat("x", 1<<10)} {
		forged = append(forged, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "forged-" + strings.ToLower(rule[:min(len(rule), 22)]), UID: "forged",
			Annotations: map[string]string{share.AnnotationRuleUID: rule[:min(len(rule), 64)] + "-", share.AnnotationSourceUID: "x", share.AnnotationRule: rule},
		}})
	}
	for _, secret := range forged {
		r.observe(secret)
	}
	if got := len(s.copies.owners); got > before+2 {
		t.Errorf("%d identities, want at most %d", got, before+2)
	}
	for _, secret := range forged {
		s.OnDelete(t.Context(), client.ObjectKeyFromObject(secret))
	}
	if got := len(s.copies.owners); got != before {
		t.Errorf("%d identities are left, want %d", got, before)
	}
}
