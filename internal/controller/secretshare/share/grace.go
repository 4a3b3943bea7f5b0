package share

import (
	"fmt"
	"iter"
	"maps"
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

// sighting is what a plan sees of the sources and the copies of its rule.
type sighting struct {
	// grace is how long copies stay. It is zero if the rule has no grace, or if there are no targets.
	grace time.Duration
	// listed is false before the first list of all Secrets.
	listed bool
	// unknown means that the sources were not read. versions are those that were, by name.
	unknown  bool
	versions map[string]string
	// isNew means that spec.source is not that of the last plan.
	isNew bool
	// selects reports whether the rule would select a source with this name again, which an earlier
	// plan selected.
	selects func(name string) bool
	// gone are the names of the sources with copies that were deleted since the last plan, by UID.
	gone map[types.UID]string
	// unfound reports whether the source of a copy was not found.
	unfound func() bool
}

// next returns what a plan knows if the last plan knew g. Before the first plan, g is zero.
func (g grace) next(seen sighting, now time.Time) grace {
	next := grace{begun: now, read: g.read, unlisted: seen.grace > 0 && !seen.listed}
	if g.read != nil && !g.unlisted {
		next.begun = g.begun
	}
	if !seen.unknown {
		next.read = seen.versions
	}
	if seen.grace == 0 || next.unlisted {
		return next
	}
	if seen.isNew {
		next.begun = time.Time{} // the author has just decided what is copied
	}
	next.deleted = g.deletedAfter(seen, now)
	if end := next.begun.Add(seen.grace); now.Before(end) && !seen.unknown && seen.unfound() {
		next.settles = end
	}
	return next
}

// deletedAfter returns the deleted sources whose copies stay.
func (g grace) deletedAfter(seen sighting, now time.Time) map[types.UID]deletedSource {
	deleted := map[types.UID]deletedSource{}
	for uid, source := range g.deleted {
		if now.Before(source.since.Add(seen.grace)) && seen.selects(source.name) {
			deleted[uid] = source
		}
	}
	for uid, name := range seen.gone {
		deleted[uid] = deletedSource{name, now}
		for former, source := range deleted { // copies of earlier sources of its name stay as long
			if source.name == name {
				deleted[former] = deleted[uid]
			}
		}
	}
	return deleted
}

// SetGrace sets which copies of a plan stay although their source was deleted. Call it after
// SetTargets, and when the sources are set. The error is that of Former.Exists: the sources then
// count as unknown.
func (p *Plan) SetGrace(former Former, now time.Time) (err error) {
	seen := sighting{
		listed: former.Listed, unknown: p.Unknown, versions: p.Versions,
		unfound: func() bool {
			for c := range former.Copies {
				if p.mayBeDeleted(c) {
					return true
				}
			}
			return false
		},
	}
	if !p.Skipped {
		seen.grace = p.Rule.grace()
	}
	var last grace
	if before := former.Plan; before != nil {
		last, seen.isNew = before.grace, !p.hasSourceOf(before)
		seen.selects = func(name string) bool { return p.selectsAgain(before, name) }
		if seen.grace > 0 && seen.listed && !seen.unknown {
			seen.gone, err = p.gone(former)
			seen.unknown = err != nil
		}
	}
	p.grace = last.next(seen, now)
	return err
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

// gone returns the names of the sources of the last plan that were deleted since, by UID. Only those
// with copies matter.
func (p *Plan) gone(former Former) (map[types.UID]string, error) {
	found := map[types.UID]string{}
	for name, version := range former.Plan.read {
		if uid := uidOf(version); uidOf(p.Versions[name]) != uid && p.selectsAgain(former.Plan, name) {
			found[uid] = name
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	copied := map[types.UID]bool{}
	for c := range former.Copies {
		copied[c.SourceUID] = true
	}
	maps.DeleteFunc(found, func(uid types.UID, _ string) bool { return !copied[uid] })
	for uid, name := range found {
		exists, err := former.Exists(name, uid)
		if err != nil {
			return nil, err
		}
		if exists {
			delete(found, uid)
		}
	}
	return found, nil
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
