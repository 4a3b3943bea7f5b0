package secretshare

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

type (
	ruleSource = v1alpha1.ClusterSecretSource
	ruleSpec   = v1alpha1.SecretCopySpec
)

// fault is a state in which the sources cannot be copied.
type fault struct {
	reason        string
	begin, repair func(*simulation)
}

var faults = map[string]fault{
	"a key is missing": {v1alpha1.ReasonKeyNotFound, (*simulation).dropKey, (*simulation).rotate},
	"the sources are unreadable": {
		v1alpha1.ReasonSourceUnreadable,
		func(s *simulation) { s.Unreadable = true; s.rotate() },
		func(s *simulation) { s.Unreadable = false },
	},
	"the selector of the sources is wrong": {
		v1alpha1.ReasonInvalidSelector,
		func(s *simulation) {
			s.rotate()
			s.edit(func(source *ruleSource, _ *ruleSpec) { source.Selector = wrongSelector })
		},
		func(s *simulation) { s.edit(func(source *ruleSource, _ *ruleSpec) { source.Selector = nil }) },
	},
	"the selector of the targets is wrong": {
		v1alpha1.ReasonInvalidSelector,
		func(s *simulation) {
			s.rotate()
			s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.NamespaceSelector = wrongSelector })
		},
		func(s *simulation) {
			s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.NamespaceSelector = s.anyTarget() })
		},
	},
	"the rule targets its own namespace": {
		v1alpha1.ReasonInvalidTarget,
		func(s *simulation) {
			s.rotate()
			s.edit(func(_ *ruleSource, spec *ruleSpec) {
				spec.Targets.Names = []v1alpha1.NamespaceGlob{"one", "two", "three", "source"}
			})
		},
		func(s *simulation) {
			s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.Names = without(spec.Targets.Names, "source") })
		},
	},
}

// withdrawal ends the demand for the copies in namespace "one".
type withdrawal struct {
	happen func(*simulation)
	// all means that it ends the demand for the copies everywhere.
	all bool
	// not are the faults with which it does not end the demand, or not for sure.
	not map[string]bool
}

var withdrawals = map[string]withdrawal{
	"the namespace is excluded": {happen: func(s *simulation) {
		s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.Exclude = []v1alpha1.NamespaceGlob{"one"} })
	}},
	"the names are narrowed": {happen: func(s *simulation) {
		s.edit(func(_ *ruleSource, spec *ruleSpec) {
			if spec.Targets.Names == nil {
				spec.Targets.Names = []v1alpha1.NamespaceGlob{"one", "two", "three"}
			}
			spec.Targets.Names = without(spec.Targets.Names, "one")
		})
	}},
	"the selector is narrowed": {
		happen: func(s *simulation) {
			s.must(s.labelTarget(s.t.Context(), "two"))
			s.must(s.labelTarget(s.t.Context(), "three"))
			s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.NamespaceSelector = s.labelledTarget() })
		},
		not: map[string]bool{"the selector of the targets is wrong": true},
	},
	"the namespace loses its label": {
		happen: func(s *simulation) {
			one := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			s.must(s.store.Patch(s.t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
		},
		not: map[string]bool{"the selector of the targets is wrong": true},
	},
	"the grant is deleted": {happen: func(s *simulation) { s.must(s.store.Delete(s.t.Context(), s.newGrant("one"))) }},
	"the grant is narrowed": {happen: func(s *simulation) {
		grant := s.newGrant("one")
		_, err := s.find(s.t.Context(), grant)
		s.must(err)
		grant.Spec.To = []v1alpha1.SecretShareGrantTo{{Name: "another"}}
		s.must(s.store.Update(s.t.Context(), grant))
	}},
	"the rule is deleted": {all: true, happen: func(s *simulation) { s.must(s.store.Delete(s.t.Context(), s.newRule())) }},
	"the rule is suspended and deleted": {all: true, happen: func(s *simulation) {
		s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Suspend = true })
		s.settle()
		s.must(s.store.Delete(s.t.Context(), s.newRule()))
	}},
	"the rule no longer names the sources": {all: true, happen: func(s *simulation) {
		s.edit(func(source *ruleSource, _ *ruleSpec) { source.Names = []string{"another"} })
	}},
	"the sources are deleted": {
		all: true,
		happen: func(s *simulation) {
			for _, name := range secretNames {
				s.must(s.store.Delete(s.t.Context(), sourceNamed(name)))
			}
		},
		not: cannotRead,
	},
	"the sources are created again": {
		all: true,
		happen: func(s *simulation) {
			for _, name := range secretNames {
				var secret corev1.Secret
				key := types.NamespacedName{Namespace: "source", Name: name}
				s.must(s.store.Get(s.t.Context(), key, &secret))
				s.must(s.store.Delete(s.t.Context(), sourceNamed(name)))
				secret.ResourceVersion = ""
				s.must(s.store.Create(s.t.Context(), &secret))
			}
		},
		not: cannotRead,
	},
	"the sources become copies": {
		all: true,
		happen: func(s *simulation) {
			s.editSources(func(secret *corev1.Secret) {
				secret.Annotations = map[string]string{share.AnnotationRuleUID: "another", share.AnnotationSourceUID: "another"}
			})
		},
		not: cannotRead,
	},
}

// cannotRead are the faults with which the operator does not know the sources.
var cannotRead = map[string]bool{"the sources are unreadable": true, "the selector of the sources is wrong": true}

func TestACopyThatIsNoLongerWantedIsRemovedWhateverStateItsSourceIsIn(t *testing.T) {
	for faultName, f := range faults {
		for withdrawalName, w := range withdrawals {
			if w.not[faultName] {
				continue
			}
			for name, restart := range map[string]bool{"": false, ", then the operator restarts": true} {
				t.Run(faultName+", "+withdrawalName+name, func(t *testing.T) { testWithdrawal(t, f, w, restart) })
			}
		}
	}
}

func testWithdrawal(t *testing.T, f fault, w withdrawal, restart bool) {
	t.Helper()
	s := newSimulation(t, v1alpha1.KindSecretShare, 0)
	s.prepare()
	first := s.contents("two")
	f.begin(s)
	s.settle()
	s.expectReason(f.reason)
	s.expect("one", first)
	w.happen(s)
	if restart {
		s.start()
	}
	s.settle()
	s.expect("one", nil)
	if w.all {
		s.expect("two", nil)
		return
	}
	s.expect("two", first)
	f.repair(s)
	s.settle()
	s.expect("one", nil)
	if now := s.contents("two"); now[0] == first[0] {
		t.Errorf("the copy in namespace two does not follow its source: %v", now)
	}
}

// A copy is created only while its source can be copied.
func TestANewTargetGetsNoCopyWhileTheSourceCannotBeCopied(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, v1alpha1.KindSecretShare, 0)
			s.prepare()
			s.must(s.store.Delete(t.Context(), s.newGrant("one")))
			s.settle()
			f.begin(s)
			s.settle()
			s.must(s.store.Create(t.Context(), s.newGrant("one")))
			s.settle()
			s.expect("one", nil)
			f.repair(s)
			s.settle()
			s.expect("one", s.contents("two"))
		})
	}
}

func (s *simulation) edit(change func(*ruleSource, *ruleSpec)) {
	s.t.Helper()
	s.must(s.changeRule(s.t.Context(), change))
	s.must(s.Observe(s.t.Context()))
}

func (s *simulation) editSources(change func(*corev1.Secret)) {
	s.t.Helper()
	for _, name := range secretNames {
		s.must(s.update(s.t.Context(), sourceNamed(name), change))
	}
	s.must(s.Observe(s.t.Context()))
}

func (s *simulation) rotate() {
	s.editSources(func(secret *corev1.Secret) { secret.Data = s.newData(true) })
}

func (s *simulation) dropKey() {
	s.editSources(func(secret *corev1.Secret) { secret.Data = s.newData(false) })
}

func sourceNamed(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: name}}
}

func without(names []v1alpha1.NamespaceGlob, name v1alpha1.NamespaceGlob) []v1alpha1.NamespaceGlob {
	return slices.DeleteFunc(names, func(n v1alpha1.NamespaceGlob) bool { return n == name })
}

// contents returns the data of the copies in a namespace, nil if there are none.
func (s *simulation) contents(namespace string) []string {
	s.t.Helper()
	var found []string
	for _, name := range secretNames {
		o, err := s.occupant(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: name})
		s.must(err)
		if o.exists {
			found = append(found, o.data)
		}
	}
	return found
}

func (s *simulation) expect(namespace string, contents []string) {
	s.t.Helper()
	if got := s.contents(namespace); !slices.Equal(got, contents) {
		s.t.Errorf("namespace %s has %v, want %v", namespace, got, contents)
	}
}

func (s *simulation) expectReason(reason string) {
	s.t.Helper()
	rule := s.newRule()
	_, err := s.find(s.t.Context(), rule)
	s.must(err)
	if ready := meta.FindStatusCondition(rule.ShareStatus().Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != reason {
		s.t.Errorf("Ready is %v, want %s", ready, reason)
	}
}

// The selector stays wrong until the rule is gone.
func TestARuleWithAWrongSelectorIsDeletedWhileItsSourcesChange(t *testing.T) {
	s := newSimulation(t, v1alpha1.KindSecretShare, 0)
	s.prepare()
	s.edit(func(source *ruleSource, _ *ruleSpec) { source.Selector = wrongSelector })
	s.settle()
	s.must(s.store.Delete(t.Context(), s.newRule()))
	s.reconcileRule()
	s.rotate()
	s.settle()
	s.expect("one", nil)
}

// A plan that is replaced has no attempts to count.
func TestAWriteThatFailsAfterItsRuleIsSuspendedIsNotRetried(t *testing.T) {
	s := newSimulation(t, v1alpha1.KindSecretShare, 0)
	s.prepare()
	item := Item{kube.Key{Kind: s.Kind, Namespace: "source", Name: s.Rule}, "one"}
	p, ok := s.controllers.book.begin(item)
	if !ok {
		t.Fatal("there is no plan")
	}
	s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Suspend = true })
	s.settle()
	w := &work{result: result{failed: 1}}
	if delay := w.again(s.controllers.book.settle(item, p, w.result)); delay != 0 {
		t.Errorf("it is retried after %s", delay)
	}
}
