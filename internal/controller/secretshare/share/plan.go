package share

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Plan is the desired state of a rule: which Secrets to copy to which namespaces. It is immutable
// after SetTargets, SetSources and SetGrace.
type Plan struct {
	Rule *Rule
	// Generation and Since are the generation of the rule when the plan was made, and the time of its
	// creation.
	Generation int64
	Since      time.Time
	// Deleting means that the rule is being deleted.
	Deleting bool
	Sources
	targets
	grace
}

// Copied is what the annotations of a copy say.
type Copied struct {
	// Rule is the UID of the rule that wrote the copy.
	Rule string
	// Source is the NAMESPACE/NAME of the source.
	Source    string
	SourceUID types.UID
}

// CopiedOf returns what the annotations of a copy say.
func CopiedOf(annotations map[string]string) Copied {
	return Copied{Rule: RuleOf(annotations), Source: SourceOf(annotations), SourceUID: types.UID(annotations[AnnotationSourceUID])}
}

// Equal reports whether two plans are the same. The versions of the sources stand for their content.
func (p *Plan) Equal(other *Plan) bool {
	return p.Rule.UID == other.Rule.UID && p.Generation == other.Generation && p.Unknown == other.Unknown && p.Skipped == other.Skipped &&
		maps.Equal(p.Versions, other.Versions) && maps.Equal(p.Near, other.Near) && maps.Equal(p.deleted, other.deleted) && p.settles.Equal(other.settles) && p.unlisted == other.unlisted &&
		slices.Equal(p.Ungranted, other.Ungranted) && maps.Equal(p.Missing, other.Missing) && p.NoNamespace == other.NoNamespace && maps.Equal(p.Waiting, other.Waiting) && maps.Equal(p.Grants, other.Grants) &&
		maps.EqualFunc(p.Targets, other.Targets, Target.equal)
}

// CopiesIn returns the names of the wanted copies in a namespace, and the names that no grant of the
// namespace allows.
func (p *Plan) CopiesIn(namespace string) (names, denied []string) {
	t, ok := p.Targets[namespace]
	if !ok {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Wanted)) {
		if t.Allows(name) {
			names = append(names, name)
		} else {
			denied = append(denied, name)
		}
	}
	return names, denied
}

// Keeps reports whether an existing copy stays: it is still wanted, or its source cannot be
// copied now or was deleted a moment ago. It also stays if its grant is not recorded yet.
func (p *Plan) Keeps(name types.NamespacedName, c Copied) bool {
	if _, ok := p.Waiting[name.Namespace]; ok {
		return true
	}
	t, isTarget := p.Targets[name.Namespace]
	if !isTarget || !t.Allows(name.Name) {
		return false
	}
	if p.Unknown {
		source, ok := strings.CutPrefix(c.Source, p.Rule.Namespace+"/")
		return ok && p.Rule.AllowsName(source)
	}
	_, wanted := p.Wanted[name.Name]
	_, held := p.Held[c.SourceUID]
	return wanted || held || p.awaits(c)
}

// Desired returns how many copies should exist, also those that cannot be updated now.
func (p *Plan) Desired() int {
	return (len(p.Ungranted) + len(p.Missing) + len(p.Targets)) * (len(p.Wanted) + len(p.Held))
}

// Sizes of the parts of a plan, in bytes. TestTheSizeOfAPlanIsAtLeastItsMemory compares them with the
// real ones.
const (
	ruleSize = 4 << 10
	// SourceSize is that of a Secret that a rule selects.
	SourceSize  = 1 << 10
	targetSize  = 1 << 10
	patternSize = 64
	copySize    = 768
)

// Size returns about the memory of a plan and its copies, in bytes.
func (p *Plan) Size() int64 {
	size := ruleSize + (len(p.Versions)+len(p.deleted))*SourceSize + (len(p.Waiting)+len(p.Terminating))*targetSize + len(p.Targets)*(targetSize+len(p.Wanted)*copySize)
	for _, t := range p.Targets {
		size += len(t.names) * patternSize
	}
	return int64(size)
}
