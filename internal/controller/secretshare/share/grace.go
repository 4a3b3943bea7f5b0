package share

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
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

// grace returns how long the copies of a deleted source stay.
func (r *Rule) grace() time.Duration {
	if seconds := r.Spec.SourceDeletionGraceSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 0 // the API server sets the default
}

// Former is what is known of a rule when a plan is made.
type Former struct {
	// Plan is the last plan of the rule, or nil.
	Plan *Plan
	// Listed is false before the first list of all Secrets.
	Listed bool
	// Copies are the copies of the rule.
	Copies iter.Seq[Copied]
	// Exists reports whether a source still exists. If so, the rule does not select it any more.
	Exists func(source string, uid types.UID) (bool, error)
}

// SetGrace sets which copies of a plan stay although their source was deleted. Call it after
// SetTargets, and when the sources are set. The error is that of Former.Exists.
func (p *Plan) SetGrace(former Former, now time.Time) error {
	before := former.Plan
	p.begun = now
	if before != nil {
		p.read = before.read
	}
	if before != nil && before.read != nil && !before.unlisted {
		p.begun = before.begun
	}
	if !p.Unknown {
		p.read = p.Versions
	}
	if p.Rule.grace() == 0 || p.Skipped {
		return nil
	}
	if p.unlisted = !former.Listed; p.unlisted {
		return nil
	}
	if before != nil {
		if !p.hasSourceOf(before) {
			p.begun = time.Time{} // the author has just decided what is copied
		}
		p.continueGrace(before, now)
		if err := p.addDeleted(former, now); err != nil {
			return err
		}
	}
	if end := p.begun.Add(p.Rule.grace()); now.Before(end) && !p.Unknown && p.hasUnfound(former.Copies) {
		p.settles = end
	}
	return nil
}

// hasSourceOf reports whether spec.source is the same in two plans.
func (p *Plan) hasSourceOf(before *Plan) bool {
	return p.Rule.Namespace == before.Rule.Namespace && equality.Semantic.DeepEqual(p.Rule.Source, before.Rule.Source)
}

// selectsAgain reports whether the rule would select a source with this name again, which an earlier
// plan selected.
func (p *Plan) selectsAgain(before *Plan, name string) bool {
	return p.hasSourceOf(before) || p.Rule.Namespace == before.Rule.Namespace && slices.Contains(p.Rule.Source.Names, name)
}

// continueGrace keeps the deleted sources of an earlier plan until their time is over.
func (p *Plan) continueGrace(before *Plan, now time.Time) {
	p.deleted = map[types.UID]deletedSource{}
	for uid, source := range before.deleted {
		if now.Before(source.since.Add(p.Rule.grace())) && p.selectsAgain(before, source.name) {
			p.deleted[uid] = source
		}
	}
}

// addDeleted adds the sources of the last plan that were deleted since. Only those with copies
// matter.
func (p *Plan) addDeleted(former Former, now time.Time) error {
	missing := p.missing(former.Plan)
	if len(missing) == 0 {
		return nil
	}
	copied := map[types.UID]bool{}
	for c := range former.Copies {
		copied[c.SourceUID] = true
	}
	for uid, name := range missing {
		if !copied[uid] {
			continue
		}
		exists, err := former.Exists(name, uid)
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
func (p *Plan) addDeletion(uid types.UID, source deletedSource) {
	p.deleted[uid] = source
	for former := range p.deleted {
		if p.deleted[former].name == source.name {
			p.deleted[former] = source
		}
	}
}

// missing returns the names of the sources that were read for an earlier plan and not for this one,
// by UID. The rule would select them again.
func (p *Plan) missing(before *Plan) map[types.UID]string {
	found := map[types.UID]string{}
	for name, version := range before.read {
		uid := uidOf(version)
		if !p.Unknown && uidOf(p.Versions[name]) != uid && p.selectsAgain(before, name) {
			found[uid] = name
		}
	}
	return found
}

// hasUnfound reports whether one of the copies has a source that was not found.
func (p *Plan) hasUnfound(copies iter.Seq[Copied]) bool {
	for c := range copies {
		if p.mayBeDeleted(c) {
			return true
		}
	}
	return false
}

// mayBeDeleted reports whether the source of a copy was not found. It may have been deleted while
// the operator did not process the rule.
func (p *Plan) mayBeDeleted(c Copied) bool {
	source, ok := strings.CutPrefix(c.Source, p.Rule.Namespace+"/")
	return ok && c.Rule == p.Rule.UID && p.Rule.AllowsName(source) && uidOf(p.Versions[source]) != c.SourceUID
}

// awaits reports whether a copy stays because its source may be created again.
func (p *Plan) awaits(c Copied) bool {
	_, deleted := p.deleted[c.SourceUID]
	return deleted || (p.unlisted || !p.settles.IsZero()) && p.mayBeDeleted(c)
}

// Expires reports whether an existing copy stays only until the end of the grace.
func (p *Plan) Expires(name types.NamespacedName, c Copied) bool {
	_, wanted := p.Wanted[name.Name]
	return !wanted && p.awaits(c) && p.Keeps(name, c)
}

// ExpiryNote announces copies whose source was not found at the start. It is empty if there are none.
// It names no source, because a tenant can write the annotations of a copy.
func (p *Plan) ExpiryNote(expiring int) string {
	if p.settles.IsZero() || expiring == 0 {
		return ""
	}
	return fmt.Sprintf("%s without a source in namespace %s: create the source again before %s, or the operator removes them",
		countOfCopies(expiring), p.Rule.Namespace, p.settles.UTC().Format(time.RFC3339))
}

// GraceEnds returns when the first copies no longer stay. It is zero if none are awaited.
func (p *Plan) GraceEnds() time.Time {
	first := p.settles
	for _, source := range p.deleted {
		if end := source.since.Add(p.Rule.grace()); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// Awaited says until when copies stay whose source was not found at the start, as the end of a
// message. It is empty if there are none.
func (p *Plan) Awaited() string {
	if p.settles.IsZero() {
		return ""
	}
	return fmt.Sprintf("; copies whose source was not found are %s at %s", p.Rule.removed(), p.settles.UTC().Format(time.RFC3339))
}

// deletedProblem reports the sources that were deleted and that do not exist again.
func (p *Plan) deletedProblem() Problem {
	var names []string
	first := time.Time{}
	for _, source := range p.deleted {
		if _, again := p.Versions[source.name]; again {
			continue
		}
		names = append(names, source.name)
		if end := source.since.Add(p.Rule.grace()); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	if len(names) == 0 {
		return Problem{}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	subject := fmt.Sprintf("Secret %s/%s was deleted", p.Rule.Namespace, names[0])
	if more := len(names) - 1; more > 0 {
		subject = fmt.Sprintf("Secret %s/%s and %d others were deleted", p.Rule.Namespace, names[0], more)
	}
	return Problem{Reason: v1alpha1.ReasonSourceDeleted, Message: fmt.Sprintf(
		"%s: create it again before %s, or the copies are %s. To remove them at once, set spec.sourceDeletionGraceSeconds to 0",
		subject, first.UTC().Format(time.RFC3339), p.Rule.removed())}
}

// removed returns what the deletion policy of the rule does to a copy.
func (r *Rule) removed() string {
	if r.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return "released"
	}
	return "deleted"
}
