package secretshare

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// newGraceFixture returns a fixture whose copy is up to date, with a grace of 30 seconds. The
// operator has run for longer than that.
func newGraceFixture(t *testing.T) *fixture {
	t.Helper()
	r := newSyncedFixture(t)
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.SourceDeletionGraceSeconds = new(int32(30)) })
	r.converge()
	r.pass(time.Minute)
	return r
}

// pass lets time pass.
func (r *fixture) pass(d time.Duration) {
	r.t.Helper()
	r.clock.SetTime(r.clock.Now().Add(d))
	r.converge()
}

// restart starts new controllers, which list the Secrets that exist.
func (r *fixture) restart() {
	r.t.Helper()
	var list corev1.SecretList
	r.must(r.List(r.t.Context(), &list))
	var found []*corev1.Secret
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	r.start(found...)
}

// restartPlanned is restart, but the rule has a plan before the Secrets are listed.
func (r *fixture) restartPlanned() {
	r.t.Helper()
	var list corev1.SecretList
	r.must(r.List(r.t.Context(), &list))
	r.startUnlisted()
	r.reconcileRule()
	for i := range list.Items {
		r.observe(&list.Items[i])
	}
	r.store().OnList(r.t.Context(), func(types.NamespacedName) bool { return true })
	r.sync()
}

func (r *fixture) expectNoDeletion() {
	r.t.Helper()
	if slices.Contains(r.requests, "delete target/shared") {
		r.t.Errorf("the copy was deleted: %q", r.requests)
	}
}

func (r *fixture) expectRetryWithin(d time.Duration) {
	r.t.Helper()
	if after := r.reconcileNamed("rule").RequeueAfter; after <= 0 || after > d {
		r.t.Errorf("the next attempt is after %s, want within %s", after, d)
	}
}

func (r *fixture) message() string {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	if ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

func TestTheCopiesOfADeletedSourceStayForTheGrace(t *testing.T) {
	r := newGraceFixture(t)
	end := r.clock.Now().Add(30 * time.Second).UTC().Format(time.RFC3339)
	r.deleteSource()
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceDeleted)
	r.expectState(v1alpha1.StateDegraded, 1)
	if got := r.message(); !strings.Contains(got, "Secret source/shared was deleted: create it again before "+end) {
		t.Errorf("the message is %q", got)
	}
	r.expectRetryWithin(30 * time.Second)
	r.expectAnnounced()
	r.pass(29 * time.Second)
	r.expectCopy("first")
	r.pass(time.Second)
	r.expectNoCopy()
	r.expectReady(v1alpha1.ReasonSourceNotFound)
	r.expectAnnounced("Deleting 1 copy: Secret shared was deleted")
	r.expectState(v1alpha1.StateFailing, 0) // the rule names a Secret that does not exist
}

func TestOneConflictOfTwoDoesNotFailTheRule(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces []string
		want       v1alpha1.State
	}{
		"one of two": {[]string{"other"}, v1alpha1.StateDegraded}, "all": {[]string{"other", "target"}, v1alpha1.StateFailing},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.addNamespace("other")
			for _, namespace := range tc.namespaces {
				foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}}
				r.must(r.Create(t.Context(), foreign))
				r.observe(foreign)
			}
			r.putSource("first")
			r.reconcileRule()
			r.converge()
			r.expectReady(v1alpha1.ReasonConflict)
			r.expectState(tc.want, 0)
		})
	}
}

// The annotation for adoption has no effect on a copy, and the other rule would restore a deleted one.
func TestAConflictWithTheCopyOfAnotherRuleHasOnlyAdviceThatHelps(t *testing.T) {
	r := newFixture(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "shared", Annotations: map[string]string{
		"bongsu.io/rule-uid": "other", "bongsu.io/source-uid": "u", "bongsu.io/rule": "ClusterSecretShare/other", "bongsu.io/source": "a/b",
	}}}
	r.must(r.Create(t.Context(), foreign))
	r.observe(foreign)
	r.putSource("first")
	r.reconcileRule()
	r.converge()
	r.expectReady(v1alpha1.ReasonConflict)
	var list eventsv1.EventList
	r.must(r.List(t.Context(), &list))
	const want = "ClusterSecretShare/rule cannot copy Secret source/shared here because this Secret is already a copy of ClusterSecretShare/other: ask the owners of the rules to change one of the two"
	if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind == "Secret" && e.Note == want }) {
		t.Errorf("no Event %q: %v", want, list.Items)
	}
}

// expectState checks the state of the rule, and how many copies wait for the end of the grace.
func (r *fixture) expectState(want v1alpha1.State, expiring int32) {
	r.t.Helper()
	rule, err := r.rule()
	r.must(err)
	if got := rule.Status; got.State != want || got.Expiring != expiring {
		r.t.Errorf("state %s, %d expiring; want %s, %d", got.State, got.Expiring, want, expiring)
	}
}

// expectExpiryNotes checks the Events about copies without a source, without the times.
func (r *fixture) expectExpiryNotes(want int) {
	r.t.Helper()
	var list eventsv1.EventList
	r.must(r.List(r.t.Context(), &list))
	got := 0
	for _, e := range list.Items {
		if e.Reason == v1alpha1.ReasonSourceDeleted && strings.HasPrefix(e.Note, "1 copy without a source in namespace source: create the source again before ") {
			got++
		}
	}
	if got != want {
		r.t.Errorf("%d Events announce copies without a source, want %d", got, want)
	}
}

func TestASourceThatIsCreatedAgainWithinTheGraceUpdatesItsCopies(t *testing.T) {
	for name, between := range map[string]func(*fixture){
		"while the operator runs": func(r *fixture) { r.pass(20 * time.Second) },
		"at once":                 func(*fixture) {},
		"while the API server cannot be read": func(r *fixture) {
			r.readError = apierrors.NewServiceUnavailable("")
			r.pass(10 * time.Second)
			r.readError = nil
		},
		"after a failed read that lasts": func(r *fixture) {
			r.readError = apierrors.NewServiceUnavailable("")
			r.pass(time.Hour)
			r.readError = nil
			r.pass(time.Second)
		},
		"after a restart":                  func(r *fixture) { r.restart(); r.pass(20 * time.Second) },
		"after a restart that plans first": func(r *fixture) { r.restartPlanned(); r.pass(20 * time.Second) },
		"after a restart near the end":     func(r *fixture) { r.pass(29 * time.Second); r.restart(); r.pass(20 * time.Second) },
		"after a restart during a failure": func(r *fixture) {
			r.readError = apierrors.NewServiceUnavailable("")
			r.restart()
			r.pass(time.Hour)
			r.readError = nil
			r.pass(20 * time.Second)
		},
		"after a suspension":                       func(r *fixture) { r.suspend(true); r.pass(time.Hour); r.suspend(false); r.pass(20 * time.Second) },
		"after a change of the targets":            func(r *fixture) { r.pass(time.Second); r.change(excludeElsewhere); r.pass(time.Second) },
		"after a Secret is added to the selection": func(r *fixture) { r.pass(time.Second); r.addName("another"); r.pass(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newGraceFixture(t)
			before := r.secret("target").UID
			r.requests = nil
			r.deleteSource()
			between(r)
			r.converge()
			r.expectCopy("first")
			r.putSource("second")
			r.converge()
			r.expectCopy("second")
			r.pass(time.Hour)
			r.expectCopy("second")
			r.expectNoDeletion()
			if after := r.secret("target").UID; after != before {
				t.Error("the copy was created again")
			}
			r.expectAnnounced()
		})
	}
}

func TestASecondDeletionWithinTheGraceHasItsOwnTime(t *testing.T) {
	r := newGraceFixture(t)
	r.deleteSource()
	r.pass(10 * time.Second)
	r.putSource("second")
	r.pass(10 * time.Second)
	end := r.clock.Now().Add(30 * time.Second).UTC().Format(time.RFC3339)
	r.deleteSource()
	r.converge()
	if got := r.message(); !strings.Contains(got, "Secret source/shared was deleted: create it again before "+end) {
		t.Errorf("the message is %q", got)
	}
	r.pass(29 * time.Second)
	r.expectCopy("second")
	r.pass(time.Second)
	r.expectNoCopy()
}

func (r *fixture) suspend(suspend bool) {
	r.t.Helper()
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Suspend = suspend })
}

func (r *fixture) addName(name string) {
	r.t.Helper()
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Source.Names = append(s.Source.Names, name) })
}

// An administrator who deletes a source for its security must be able to remove its copies at once.
func TestTheGraceEndsAtOnceIfTheRuleDoesNotWantTheCopies(t *testing.T) {
	for name, remove := range map[string]func(*fixture){
		"the grace is set to 0": func(r *fixture) {
			r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.SourceDeletionGraceSeconds = new(int32(0)) })
		},
		"the rule is deleted":       (*fixture).deleteRule,
		"the namespace is excluded": (*fixture).exclude,
		"another Secret is named": func(r *fixture) {
			r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Source.Names = []string{"another"} })
		},
		"Secrets are selected by a type": func(r *fixture) {
			r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Source.Names, s.Source.Type = nil, "example.com/x" })
		},
		"another namespace is named": func(r *fixture) {
			r.addNamespace("other")
			r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.Source.Namespace = "other" })
		},
	} {
		for when, restart := range map[string]bool{"": false, ", and the operator restarts": true} {
			t.Run(name+when, func(t *testing.T) {
				r := newGraceFixture(t)
				r.deleteSource()
				r.converge()
				r.expectCopy("first")
				if restart {
					r.restart()
					r.converge()
				}
				remove(r)
				r.converge()
				r.expectNoCopy()
			})
		}
	}
}

// The source exists, and the rule does not select it any more.
func TestThereIsNoGraceForASourceThatIsNoLongerSelected(t *testing.T) {
	selected := map[string]string{"share": "yes"}
	r := newFixture(t)
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) {
		s.SourceDeletionGraceSeconds = new(int32(30))
		s.Source.Names, s.Source.Selector = nil, &metav1.LabelSelector{MatchLabels: selected}
	})
	r.putSource("first")
	source := r.secret("source")
	source.Labels = selected
	r.must(r.Update(t.Context(), source))
	r.observe(source)
	r.converge()
	r.pass(time.Minute)
	r.expectCopy("first")
	source.Labels = nil
	r.must(r.Update(t.Context(), source))
	r.observe(source)
	r.converge()
	r.expectNoCopy()
	r.expectReady(v1alpha1.ReasonReady)
	r.expectAnnounced("Deleting 1 copy: Secret shared does not exist, or spec.source does not select it")
}

func TestASelectedSourceThatIsDeletedIsReportedDuringTheGrace(t *testing.T) {
	r := newFixture(t)
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) {
		s.SourceDeletionGraceSeconds = new(int32(30))
		s.Source.Names, s.Source.Type = nil, string(corev1.SecretTypeOpaque)
	})
	r.putSource("first")
	r.converge()
	r.pass(time.Minute)
	r.deleteSource()
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceDeleted)
	r.expectRetryWithin(30 * time.Second)
	r.restart()
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
	r.expectRetryWithin(30 * time.Second)
	if !strings.Contains(r.message(), "; copies whose source was not found are deleted at ") {
		t.Errorf("the message is %q", r.message())
	}
	r.pass(30 * time.Second)
	r.expectNoCopy()
	r.expectReady(v1alpha1.ReasonReady)
}

// The operator does not know when the source was deleted.
func TestTheGraceCountsFromTheStart(t *testing.T) {
	for name, start := range map[string]func(*fixture){
		"the Secrets are listed first": (*fixture).restart, "the rule is planned first": (*fixture).restartPlanned,
	} {
		t.Run(name, func(t *testing.T) {
			r := newGraceFixture(t)
			r.must(r.Delete(t.Context(), r.secret("source"))) // while the operator is down
			start(r)
			r.converge()
			r.expectCopy("first")
			r.expectReady(v1alpha1.ReasonSourceNotFound)
			r.expectState(v1alpha1.StateDegraded, 1)
			r.expectExpiryNotes(1)
			r.expectRetryWithin(30 * time.Second)
			if !strings.Contains(r.message(), "; copies whose source was not found are deleted at ") {
				t.Errorf("the message is %q", r.message())
			}
			r.pass(29 * time.Second)
			r.expectCopy("first")
			r.pass(time.Second)
			r.expectNoCopy()
			r.expectReady(v1alpha1.ReasonSourceNotFound)
		})
	}
}

func TestARuleThatRetainsReleasesTheCopiesAfterTheGrace(t *testing.T) {
	r := newGraceFixture(t)
	r.change(func(s *v1alpha1.ClusterSecretShareSpec) { s.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	r.converge()
	r.deleteSource()
	r.converge()
	if r.secret("target").Annotations["bongsu.io/rule-uid"] == "" {
		t.Error("the copy is released during the grace")
	}
	r.pass(30 * time.Second)
	if r.secret("target").Annotations["bongsu.io/rule-uid"] != "" {
		t.Error("the copy is not released")
	}
	r.expectAnnounced("Releasing 1 copy: Secret shared was deleted")
}

// It is not known whether the source was deleted, so nothing is removed.
func TestCopiesStayIfTheSourceCannotBeCheckedAfterItsDeletion(t *testing.T) {
	r := newGraceFixture(t)
	r.afterRead = func() { r.readError = apierrors.NewServiceUnavailable("") }
	r.deleteSource()
	r.converge()
	r.expectCopy("first")
	r.expectReady(v1alpha1.ReasonSourceUnreadable)
	r.readError = nil
	r.converge()
	r.expectReady(v1alpha1.ReasonSourceDeleted)
	r.pass(30 * time.Second)
	r.expectNoCopy()
}

// A tenant who can write Secrets in a target namespace cannot make the rule report a deleted source.
func TestForgedCopiesReportNoDeletedSource(t *testing.T) {
	r := newGraceFixture(t)
	forged := r.secret("target").DeepCopy()
	forged.ResourceVersion, forged.UID, forged.Name = "", "", "forged"
	forged.Annotations["bongsu.io/source-uid"], forged.Annotations["bongsu.io/source"] = "forged", "source/shared"
	r.must(r.WithWatch.Create(t.Context(), forged))
	r.observe(forged)
	r.converge()
	r.expectReady(v1alpha1.ReasonReady)
	if r.exists(forged) {
		t.Error("the forged copy still exists")
	}
}
