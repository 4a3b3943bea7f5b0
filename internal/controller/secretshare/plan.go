package secretshare

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// plan is what a rule comes to. It is immutable.
type plan struct {
	key  kube.Key
	rule *share.Rule
	// generation of the rule that it was made of.
	generation int64
	sources
	// targets are the namespaces that get copies.
	targets map[string]target
	// ungranted are namespaces that the rule names and that do not let it in.
	ungranted []string
}

// equals tells whether two plans come to the same. What a source holds is told by its
// version.
func (p *plan) equals(other *plan) bool {
	return p.rule.UID == other.rule.UID && p.generation == other.generation && p.unknown == other.unknown &&
		maps.Equal(p.versions, other.versions) &&
		slices.Equal(p.ungranted, other.ungranted) &&
		maps.EqualFunc(p.targets, other.targets, target.equals)
}

// sources are the Secrets that a rule shares.
type sources struct {
	// wants are what the copies look like, by their names.
	wants map[string]want
	// versions are the UID and resourceVersion of each Secret that was read, also of
	// those that are not copied.
	versions map[string]string
	// refused says why Secrets are not copied, in order of their names.
	refused []share.Refusal
	// held are the UIDs of sources, by their names, that exist but cannot be copied
	// now. Their copies stay as they are.
	held map[string]types.UID
	// unknown means that nothing was read. Copies of all Secrets that the rule may
	// mean stay as they are.
	unknown bool
}

// hold returns the sources with all copies held and none wanted.
func (s sources) hold() sources {
	held := maps.Clone(s.held)
	for name, want := range s.wants {
		held[name] = want.source
	}
	s.wants, s.held = nil, held
	return s
}

// want is a copy without a namespace.
type want struct {
	copy *corev1.Secret
	// content tells one look of the copy from another.
	content string
	// source is the UID of the Secret that is copied.
	source types.UID
}

// target is a namespace that gets copies.
type target struct {
	// uid of the namespace: one that is created again under its name has no copies.
	uid types.UID
	// names are those that the copies may have; nil is any.
	names []glob.Pattern
}

func (t target) equals(other target) bool {
	return t.uid == other.uid && slices.Equal(t.names, other.names)
}

func (t target) allows(name string) bool { return t.names == nil || glob.MatchAny(t.names, name) }

// wanted returns the names of the Secrets that a namespace is to have, and of those
// that it does not let in.
func (p *plan) wanted(namespace string) (names, denied []string) {
	t, ok := p.targets[namespace]
	if !ok {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.wants)) {
		if t.allows(name) {
			names = append(names, name)
		} else {
			denied = append(denied, name)
		}
	}
	return names, denied
}

// keeps reports whether a copy stays where it is: it is written again, or its source
// cannot be copied now.
func (p *plan) keeps(name types.NamespacedName, c copyOf) bool {
	t, isTarget := p.targets[name.Namespace]
	if !isTarget || !t.allows(name.Name) {
		return false
	}
	if p.unknown {
		return p.rule.MayName(name.Name) && c.source == p.rule.Namespace+"/"+name.Name
	}
	_, wanted := p.wants[name.Name]
	return wanted || p.held[name.Name] == c.sourceUID
}

// isNews tells whether what was heard of a Secret of the source's namespace may make
// the plan another.
func (p *plan) isNews(t told) bool {
	read, wasRead := p.versions[t.name]
	if wasRead {
		return read != t.version
	}
	return t.version != gone && p.rule.MaySelect(t.name, t.labels)
}

// desired is how many copies there should be.
func (p *plan) desired() int {
	n := len(p.ungranted) * len(p.wants)
	return n + len(p.targets)*len(p.wants)
}

// result is what became of the copies of a rule in one namespace.
type result struct {
	synced, conflicted, failed int
	// reason and message are of the first that is not as it should be.
	reason, message string
	// attempts is how often it was tried in vain in a row.
	attempts int
	// done says that the plan is carried out as far as it can be.
	done bool
}

// well tells whether nothing is amiss.
func (r *result) well() bool { return r.conflicted+r.failed == 0 }

func (r *result) note(reason, message string) {
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
}
