package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
)

const (
	fanOut = 1000
	// foreigners is the number of namespaces that already contain a Secret of the same name.
	foreigners = 20
	// shared is the name of the Secret, rule the name of its rule.
	shared = "shared"
	rule   = "fan-out"
	// half labels every other namespace.
	half = "half"
	// idle is the time without writes after which no more are expected.
	idle = 15 * time.Second
)

// share is a Secret with copies in 1,000 namespaces. Some of them contain another Secret of
// that name.
type share struct {
	*fixture
	source string
	// all are the namespaces, foreign the metadata of the other Secrets.
	all     []string
	foreign map[string]metav1.ObjectMeta
	// writes counts the changes of Secrets of that name.
	writes atomic.Int64
	value  int
	// writesAtKill contains, for each kill, the writes between the change and the kill.
	writesAtKill []int64
	// idle counts the kills that came when all writes were done.
	idle int
}

func newShare(t *testing.T) *share {
	t.Helper()
	c := cluster.Start(t)
	s := &share{fixture: &fixture{Cluster: c, t: t}, source: c.Namespace(t, nil), foreign: map[string]metav1.ObjectMeta{}}
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: shared}, Data: map[string][]byte{"value": []byte("0")},
	})
	var mu sync.Mutex
	var writers errgroup.Group
	writers.SetLimit(8)
	for i := range fanOut {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("fan-%03d", i), Labels: map[string]string{rule: "", half: fmt.Sprint(i % 2)},
		}}
		s.all = append(s.all, ns.Name)
		writers.Go(func() error {
			if err := c.Client.Create(t.Context(), ns); err != nil || i%(fanOut/foreigners) != 0 {
				return err
			}
			foreign := foreignSecret(ns.Name, i)
			err := c.Client.Create(t.Context(), foreign)
			mu.Lock()
			defer mu.Unlock()
			s.foreign[ns.Name] = foreign.ObjectMeta
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	s.count()
	return s
}

// foreignSecret returns a Secret that the operator must not change. Every other one has the
// metadata of a copy of an unknown rule, or half of it.
func foreignSecret(namespace string, i int) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: shared}, Data: map[string][]byte{"value": []byte("foreign")},
	}
	if i%4 == 0 {
		secret.Labels = map[string]string{"bongsu.io/rule-uid": "unknown-rule"}
		secret.Annotations = map[string]string{"bongsu.io/rule-uid": "unknown-rule"}
	}
	if i%8 == 0 {
		secret.Annotations["bongsu.io/source-uid"] = "unknown-rule"
	}
	return secret
}

// count counts writes from now on.
func (s *share) count() {
	s.t.Helper()
	watch, err := cache.New(s.RESTConfig(), cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", shared)})
	if err != nil {
		s.t.Fatal(err)
	}
	secrets := &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	informer, err := watch.GetInformer(s.t.Context(), secrets, cache.BlockUntilSynced(false))
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.writes.Add(1) },
		UpdateFunc: func(any, any) { s.writes.Add(1) },
		DeleteFunc: func(any) { s.writes.Add(1) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error)
	go func() { ended <- watch.Start(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	watch.WaitForCacheSync(ctx)
}

// killDuring makes a change, kills the manager when it has done some of the work, and starts it
// again.
func (s *share) killDuring(m *manager, change func()) {
	s.t.Helper()
	before := s.writes.Load()
	change()
	if !s.awaitWrites(before + rand.Int64N(fanOut*8/10)) {
		s.idle++
	}
	m.kill()
	s.writesAtKill = append(s.writesAtKill, s.writes.Load()-before)
	m.start()
}

// awaitWrites waits until there are more writes than this. It returns false if there are none
// for a while: the change may need fewer, and a watch that is interrupted may miss some. The
// first write is that of the source. The wait for the second one is longer, because the manager
// may be starting.
func (s *share) awaitWrites(more int64) bool {
	s.t.Helper()
	first, since := s.writes.Load(), time.Now()
	for last, limit := first, patience; last <= more; time.Sleep(2 * time.Millisecond) {
		switch now := s.writes.Load(); {
		case now != last:
			last, since = now, time.Now()
			if last > first+1 {
				limit = idle
			}
		case time.Since(since) > limit:
			return false
		}
	}
	return true
}

func (s *share) change() {
	s.t.Helper()
	s.value++
	s.patch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.source, Name: shared}},
		fmt.Sprintf(`{"stringData":{"value":"%d"}}`, s.value))
}

// narrow limits the rule to one half of the namespaces, or removes this limit if to is "".
func (s *share) narrow(to string) {
	s.t.Helper()
	value := `"` + to + `"`
	if to == "" {
		value = "null"
	}
	s.patch(&v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: rule}},
		`{"spec":{"targets":{"namespaceSelector":{"matchLabels":{"`+half+`":`+value+`}}}}}`)
}

func (s *share) patch(o client.Object, patch string) {
	s.t.Helper()
	if err := s.Client.Patch(s.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *share) createRule() {
	s.t.Helper()
	err := s.Client.Create(s.t.Context(), &v1alpha1.ClusterSecretShare{
		ObjectMeta: metav1.ObjectMeta{Name: rule},
		Spec: v1alpha1.ClusterSecretShareSpec{
			Source: v1alpha1.ClusterSecretSource{Namespace: s.source, SecretSource: v1alpha1.SecretSource{Names: []string{shared}}},
			SecretCopySpec: v1alpha1.SecretCopySpec{Targets: v1alpha1.SecretTargets{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{rule: ""}},
			}},
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *share) deleteRule() {
	s.t.Helper()
	if err := s.Client.Delete(s.t.Context(), &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: rule}}); err != nil {
		s.t.Fatal(err)
	}
}

// problems returns the namespaces whose copy is missing, outdated or unexpected, if these
// namespaces should have one. It fails if a foreign Secret has changed.
func (s *share) problems(namespaces ...string) []string {
	s.t.Helper()
	var all corev1.SecretList
	if err := s.Client.List(s.t.Context(), &all, client.MatchingFields{"metadata.name": shared}); err != nil {
		s.t.Fatal(err)
	}
	existing := map[string]*corev1.Secret{}
	for i := range all.Items {
		existing[all.Items[i].Namespace] = &all.Items[i]
	}
	var found []string
	for _, namespace := range s.all {
		now, exists := existing[namespace]
		before, isForeign := s.foreign[namespace]
		switch {
		case isForeign:
			if !exists || now.UID != before.UID || now.ResourceVersion != before.ResourceVersion {
				s.t.Fatalf("the foreign Secret in %s changed: got %v, want resourceVersion %s", namespace, now, before.ResourceVersion)
			}
		case exists != slices.Contains(namespaces, namespace),
			exists && string(now.Data["value"]) != fmt.Sprint(s.value):
			found = append(found, namespace)
		}
	}
	return found
}

// expect waits until exactly these namespaces have the current copy.
func (s *share) expect(namespaces ...string) {
	s.t.Helper()
	if err := progress.UntilNoneIsLeft(patience, func() int { return len(s.problems(namespaces...)) }); err != nil {
		s.t.Fatalf("the copies do not converge: %v; missing, outdated or unexpected in %q", err, head(s.problems(namespaces...)))
	}
}

// expectStatus waits until the status has these counts.
func (s *share) expectStatus(desired, conflicted int32) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (v1alpha1.SecretShareStatus, error) {
		var o v1alpha1.ClusterSecretShare
		err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: rule}, &o)
		return o.Status, err
	}).WithTimeout(patience).Should(gomega.And(
		gomega.HaveField("Desired", desired), gomega.HaveField("Synced", desired-conflicted),
		gomega.HaveField("Conflicted", conflicted), gomega.HaveField("Failed", int32(0)),
		gomega.HaveField("Failing", gomega.HaveLen(int(min(conflicted, 20)))),
	))
}

// expectRuleGone waits until the rule is deleted. It fails if the rule is deleted before its
// copies.
func (s *share) expectRuleGone() {
	s.t.Helper()
	left := func() int {
		var copies corev1.SecretList
		selector, err := labels.Parse("bongsu.io/rule-uid,bongsu.io/rule-uid!=unknown-rule")
		if err != nil {
			s.t.Fatal(err)
		}
		if err := s.Client.List(s.t.Context(), &copies, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			s.t.Fatal(err)
		}
		err = s.Client.Get(s.t.Context(), client.ObjectKey{Name: rule}, &v1alpha1.ClusterSecretShare{})
		if apierrors.IsNotFound(err) {
			return 0
		}
		return len(copies.Items) + 1
	}
	if err := progress.UntilNoneIsLeft(patience, left); err != nil {
		s.t.Fatalf("the rule is not deleted: %v", err)
	}
	if orphans := s.problems(); len(orphans) > 0 {
		s.t.Fatalf("the rule is deleted and copies remain in %d namespaces, want none: %q", len(orphans), head(orphans))
	}
}

// ofHalf returns every other namespace.
func (s *share) ofHalf(n int) []string {
	var namespaces []string
	for i, name := range s.all {
		if i%2 == n {
			namespaces = append(namespaces, name)
		}
	}
	return namespaces
}

func TestKillsDuringAFanOutLeaveNoOrphanAndChangeNoForeignSecret(t *testing.T) {
	t.Parallel()
	s := newShare(t)
	m := newManager(s.fixture)
	m.startReady()

	s.killDuring(m, s.createRule)
	for range 3 {
		s.killDuring(m, s.change)
	}
	s.expect(s.all...)
	s.expectStatus(fanOut, foreigners)

	s.killDuring(m, func() { s.narrow("0"); s.change() })
	s.expect(s.ofHalf(0)...)
	s.expectStatus(fanOut/2, foreigners)
	s.killDuring(m, func() { s.narrow("1"); s.change() })
	s.expect(s.ofHalf(1)...)
	s.expectStatus(fanOut/2, 0)
	s.killDuring(m, func() { s.narrow(""); s.change() })
	s.expect(s.all...)

	s.killDuring(m, s.deleteRule)
	s.expectRuleGone()
	// Delete the rule while copies are created, and while they are updated.
	s.createRule()
	s.killDuring(m, s.deleteDuring)
	s.expectRuleGone()
	s.createRule()
	s.expect(s.all...)
	s.killDuring(m, func() { s.change(); s.deleteDuring() })
	s.expectRuleGone()
	if s.idle > len(m.killed)/2 {
		t.Fatalf("%d of %d kills came when nothing was written: the kills were not tested", s.idle, len(m.killed))
	}
	s.t.Attr("summary", fmt.Sprintf("%d namespaces, %d of them with a foreign Secret; %d kills, after %s writes; no orphan, no foreign Secret changed",
		fanOut, foreigners, len(m.killed), strings.Trim(fmt.Sprint(s.writesAtKill), "[]")))
}

// The former leader has copies left to create when it resumes. The rule is gone since.
func TestALeaderThatWasPausedLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	s := newShare(t)
	leader := newManager(s.fixture, "--leader-elect", logElection)
	leader.startReady()
	standby := newReplica(s.fixture, "--leader-elect", logElection)
	standbySeesLease := standby.logsAgain(leaseIsHeld)
	standby.start()
	g := gomega.NewWithT(t)
	g.Eventually(standbySeesLease).WithTimeout(patience).Should(gomega.BeTrue(), "the standby has seen the lease of the leader")
	s.createRule()
	s.awaitWrites(s.writes.Load() + fanOut/4)
	g.Expect(leader.process.Signal(syscall.SIGSTOP)).To(gomega.Succeed())
	copied := fanOut - len(s.problems(s.all...))
	s.expect(s.all...)
	s.deleteRule()
	s.expectRuleGone()
	g.Expect(leader.process.Signal(syscall.SIGCONT)).To(gomega.Succeed())
	g.Eventually(leader.process.Alive).WithTimeout(patience).Should(gomega.BeFalse(), "the former leader ends")
	leader.end()
	// A request can have been in flight at the pause. The present leader removes its copy.
	g.Eventually(func() []string { return head(s.problems()) }).WithTimeout(patience).Should(gomega.BeEmpty(), "orphans")
	if copied > fanOut*9/10 {
		t.Errorf("%d copies at the pause: it was not tested", copied)
	}
}

// deleteDuring deletes the rule after some more writes.
func (s *share) deleteDuring() {
	s.t.Helper()
	s.awaitWrites(s.writes.Load() + rand.Int64N(fanOut/4))
	s.deleteRule()
}
