package secretshare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// A source that is deleted and created again, for example by a deployment tool, must not take its
// copies away in between. Its copies therefore stay for a grace time.

// grace is what a plan knows about deleted sources. The next plan of the rule continues with it.
type grace struct {
	// begun is when the operator first knew the sources and the copies of the rule, for example at
	// its start. It does not know when a source was deleted before.
	begun time.Time
	// unlisted means that the copies were not known when the plan was made.
	unlisted bool
	// read are the versions of the sources at the last successful read, by name.
	read map[string]string
	// deleted are the sources that were deleted less than the grace time ago, by UID.
	deleted map[types.UID]deletedSource
	// settles is until when copies stay whose source was not found since begun. It is zero if there
	// are no such copies.
	settles time.Time
}

// deletedSource is a source that was deleted.
type deletedSource struct {
	name  string
	since time.Time
}

// graceTime returns how long the copies of a deleted source stay.
func graceTime(rule *share.Rule) time.Duration {
	if seconds := rule.Spec.SourceDeletionGraceSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 0 // the API server sets the default
}

// uidOf returns the UID in the result of versionOf.
func uidOf(version string) types.UID {
	uid, _, _ := strings.Cut(version, "/")
	return types.UID(uid)
}

// setGrace sets which copies of a plan stay although their source was deleted. It continues with
// the last plan of the rule. An error means that it is not known whether a source was deleted.
func (r *Reconciler) setGrace(ctx context.Context, p *plan) error {
	now := r.clock.Now()
	p.begun = now
	before, listed := r.store.lastPlan(p.key, p.rule.UID)
	if before != nil {
		p.read = before.read
	}
	if before != nil && before.read != nil && !before.unlisted {
		p.begun = before.begun
	}
	if !p.unknown {
		p.read = p.versions
	}
	if graceTime(p.rule) == 0 || p.skipped {
		return nil
	}
	if p.unlisted = !listed; p.unlisted {
		return nil
	}
	if before != nil {
		if !p.hasSourceOf(before) {
			p.begun = time.Time{} // the author has just decided what is copied
		}
		p.continueGrace(before, now)
		if err := r.addDeleted(ctx, p, before, now); err != nil {
			return err
		}
	}
	if end := p.begun.Add(graceTime(p.rule)); now.Before(end) && !p.unknown && r.store.hasCopy(p.rule, p.mayBeDeleted) {
		p.settles = end
	}
	return nil
}

// hasSourceOf reports whether spec.source is the same in two plans.
func (p *plan) hasSourceOf(before *plan) bool {
	return p.rule.Namespace == before.rule.Namespace && equality.Semantic.DeepEqual(p.rule.Source, before.rule.Source)
}

// selectsAgain reports whether the rule would select a source with this name again, which an earlier
// plan selected.
func (p *plan) selectsAgain(before *plan, name string) bool {
	return p.hasSourceOf(before) || p.rule.Namespace == before.rule.Namespace && slices.Contains(p.rule.Source.Names, name)
}

// continueGrace keeps the deleted sources of an earlier plan until their time is over.
func (p *plan) continueGrace(before *plan, now time.Time) {
	p.deleted = map[types.UID]deletedSource{}
	for uid, source := range before.deleted {
		if now.Before(source.since.Add(graceTime(p.rule))) && p.selectsAgain(before, source.name) {
			p.deleted[uid] = source
		}
	}
}

// addDeleted adds the sources of an earlier plan that were deleted since. Only those with copies
// matter.
func (r *Reconciler) addDeleted(ctx context.Context, p, before *plan, now time.Time) error {
	missing := p.missing(before)
	if len(missing) == 0 {
		return nil
	}
	copied := r.store.copiedSources(p.rule)
	for uid, name := range missing {
		if _, ok := copied[uid]; !ok {
			continue
		}
		exists, err := r.sourceExists(ctx, types.NamespacedName{Namespace: p.rule.Namespace, Name: name}, uid)
		if err != nil {
			return err
		}
		if !exists {
			p.addDeletion(uid, deletedSource{name, now})
		}
	}
	return nil
}

// addDeletion adds a deleted source. Copies of earlier ones of its name stay as long as its own.
func (p *plan) addDeletion(uid types.UID, source deletedSource) {
	p.deleted[uid] = source
	for former := range p.deleted {
		if p.deleted[former].name == source.name {
			p.deleted[former] = source
		}
	}
}

// missing returns the names of the sources that were read for an earlier plan and not for this one,
// by UID. The rule would select them again.
func (p *plan) missing(before *plan) map[types.UID]string {
	found := map[types.UID]string{}
	for name, version := range before.read {
		uid := uidOf(version)
		if !p.unknown && uidOf(p.versions[name]) != uid && p.selectsAgain(before, name) {
			found[uid] = name
		}
	}
	return found
}

// sourceExists reports whether a Secret still exists. If so, the rule does not select it any more.
func (r *Reconciler) sourceExists(ctx context.Context, name types.NamespacedName, uid types.UID) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.live.Get(ctx, name, live)
	return err == nil && live.UID == uid, client.IgnoreNotFound(err)
}

// mayBeDeleted reports whether the source of a copy was not found. It may have been deleted while
// the operator did not process the rule.
func (p *plan) mayBeDeleted(c copyState) bool {
	source, ok := strings.CutPrefix(c.source, p.rule.Namespace+"/")
	return ok && c.rule == p.rule.UID && p.rule.AllowsName(source) && uidOf(p.versions[source]) != c.sourceUID
}

// awaits reports whether a copy stays because its source may be created again.
func (p *plan) awaits(c copyState) bool {
	_, deleted := p.deleted[c.sourceUID]
	return deleted || (p.unlisted || !p.settles.IsZero()) && p.mayBeDeleted(c)
}

// graceEnds returns when the first copies no longer stay. It is zero if none are awaited.
func (p *plan) graceEnds() time.Time {
	first := p.settles
	for _, source := range p.deleted {
		if end := source.since.Add(graceTime(p.rule)); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// awaited says until when copies stay whose source was not found at the start, for a message. It is
// empty if there are none.
func (p *plan) awaited() string {
	if p.settles.IsZero() {
		return ""
	}
	return fmt.Sprintf("; copies whose source was not found are %s at %s", removedBy(p.rule), p.settles.UTC().Format(time.RFC3339))
}

// evaluateDeleted reports the sources that were deleted and that do not exist again.
func evaluateDeleted(p *plan) readiness {
	var names []string
	first := time.Time{}
	for _, source := range p.deleted {
		if _, again := p.versions[source.name]; again {
			continue
		}
		names = append(names, source.name)
		if end := source.since.Add(graceTime(p.rule)); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	if len(names) == 0 {
		return readiness{}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	subject := fmt.Sprintf("Secret %s/%s was deleted", p.rule.Namespace, names[0])
	if more := len(names) - 1; more > 0 {
		subject = fmt.Sprintf("Secret %s/%s and %d others were deleted", p.rule.Namespace, names[0], more)
	}
	return readiness{Reason: v1alpha1.ReasonSourceDeleted, Message: fmt.Sprintf(
		"%s: create it again before %s, or the copies are %s. To remove them at once, set spec.sourceDeletionGraceSeconds to 0",
		subject, first.UTC().Format(time.RFC3339), removedBy(p.rule))}
}

// removedBy returns what the deletion policy of a rule does to a copy.
func removedBy(rule *share.Rule) string {
	if rule.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return "released"
	}
	return "deleted"
}

// lastPlan returns the plan that a rule with this UID has, or nil. listed is false before the first
// list of all Secrets.
func (s *store) lastPlan(key kube.Key, uid string) (last *plan, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.rules[key]; ok && state.plan.rule.UID == uid {
		return state.plan, s.synced
	}
	return nil, s.synced
}

// hasCopy reports whether a rule has a copy with this property.
func (s *store) hasCopy(rule *share.Rule, property func(copyState) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, names := range s.copiesByRule[rule.UID] {
		for name := range names {
			if property(s.copies[name]) {
				return true
			}
		}
	}
	return false
}

// copiedSources returns the UIDs of the sources of a rule's copies.
func (s *store) copiedSources(rule *share.Rule) map[types.UID]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[types.UID]struct{}{}
	for _, names := range s.copiesByRule[rule.UID] {
		for name := range names {
			found[s.copies[name].sourceUID] = struct{}{}
		}
	}
	return found
}
