package share

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// targets are the namespaces of a plan.
type targets struct {
	// Targets are the namespaces that get copies.
	Targets map[string]Target
	// Ungranted are the namespaces that the rule names and that have no grant for it. Other
	// namespaces without a grant are in no list: the author of the rule must not learn that they
	// exist.
	Ungranted []string
	// Missing are the namespaces that the rule names and does not select, with the reason. They do not
	// exist, or do not match the other fields.
	Missing map[string]Problem
	// NoNamespace means that the namespace of the sources does not exist.
	NoNamespace bool
	// Waiting are the target namespaces with a grant whose status does not yet record the
	// rule's namespace. Existing copies there stay as they are.
	Waiting map[string]struct{}
	// Terminating are the namespaces that are being deleted and that the rule selects. Their copies
	// are deleted with them.
	Terminating map[string]struct{}
	// Grants are the grants that the plan was made with.
	Grants map[types.UID]GrantState
}

// Target is a namespace that gets copies.
type Target struct {
	// UID of the namespace: a namespace that is created again has no copies.
	UID types.UID
	// names are the names that the copies may have. Nil allows all names.
	names []glob.Pattern
}

func (t Target) equal(other Target) bool {
	return t.UID == other.UID && slices.Equal(t.names, other.names)
}

// Allows reports whether a copy in the namespace may have this name.
func (t Target) Allows(name string) bool { return t.names == nil || glob.MatchAny(t.names, name) }

// GrantState is what a plan was made with.
type GrantState struct {
	Generation int64
	// Exceeds means that some names of the grant are not allowed, because of MaxGrantedNames.
	Exceeds bool
}

// MaxGrantedNames limits how many names the grants of a namespace allow to the SecretShares
// of another one. Without it, the owner of the grants could use up the memory for the plans
// of the other namespace.
const MaxGrantedNames = 256

// SetTargets sets the namespaces of a plan. A SecretShare needs grants, and the UID of its own
// namespace. trusted reports whether a policy checked who wrote a grant.
func (p *Plan) SetTargets(namespaces []metav1.PartialObjectMetadata, grants []v1alpha1.SecretShareGrant, trusted func(*v1alpha1.SecretShareGrant) bool) {
	p.targets = targets{
		Targets: map[string]Target{}, Waiting: map[string]struct{}{}, Terminating: map[string]struct{}{}, Missing: map[string]Problem{},
		NoNamespace: p.Rule.IsOfCluster(),
	}
	granted, waiting := p.grantedBy(grants, trusted)
	unmatched := map[string]bool{}
	for i := range namespaces {
		ns := &namespaces[i]
		p.NoNamespace = p.NoNamespace && ns.Name != p.Rule.Namespace
		if !p.Rule.Targets(ns.Name, labels.Set(ns.Labels)) {
			unmatched[ns.Name] = true
			continue
		}
		if !ns.DeletionTimestamp.IsZero() {
			p.Terminating[ns.Name] = struct{}{}
			continue
		}
		if waiting[ns.Name] {
			p.Waiting[ns.Name] = struct{}{}
		}
		if t, ok := granted(ns.Name); ok {
			t.UID = ns.UID
			p.Targets[ns.Name] = t
		}
	}
	for _, name := range p.Rule.NamedTargets() {
		_, isGranted := granted(name)
		_, isWaiting := p.Waiting[name]
		_, isTerminating := p.Terminating[name]
		_, isTarget := p.Targets[name]
		switch {
		case !isGranted && !isWaiting:
			p.Ungranted = append(p.Ungranted, name)
		case unmatched[name]: // a SecretShare reports it only with a grant, which shows that the namespace exists
			p.Missing[name] = Problem{v1alpha1.ReasonTargetNotFound, "it does not match spec.targets.namespaceSelector: add the labels, or correct spec.targets"}
		case p.Rule.IsOfCluster() && !isTarget && !isTerminating:
			p.Missing[name] = Problem{v1alpha1.ReasonTargetNotFound, "it does not exist: create it, or correct spec.targets.names"}
		}
	}
}

// NothingSelected says that no namespace gets copies. It is empty if one does or will, or if another
// problem is reported.
func (p *Plan) NothingSelected() string {
	switch {
	case len(p.Targets)+len(p.Waiting)+len(p.Ungranted)+len(p.Missing) > 0:
		return ""
	case !p.Rule.IsOfCluster():
		return "no namespace that spec.targets selects has a SecretShareGrant for this SecretShare, so there is nothing to copy yet"
	}
	return "spec.targets selects no namespace, so there is nothing to copy yet: a namespace must match all fields of spec.targets"
}

// grantedBy returns a function that reports what a namespace allows the rule to copy. waiting are the
// namespaces with a grant that does not record the rule's namespace yet. It notes the grants that the
// plan depends on. A ClusterSecretShare needs no grant.
func (p *Plan) grantedBy(grants []v1alpha1.SecretShareGrant, trusted func(*v1alpha1.SecretShareGrant) bool) (granted func(namespace string) (Target, bool), waiting map[string]bool) {
	if p.Rule.IsOfCluster() {
		return func(string) (Target, bool) { return Target{}, true }, nil
	}
	p.Grants, waiting = map[types.UID]GrantState{}, map[string]bool{}
	matching := map[string][]*v1alpha1.SecretShareGrant{}
	for i := range grants {
		g := &grants[i]
		if !IsFrom(g, p.Rule.Namespace) {
			continue
		}
		recorded, ok := RecordedFor(g, p.Rule.Namespace)
		switch {
		case ok && trusted(g):
			if p.matches(g, recorded) {
				matching[g.Namespace] = append(matching[g.Namespace], g)
			}
		case g.DeletionTimestamp.IsZero():
			waiting[g.Namespace] = true // the rule is enqueued when the grant has a record, or changes
		}
	}
	allowed := map[string]Target{}
	for namespace, grants := range matching {
		allowed[namespace] = p.grantedNames(grants)
	}
	return func(namespace string) (Target, bool) { t, ok := allowed[namespace]; return t, ok }, waiting
}

// matches reports whether a grant that names the rule's namespace records its present UID. It
// also notes the grants that the plan depends on.
func (p *Plan) matches(g *v1alpha1.SecretShareGrant, recorded v1alpha1.NamespaceIdentity) bool {
	if recorded.UID == p.Rule.NamespaceUID || recorded.Generation == g.Generation {
		p.Grants[g.UID] = GrantState{Generation: g.Generation}
	}
	return recorded.UID == p.Rule.NamespaceUID
}

// grantedNames returns the names that the grants of a namespace allow. If there are too many,
// the names of the oldest grants count.
func (p *Plan) grantedNames(grants []*v1alpha1.SecretShareGrant) Target {
	if slices.ContainsFunc(grants, func(g *v1alpha1.SecretShareGrant) bool { return len(g.Spec.To) == 0 }) {
		return Target{}
	}
	slices.SortFunc(grants, func(a, b *v1alpha1.SecretShareGrant) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	names := make(map[glob.Pattern]struct{}, MaxGrantedNames)
	for _, g := range grants {
		for _, to := range g.Spec.To {
			name := glob.Pattern(to.Name)
			if _, known := names[name]; !known && len(names) == MaxGrantedNames {
				p.Grants[g.UID] = GrantState{Generation: g.Generation, Exceeds: true}
				break
			}
			names[name] = struct{}{}
		}
	}
	return Target{names: slices.Sorted(maps.Keys(names))}
}
