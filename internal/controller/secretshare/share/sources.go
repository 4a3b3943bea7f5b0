package share

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Sources are the Secrets that a rule shares.
type Sources struct {
	// Wanted are the copies to write, by name.
	Wanted map[string]Wanted
	// Versions are the results of VersionOf for each Secret that was read, also for those that are
	// not copied, by name.
	Versions map[string]string
	// Held are the UIDs of sources that exist but cannot be copied now, with the names that
	// their copies would have. Their copies stay as they are, also under former names.
	Held map[types.UID]string
	// LeftOut are labels and annotations of tools that are not copied, at most maxLeftOut.
	LeftOut []string
	// Near are Secrets that the rule nearly selects, with the reason, by name. They are at most
	// MaxNear, and none if the rule selects a Secret without names.
	Near map[string]string
	// Unknown means that nothing was read. Copies of all Secrets that the rule may
	// select stay as they are.
	Unknown bool
	// Skipped means that nothing was read, because no namespace gets copies.
	Skipped bool

	// refused are the reasons why Secrets are not copied, ordered by name of the Secret.
	refused []Problem
}

// Wanted is a copy to write. The data is not in memory until it is written.
type Wanted struct {
	// Content identifies the content: it differs if the rule or the source has changed.
	Content string
	// Source and SourceUID are the name and UID of the source.
	Source    string
	SourceUID types.UID
}

// maxLeftOut is how many labels and annotations of tools a status names.
const maxLeftOut = 5

// MaxNear limits the Secrets that a status names because a rule nearly selects them.
const MaxNear = 3

// VersionOf identifies the state of a Secret, also if it is deleted and created again.
func VersionOf(uid types.UID, resourceVersion string) string {
	return string(uid) + "/" + resourceVersion
}

// uidOf returns the UID in the result of VersionOf.
func uidOf(version string) types.UID {
	uid, _, _ := strings.Cut(version, "/")
	return types.UID(uid)
}

// Selection collects the Secrets that a rule selects.
type Selection struct {
	plan    *Plan
	sources Sources
	refused map[string]Problem
	taken   map[string]bool // names of copies
}

// NewSelection returns an empty Selection for the rule of a plan.
func NewSelection(p *Plan) *Selection {
	return &Selection{
		plan: p, refused: map[string]Problem{}, taken: map[string]bool{},
		sources: Sources{Wanted: map[string]Wanted{}, Versions: map[string]string{}, Held: map[types.UID]string{}, Near: map[string]string{}},
	}
}

// Len returns the number of Secrets that were added.
func (s *Selection) Len() int { return len(s.sources.Versions) }

// Add adds a Secret, and reports whether it is copied.
func (s *Selection) Add(secret *corev1.Secret) (copied bool) {
	p, version := s.plan, VersionOf(secret.UID, secret.ResourceVersion)
	s.sources.Versions[secret.Name] = version
	name := p.Rule.CopyName(secret.Name)
	refusal := s.refuse(secret, name)
	if refusal != nil {
		s.refused[secret.Name] = *refusal
		if refusal.Reason != v1alpha1.ReasonKeyNotFound {
			return false
		}
		s.sources.Held[secret.UID] = name
	} else {
		content := fmt.Sprint(p.Rule.UID, p.Generation, version)
		s.sources.Wanted[name] = Wanted{Content: content, Source: secret.Name, SourceUID: secret.UID}
	}
	s.taken[name] = true
	for _, key := range p.Rule.LeftOut(secret) {
		if len(s.sources.LeftOut) < maxLeftOut && !slices.Contains(s.sources.LeftOut, key) {
			s.sources.LeftOut = append(s.sources.LeftOut, key)
		}
	}
	return refusal == nil
}

// AddNear adds a Secret that the rule does not select, unless there are enough. It reports whether
// there is space for more.
func (s *Selection) AddNear(secret *corev1.Secret) (more bool) {
	if why := s.plan.Rule.WhyNotSelected(secret); why != "" && len(s.sources.Near) < MaxNear {
		s.sources.Near[secret.Name] = why
	}
	return len(s.sources.Near) < MaxNear
}

// refuse returns the reason why a Secret is not copied, or nil.
func (s *Selection) refuse(secret *corev1.Secret, copyName string) *Problem {
	if s.taken[copyName] {
		return &Problem{Reason: v1alpha1.ReasonSourceRefused, Message: fmt.Sprintf(
			"the copy of Secret %s would have the name %s, which the copy of another Secret has: correct spec.copyName", nameOf(secret), copyName)}
	}
	_, refusal := s.plan.Rule.Copy(secret)
	return refusal
}

// Sources returns what was added.
func (s *Selection) Sources() Sources {
	all := s.sources
	for _, name := range slices.Sorted(maps.Keys(s.refused)) {
		all.refused = append(all.refused, s.refused[name])
	}
	return all
}

// Hold returns the sources with all copies held and none wanted.
func (s Sources) Hold() Sources {
	held := maps.Clone(s.Held)
	for name, want := range s.Wanted {
		held[want.SourceUID] = name
	}
	s.Wanted, s.Held = nil, held
	return s
}

// IsAffectedBy reports whether a change of a Secret in the source's namespace can change the plan.
// version is a result of VersionOf, or empty after a deletion.
func (p *Plan) IsAffectedBy(name, version string, set labels.Set) bool {
	if p.Skipped {
		return false
	}
	read, wasRead := p.Versions[name]
	if wasRead {
		return read != version
	}
	if _, near := p.Near[name]; near {
		return true
	}
	return version != "" && (p.Rule.MaySelect(name, set) || p.showsNear() && len(p.Near) < MaxNear)
}

// showsNear reports whether the status names Secrets that the rule nearly selects.
func (p *Plan) showsNear() bool { return len(p.Rule.Source.Names) == 0 && len(p.Versions) == 0 }

// nearly names the Secrets that the rule nearly selects, as the end of a message.
func (p *Plan) nearly() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.Near)) {
		all = append(all, fmt.Sprintf("Secret %s %s", name, p.Near[name]))
	}
	if len(all) == 0 {
		return ""
	}
	return plaintext.Cut(plaintext.Line("; not selected: "+strings.Join(all, "; ")), MaxMessage)
}

// Problem returns the first problem of the sources that were read. It is zero if there is none.
func (p *Plan) Problem() Problem {
	switch deleted := p.deletedProblem(); {
	case p.Skipped:
		return Problem{}
	case deleted.Reason != "":
		return deleted
	case len(p.refused) > 0:
		return p.refused[0]
	}
	return p.missingProblem()
}

// missingProblem reports the names in spec.source without a Secret. The other Secrets are copied.
func (p *Plan) missingProblem() Problem {
	var missing []string
	for _, name := range p.Rule.Source.Names {
		if _, ok := p.Versions[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return Problem{}
	}
	if p.NoNamespace && len(p.Versions) == 0 {
		return Problem{Reason: v1alpha1.ReasonSourceNotFound, Message: fmt.Sprintf(
			"namespace %s of spec.source does not exist: create it, or correct spec.source.namespace", p.Rule.Namespace) + p.Awaited()}
	}
	message := fmt.Sprintf("spec.source selects no Secret with the name %s in namespace %s: create the Secret or correct spec.source",
		strings.Join(missing, ", "), p.Rule.Namespace)
	return Problem{Reason: v1alpha1.ReasonSourceNotFound, Message: message + p.nearly() + p.Awaited()}
}

// Nothing says that a rule without a problem has nothing to copy yet. It is empty otherwise.
func (p *Plan) Nothing() string {
	if none := p.NothingSelected(); none != "" {
		return none
	}
	if p.Skipped || len(p.Wanted) > 0 || p.Problem().Reason != "" {
		return ""
	}
	if p.NoNamespace {
		return fmt.Sprintf("namespace %s of spec.source does not exist, so there is nothing to copy yet", p.Rule.Namespace)
	}
	return fmt.Sprintf("spec.source selects no Secret in namespace %s, so there is nothing to copy yet", p.Rule.Namespace) + p.nearly()
}
