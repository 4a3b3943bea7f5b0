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
	"the selector of the sources is invalid": {
		v1alpha1.ReasonInvalidSelector,
		func(s *simulation) {
			s.rotate()
			s.edit(func(source *ruleSource, _ *ruleSpec) { source.Selector = invalidSelector })
		},
		func(s *simulation) { s.edit(func(source *ruleSource, _ *ruleSpec) { source.Selector = nil }) },
	},
	"the selector of the targets is invalid": {
		v1alpha1.ReasonInvalidSelector,
		func(s *simulation) {
			s.rotate()
			s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.NamespaceSelector = invalidSelector })
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

// removal ends the demand for the copies in namespace "one".
type removal struct {
	change func(*simulation)
	// all means that it ends the demand for the copies in all namespaces.
	all bool
	// not are the faults that prevent it, or make it uncertain.
	not map[string]bool
}

var removals = map[string]removal{
	"the namespace is excluded": {change: func(s *simulation) {
		s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.Exclude = []v1alpha1.NamespaceGlob{"one"} })
	}},
	"the names are narrowed": {change: func(s *simulation) {
		s.edit(func(_ *ruleSource, spec *ruleSpec) {
			if spec.Targets.Names == nil {
				spec.Targets.Names = []v1alpha1.NamespaceGlob{"one", "two", "three"}
			}
			spec.Targets.Names = without(spec.Targets.Names, "one")
		})
	}},
	"the selector is narrowed": {
		change: func(s *simulation) {
			s.must(s.labelTarget(s.t.Context(), "two"))
			s.must(s.labelTarget(s.t.Context(), "three"))
			s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Targets.NamespaceSelector = s.labelledTarget() })
		},
		not: map[string]bool{"the selector of the targets is invalid": true},
	},
	"the namespace loses its label": {
		change: func(s *simulation) {
			one := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			s.must(s.server.Patch(s.t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
		},
		not: map[string]bool{"the selector of the targets is invalid": true},
	},
	"the grant is deleted": {change: func(s *simulation) { s.must(s.server.Delete(s.t.Context(), s.newGrant("one"))) }},
	"the grant is narrowed": {change: func(s *simulation) {
		grant := s.newGrant("one")
		_, err := s.find(s.t.Context(), grant)
		s.must(err)
		grant.Spec.To = []v1alpha1.SecretShareGrantTo{{Name: "another"}}
		s.must(s.server.Update(s.t.Context(), grant))
	}},
	"the rule is deleted": {all: true, change: func(s *simulation) { s.must(s.server.Delete(s.t.Context(), s.newRule())) }},
	"the rule is suspended and deleted": {all: true, change: func(s *simulation) {
		s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Suspend = true })
		s.converge()
		s.must(s.server.Delete(s.t.Context(), s.newRule()))
	}},
	"the rule no longer names the sources": {all: true, change: func(s *simulation) {
		s.edit(func(source *ruleSource, _ *ruleSpec) { source.Names = []string{"another"} })
	}},
	"the sources are deleted": {
		all: true,
		change: func(s *simulation) {
			for _, name := range secretNames {
				s.must(s.server.Delete(s.t.Context(), sourceNamed(name)))
			}
		},
		not: cannotRead,
	},
	"the sources are created again": {
		all: true,
		change: func(s *simulation) {
			for _, name := range secretNames {
				var secret corev1.Secret
				key := types.NamespacedName{Namespace: "source", Name: name}
				s.must(s.server.Get(s.t.Context(), key, &secret))
				s.must(s.server.Delete(s.t.Context(), sourceNamed(name)))
				secret.ResourceVersion = ""
				s.must(s.server.Create(s.t.Context(), &secret))
			}
		},
		not: cannotRead,
	},
	"the sources become copies": {
		all: true,
		change: func(s *simulation) {
			s.editSources(func(secret *corev1.Secret) {
				secret.Annotations = map[string]string{share.AnnotationRuleUID: "another", share.AnnotationSourceUID: "another"}
			})
		},
		not: cannotRead,
	},
}

// cannotRead are the faults that hide the sources from the operator.
var cannotRead = map[string]bool{"the sources are unreadable": true, "the selector of the sources is invalid": true}

func TestAnUnwantedCopyIsRemovedWhateverStateItsSourceIsIn(t *testing.T) {
	for faultName, f := range faults {
		for removalName, r := range removals {
			if r.not[faultName] {
				continue
			}
			for name, restart := range map[string]bool{"": false, ", then the operator restarts": true} {
				t.Run(faultName+", "+removalName+name, func(t *testing.T) { testRemoval(t, f, r, restart) })
			}
		}
	}
}

func testRemoval(t *testing.T, f fault, r removal, restart bool) {
	t.Helper()
	s := newSimulation(t, v1alpha1.KindSecretShare, 0)
	s.prepare()
	first := s.contents("two")
	f.begin(s)
	s.converge()
	s.expectReason(f.reason)
	s.expect("one", first)
	r.change(s)
	if restart {
		s.start()
	}
	s.converge()
	s.expect("one", nil)
	if r.all {
		s.expect("two", nil)
		return
	}
	s.expect("two", first)
	f.repair(s)
	s.converge()
	s.expect("one", nil)
	if now := s.contents("two"); now[0] == first[0] {
		t.Errorf("the copy in namespace two does not follow its source: %v", now)
	}
}

func TestANewTargetGetsNoCopyWhileTheSourceCannotBeCopied(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, v1alpha1.KindSecretShare, 0)
			s.prepare()
			s.must(s.server.Delete(t.Context(), s.newGrant("one")))
			s.converge()
			f.begin(s)
			s.converge()
			s.must(s.server.Create(t.Context(), s.newGrant("one")))
			s.converge()
			s.expect("one", nil)
			f.repair(s)
			s.converge()
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

// The selector stays invalid until the rule is deleted.
func TestARuleWithAnInvalidSelectorIsDeletedWhileItsSourcesChange(t *testing.T) {
	s := newSimulation(t, v1alpha1.KindSecretShare, 0)
	s.prepare()
	s.edit(func(source *ruleSource, _ *ruleSpec) { source.Selector = invalidSelector })
	s.converge()
	s.must(s.server.Delete(t.Context(), s.newRule()))
	s.reconcileRule()
	s.rotate()
	s.converge()
	s.expect("one", nil)
}

// A plan that was replaced has no attempts.
func TestAWriteThatFailsAfterItsRuleIsSuspendedIsNotRetried(t *testing.T) {
	s := newSimulation(t, v1alpha1.KindSecretShare, 0)
	s.prepare()
	item := workItem{kube.Key{Kind: s.Kind, Namespace: "source", Name: s.Rule}, "one"}
	p, ok := s.controllers.store.beginSync(item)
	if !ok {
		t.Fatal("there is no plan")
	}
	s.edit(func(_ *ruleSource, spec *ruleSpec) { spec.Suspend = true })
	s.converge()
	sync := &namespaceSync{result: syncResult{failed: 1}}
	if delay := sync.requeueAfter(s.controllers.store.endSync(item, p, sync.result)); delay != 0 {
		t.Errorf("the write is retried after %s", delay)
	}
}
