package secretshare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// announced returns the Events about removed copies on all rules, in order of their notes.
func (r *fixture) announced() []string {
	r.t.Helper()
	var list eventsv1.EventList
	r.must(r.List(r.t.Context(), &list))
	var notes []string
	for _, e := range list.Items {
		if e.Reason == v1alpha1.ReasonRemovingCopies {
			notes = append(notes, e.Note)
		}
	}
	slices.Sort(notes)
	return notes
}

func (r *fixture) expectAnnounced(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.announced()); diff != "" {
		r.t.Error(diff)
	}
}

// newWideFixture has copies in 30 namespaces: target and more-00 to more-28.
func newWideFixture(t *testing.T, spec ...func(*v1alpha1.ClusterSecretShareSpec)) *fixture {
	t.Helper()
	r := newSyncedFixture(t)
	for i := range 29 {
		r.addNamespace(fmt.Sprintf("more-%02d", i))
	}
	for _, change := range spec {
		r.change(change)
	}
	r.converge()
	r.expectAnnounced()
	return r
}

func TestRemovedCopiesAreAnnouncedByOneEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   []func(*v1alpha1.ClusterSecretShareSpec)
		remove func(*fixture)
		want   []string
	}{
		"the namespaces are excluded": {
			remove: func(r *fixture) {
				r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Targets.Exclude = []v1alpha1.NamespaceGlob{"more-*"} })
			},
			want: []string{"Deleting 29 copies: spec.targets does not select their namespaces"},
		},
		"a single copy": {
			remove: (*fixture).exclude,
			want:   []string{"Deleting 1 copy: spec.targets does not select their namespaces"},
		},
		"the rule is deleted": {
			remove: (*fixture).deleteRule,
			want:   []string{"Deleting 30 copies: the rule is deleted"},
		},
		"a rule that retains is deleted": {
			spec:   []func(*v1alpha1.ClusterSecretShareSpec){func(s *v1alpha1.ClusterSecretShareSpec) { s.DeletionPolicy = v1alpha1.DeletionPolicyRetain }},
			remove: (*fixture).deleteRule,
			want:   []string{"Releasing 30 copies: the rule is deleted"},
		},
		"the Secret is no longer selected": {
			remove: func(r *fixture) {
				r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Source.Names = []string{"another"} })
			},
			want: []string{"Deleting 30 copies: spec.source does not select Secret shared"},
		},
		"the copies get another name": {
			remove: func(r *fixture) {
				r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.CopyName = &v1alpha1.SecretCopyName{Prefix: "our-"} })
			},
			want: []string{"Deleting 30 copies: the rule does not copy Secret shared under these names"},
		},
		"the source is deleted": {
			remove: (*fixture).deleteSource,
			want:   []string{"Deleting 30 copies: Secret shared does not exist, or spec.source does not select it"},
		},
		"two causes": {
			remove: func(r *fixture) {
				r.deleteSource()
				r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Targets.Exclude = []v1alpha1.NamespaceGlob{"more-0*"} })
			},
			want: []string{"Deleting 30 copies: 20 because Secret shared does not exist, or spec.source does not select it; " +
				"10 because spec.targets does not select their namespaces"},
		},
		"nothing is removed": {
			remove: func(r *fixture) { r.putSource("second") },
		},
		"the namespaces are deleted": {
			remove: func(r *fixture) {
				for i := range 29 {
					ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("more-%02d", i)}}
					r.must(r.Get(r.t.Context(), client.ObjectKeyFromObject(ns), ns))
					ns.Finalizers = []string{"kubernetes"}
					r.must(r.Update(r.t.Context(), ns))
					r.must(r.Delete(r.t.Context(), ns))
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWideFixture(t, tc.spec...)
			tc.remove(r)
			r.converge()
			r.expectAnnounced(tc.want...)
			r.converge() // nothing is announced again
			r.expectAnnounced(tc.want...)
		})
	}
}

// deleteSource deletes the source. The store observes it.
func (r *fixture) deleteSource() {
	r.t.Helper()
	source := r.secret("source")
	r.must(r.Delete(r.t.Context(), source))
	r.store().OnDelete(r.t.Context(), client.ObjectKeyFromObject(source))
}

func TestCopiesThatAreRemovedAtAStartAreAnnounced(t *testing.T) {
	for name, planFirst := range map[string]bool{"the rule is planned first": true, "the Secrets are listed first": false} {
		t.Run(name, func(t *testing.T) {
			r := newSyncedFixture(t)
			copied, source := r.secret("target"), r.secret("source")
			r.exclude()
			r.startUnlisted()
			if planFirst {
				r.reconcileRule()
			}
			r.observe(source)
			r.observe(copied)
			r.store().OnList(t.Context(), func(types.NamespacedName) bool { return true })
			r.reconcileRule()
			r.converge()
			r.expectNoCopy()
			r.expectAnnounced("Deleting 1 copy: spec.targets does not select their namespaces")
		})
	}
}

func TestRemovalsBecauseOfGrantsNameThem(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   func(*v1alpha1.SecretShareSpec)
		remove func(*fixture, *v1alpha1.SecretShareGrant)
		want   string
	}{
		"the grant of a named namespace is deleted": {
			func(s *v1alpha1.SecretShareSpec) { s.Targets.Names = []v1alpha1.NamespaceGlob{"target"} },
			func(r *fixture, g *v1alpha1.SecretShareGrant) { r.must(r.Delete(r.t.Context(), g)) },
			"Deleting 1 copy: no SecretShareGrant allows them any more",
		},
		"the grant is narrowed": {
			func(*v1alpha1.SecretShareSpec) {},
			func(r *fixture, g *v1alpha1.SecretShareGrant) {
				g.Spec.To = []v1alpha1.SecretShareGrantTo{{Name: "another"}}
				g.Generation++
				r.must(r.Update(r.t.Context(), g))
			},
			"Deleting 1 copy: no SecretShareGrant allows them any more",
		},
		"the grant of a selected namespace is deleted": {
			func(*v1alpha1.SecretShareSpec) {},
			func(r *fixture, g *v1alpha1.SecretShareGrant) { r.must(r.Delete(r.t.Context(), g)) },
			"Deleting 1 copy: spec.targets does not select their namespaces, or these have no SecretShareGrant",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTenantFixture(t)
			grant := newGrant(0)
			r.must(r.Create(t.Context(), grant))
			var rule v1alpha1.SecretShare
			r.must(r.Get(t.Context(), tenantKey.NamespacedName(), &rule))
			tc.spec(&rule.Spec)
			rule.Generation++
			r.must(r.Update(t.Context(), &rule))
			r.reconcileTenants()
			r.expectCopy("first")
			tc.remove(r, grant)
			r.reconcileTenants()
			r.expectNoCopy()
			r.expectAnnounced(tc.want)
		})
	}
}

// A tenant writes the annotation, and an administrator reads the Event.
func TestTheEventAboutRemovedCopiesQuotesNoForgedName(t *testing.T) {
	r := newSyncedFixture(t)
	r.addNamespace("elsewhere")
	forged := r.secret("target").DeepCopy()
	forged.Namespace, forged.ResourceVersion, forged.UID = "elsewhere", "", ""
	forged.Name = "forged"
	forged.Annotations["bongsu.io/source"] = "source/\x1b[31mhunter2"
	r.must(r.Create(t.Context(), forged))
	r.start(r.secret("source"), r.secret("target"), forged)
	r.converge()
	for _, note := range r.announced() {
		if strings.Contains(note, "hunter2") || strings.Contains(note, "\x1b") {
			t.Errorf("the note is %q", note)
		}
	}
	r.expectAnnounced("Deleting 1 copy: spec.source does not select their source")
}
