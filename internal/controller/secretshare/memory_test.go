package secretshare

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/budget"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// twoRules has the older rule "rule" and the younger "young", which shares another Secret.
// There is memory for one of them only.
func twoRules(t *testing.T) (r *fixture, enqueued map[string]bool) {
	t.Helper()
	r = newFixture(t)
	r.reconciler().budget = budget.New[kube.Key](maxClusterShareMemory, 10<<10)
	enqueued = map[string]bool{}
	r.store().setRuleQueue(v1alpha1.KindClusterSecretShare, func(key kube.Key) { enqueued[key.Name] = true })
	r.putSource("first")
	r.must(r.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "another"}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"key": []byte("x")},
	}))
	r.converge()
	r.addRule("young", shareOf("another"))
	r.sync()
	return r, enqueued
}

func (r *fixture) reasonOf(name string) (reason, message string) {
	r.t.Helper()
	var rule v1alpha1.ClusterSecretShare
	r.must(r.Get(r.t.Context(), client.ObjectKey{Name: name}, &rule))
	c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "", ""
	}
	return c.Reason, c.Message
}

func (r *fixture) hasAnother() bool {
	r.t.Helper()
	err := r.Get(r.t.Context(), client.ObjectKey{Namespace: "target", Name: "another"}, &corev1.Secret{})
	r.must(client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

func TestARuleBeyondTheLimitOfMemoryWaits(t *testing.T) {
	r, enqueued := twoRules(t)
	reason, message := r.reasonOf("young")
	if reason != v1alpha1.ReasonOverBudget || !strings.Contains(message, "select fewer Secrets") || r.hasAnother() {
		t.Errorf("the reason is %s: %s; copied: %t", reason, message, r.hasAnother())
	}
	if after := r.reconcileNamed("young").RequeueAfter; after == 0 || after > retryRefused {
		t.Errorf("the next attempt is after %s", after)
	}
	r.expectCopy("first")
	r.putSource("second")
	r.converge()
	r.expectCopy("second")
	r.expectReady(v1alpha1.ReasonReady)

	clear(enqueued)
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = true })
	r.reconcileRule()
	if !enqueued["young"] {
		t.Fatal("the younger rule is not enqueued")
	}
	r.reconcileNamed("young")
	r.sync()
	r.reconcileNamed("young")
	if reason, message := r.reasonOf("young"); reason != v1alpha1.ReasonReady || !r.hasAnother() {
		t.Errorf("the reason is %s: %s", reason, message)
	}

	// The older rule comes first again. The copy of the younger one stays.
	r.change(func(spec *v1alpha1.ClusterSecretShareSpec) { spec.Suspend = false })
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
	r.reconcileNamed("young")
	r.sync()
	if reason, _ := r.reasonOf("young"); reason != v1alpha1.ReasonOverBudget || !r.hasAnother() {
		t.Errorf("the reason is %s; the copy exists: %t", reason, r.hasAnother())
	}
	var young v1alpha1.ClusterSecretShare
	r.must(r.Get(t.Context(), client.ObjectKey{Name: "young"}, &young))
	r.must(r.Delete(t.Context(), &young))
	for range 2 {
		r.reconcileNamed("young")
		r.sync()
	}
	r.reconcileNamed("young")
	if err := r.Get(t.Context(), client.ObjectKey{Name: "young"}, &young); !apierrors.IsNotFound(err) || r.hasAnother() {
		t.Errorf("the deleted rule: %v; the copy exists: %t", err, r.hasAnother())
	}
}

// The API server cannot be read for a moment. The limits do not change by that.
func TestAFailedReadDoesNotChangeWhichRulesAreWithinTheLimit(t *testing.T) {
	r, _ := twoRules(t)
	r.readError = apierrors.NewServiceUnavailable("starting")
	r.putSourceUnread()
	for _, name := range []string{"young", "rule"} {
		r.reconcileNamed(name)
	}
	if reason, _ := r.reasonOf("young"); reason != v1alpha1.ReasonOverBudget {
		t.Errorf("the reason is %s", reason)
	}
	r.expectReady(v1alpha1.ReasonSourceUnreadable)
}

// putSourceUnread lets the store observe a new version of the source.
func (r *fixture) putSourceUnread() {
	r.observe(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "shared", UID: "new", ResourceVersion: "new"}})
}

func TestARuleStopsReadingAtTheLimitOfSources(t *testing.T) {
	r := newFixture(t)
	for i := range maxSources(v1alpha1.KindSecretShare) + 50 {
		r.must(r.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: fmt.Sprint("secret-", i)}}))
	}
	for _, reconciler := range r.controllers.rules {
		if reconciler.kind != v1alpha1.KindSecretShare {
			continue
		}
		key := types.NamespacedName{Namespace: "source", Name: "all"}
		r.must(r.Create(t.Context(), &v1alpha1.SecretShare{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{Finalizer}},
			Spec:       v1alpha1.SecretShareSpec{SecretCopySpec: v1alpha1.SecretCopySpec{Targets: v1alpha1.SecretTargets{Names: []v1alpha1.NamespaceGlob{"target"}}}},
		}))
		object := &v1alpha1.SecretShare{}
		r.must(r.Get(t.Context(), key, object))
		got, err := reconciler.updatePlan(t.Context(), kube.Key{Kind: reconciler.kind, Namespace: key.Namespace, Name: key.Name}, object)
		r.must(err)
		if got.Reason != v1alpha1.ReasonOverBudget {
			t.Errorf("the reason is %s: %s", got.Reason, got.Message)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fullStore returns a store after the copies of a plan were written and observed.
func fullStore(secrets, targets int) (*store, *plan) {
	s := newStore()
	s.copies.listed = true
	rule, _ := share.Compile(share.Definition{UID: "rule", Name: "SecretShare/source/rule", Namespace: "source"})
	p := &plan{key: kube.Key{Kind: v1alpha1.KindSecretShare, Namespace: "source", Name: "rule"}, Plan: share.Plan{Rule: rule}}
	p.Wanted, p.Versions, p.Targets = map[string]share.Wanted{}, map[string]string{}, map[string]share.Target{}
	for i := range secrets {
		version := share.VersionOf(uuid.NewUUID(), fmt.Sprint(1_000_000+i))
		name := fmt.Sprint("a-secret-with-a-long-name-", i)
		p.Versions[name] = version
		p.Wanted[name] = share.Wanted{Content: fmt.Sprint(uuid.NewUUID(), 1, version), SourceUID: uuid.NewUUID()}
	}
	for i := range targets {
		p.Targets[fmt.Sprint("a-namespace-with-a-long-name-", i)] = share.Target{UID: uuid.NewUUID()}
	}
	s.setPlan(p)
	for namespace := range p.Targets {
		for name, want := range p.Wanted {
			key := types.NamespacedName{Namespace: strings.Clone(namespace), Name: strings.Clone(name)}
			s.recordWrite(key, copyState{
				Copied: share.Copied{Rule: "rule", Source: "source/" + name, SourceUID: types.UID(strings.Clone(string(want.SourceUID)))},
				uid:    uuid.NewUUID(), version: fmt.Sprint(len(s.copies.byName)), content: want.Content,
			})
		}
		s.endSync(workItem{p.key, namespace}, p, syncResult{synced: secrets, done: true})
	}
	return s, p
}

func TestTheSizeOfAPlanIsAtLeastItsMemory(t *testing.T) {
	for _, tc := range []struct{ secrets, targets int }{{1, 2000}, {2000, 1}, {100, 100}, {16, 500}} {
		before := heap()
		s, p := fullStore(tc.secrets, tc.targets)
		held := heap() - before
		if size := p.Size(); size < held || size > 4*held {
			t.Errorf("%+v: the size is %d, and %d bytes are held", tc, size, held)
		}
		runtime.KeepAlive(s)
	}
}
