package secretshare

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// plan is the desired state of a rule: which Secrets to copy to which namespaces. It is
// immutable.
type plan struct {
	key  kube.Key
	rule *share.Rule
	// generation of the rule when the plan was made.
	generation int64
	sources
	// targets are the namespaces that get copies.
	targets map[string]target
	// ungranted are the namespaces that the rule names and that have no grant for it.
	ungranted []string
	// grants are the generations of the grants that the plan was made with.
	grants map[types.UID]int64
}

// equal reports whether two plans are the same. The versions of the sources stand for
// their content.
func (p *plan) equal(other *plan) bool {
	return p.rule.UID == other.rule.UID && p.generation == other.generation && p.unknown == other.unknown &&
		maps.Equal(p.versions, other.versions) &&
		slices.Equal(p.ungranted, other.ungranted) && maps.Equal(p.grants, other.grants) &&
		maps.EqualFunc(p.targets, other.targets, target.equal)
}

// sources are the Secrets that a rule shares.
type sources struct {
	// wanted are the copies to write, by name.
	wanted map[string]wantedCopy
	// versions are the UID and resourceVersion of each Secret that was read, also of
	// those that are not copied.
	versions map[string]string
	// refused are the reasons why Secrets are not copied, ordered by name of the Secret.
	refused []share.Refusal
	// held are the UIDs of sources, by their names, that exist but cannot be copied
	// now. Their copies stay as they are.
	held map[string]types.UID
	// unknown means that nothing was read. Copies of all Secrets that the rule may
	// select stay as they are.
	unknown bool
}

// hold returns the sources with all copies held and none wanted.
func (s sources) hold() sources {
	held := maps.Clone(s.held)
	for name, want := range s.wanted {
		held[name] = want.sourceUID
	}
	s.wanted, s.held = nil, held
	return s
}

// wantedCopy is a copy to write. It has no namespace yet.
type wantedCopy struct {
	copy *corev1.Secret
	// content identifies the content: it differs if the rule or the source has changed.
	content string
	// sourceUID is the UID of the source.
	sourceUID types.UID
}

// target is a namespace that gets copies.
type target struct {
	// uid of the namespace: a namespace that is created again has no copies.
	uid types.UID
	// names are the names that the copies may have. Nil allows all names.
	names []glob.Pattern
}

func (t target) equal(other target) bool {
	return t.uid == other.uid && slices.Equal(t.names, other.names)
}

func (t target) allows(name string) bool { return t.names == nil || glob.MatchAny(t.names, name) }

// copiesIn returns the names of the wanted copies in a namespace, and the names that no
// grant of the namespace allows.
func (p *plan) copiesIn(namespace string) (names, denied []string) {
	t, ok := p.targets[namespace]
	if !ok {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.wanted)) {
		if t.allows(name) {
			names = append(names, name)
		} else {
			denied = append(denied, name)
		}
	}
	return names, denied
}

// keeps reports whether an existing copy stays: it is still wanted, or its source
// cannot be copied now.
func (p *plan) keeps(name types.NamespacedName, c copyState) bool {
	t, isTarget := p.targets[name.Namespace]
	if !isTarget || !t.allows(name.Name) {
		return false
	}
	if p.unknown {
		return p.rule.AllowsName(name.Name) && c.source == p.rule.Namespace+"/"+name.Name
	}
	_, wanted := p.wanted[name.Name]
	return wanted || p.held[name.Name] == c.sourceUID
}

// isAffectedBy reports whether a change of a Secret in the source's namespace can change
// the plan.
func (p *plan) isAffectedBy(o observation) bool {
	read, wasRead := p.versions[o.name]
	if wasRead {
		return read != o.version
	}
	return o.version != absent && p.rule.MaySelect(o.name, o.labels)
}

// desired returns how many copies should exist.
func (p *plan) desired() int {
	n := len(p.ungranted) * len(p.wanted)
	return n + len(p.targets)*len(p.wanted)
}

// pageSize limits a list of Secrets, because each can have 1 MiB.
const pageSize = 50

// readSources returns what a rule shares. It reads the Secrets only if they may have
// changed since the last plan. The result is unknown if the selector is invalid, or if
// there is an error.
func (r *Reconciler) readSources(ctx context.Context, key kube.Key, object Object, rule *share.Rule) (sources, error) {
	if s, ok := r.store.cachedSources(key, object.GetUID(), object.GetGeneration()); ok {
		return s, nil
	}
	if _, ok := rule.SourceSelector(); !ok {
		return sources{unknown: true}, nil
	}
	r.store.beginRead(key, rule)
	s := sources{wanted: map[string]wantedCopy{}, versions: map[string]string{}, held: map[string]types.UID{}}
	refused := map[string]share.Refusal{}
	err := r.eachSource(ctx, rule, func(secret *corev1.Secret) {
		s.versions[secret.Name] = versionOf(secret.UID, secret.ResourceVersion)
		copied, refusal := rule.Copy(secret)
		if refusal != nil {
			refused[secret.Name] = *refusal
			if refusal.Reason == v1alpha1.ReasonKeyNotFound {
				s.held[secret.Name] = secret.UID
			}
			return
		}
		content := fmt.Sprint(object.GetUID(), object.GetGeneration(), s.versions[secret.Name])
		s.wanted[secret.Name] = wantedCopy{copy: copied, content: content, sourceUID: secret.UID}
	})
	if err != nil {
		return sources{unknown: true}, err
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		s.refused = append(s.refused, refused[name])
	}
	return s, nil
}

// eachSource reads the Secrets that the rule selects.
func (r *Reconciler) eachSource(ctx context.Context, rule *share.Rule, each func(*corev1.Secret)) error {
	if len(rule.Source.Names) > 0 {
		return r.eachNamedSource(ctx, rule, each)
	}
	selector, _ := rule.SourceSelector()
	opts := []client.ListOption{
		client.InNamespace(rule.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.Limit(pageSize),
	}
	if rule.Source.Type != "" {
		opts = append(opts, client.MatchingFields{"type": rule.Source.Type})
	}
	for next := ""; ; {
		var list corev1.SecretList
		if err := r.live.List(ctx, &list, append(opts, client.Continue(next))...); err != nil {
			return err
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

func (r *Reconciler) eachNamedSource(ctx context.Context, rule *share.Rule, each func(*corev1.Secret)) error {
	for _, name := range rule.Source.Names {
		var secret corev1.Secret
		err := r.live.Get(ctx, client.ObjectKey{Namespace: rule.Namespace, Name: name}, &secret)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case rule.Selects(&secret):
			each(&secret)
		}
	}
	return nil
}

// setTargets sets the namespaces that get copies, and the namespaces that the rule names
// without a grant. Other namespaces without a grant are in neither: the author of the rule
// must not learn that they exist.
func (r *Reconciler) setTargets(ctx context.Context, p *plan) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	granted, err := r.readGrants(ctx, p)
	if err != nil {
		return err
	}
	p.targets = map[string]target{}
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if !ns.DeletionTimestamp.IsZero() || !p.rule.Targets(ns.Name, labels.Set(ns.Labels)) {
			continue
		}
		if t, ok := granted(ns.Name); ok {
			t.uid = ns.UID
			p.targets[ns.Name] = t
		}
	}
	for _, name := range p.rule.NamedTargets() {
		if _, ok := granted(name); !ok {
			p.ungranted = append(p.ungranted, name)
		}
	}
	return nil
}

// readGrants sets the grants of the plan. It returns a function that reports what a
// namespace allows the rule to copy. A ClusterSecretShare needs no grant.
func (r *Reconciler) readGrants(ctx context.Context, p *plan) (func(namespace string) (target, bool), error) {
	if r.kind == v1alpha1.KindClusterSecretShare {
		return func(string) (target, bool) { return target{}, true }, nil
	}
	var list v1alpha1.SecretShareGrantList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	p.grants = map[types.UID]int64{}
	granted := map[string]target{}
	for i := range list.Items {
		g := &list.Items[i]
		if !isFrom(g, p.rule.Namespace) {
			continue
		}
		p.grants[g.UID] = g.Generation
		before, ok := granted[g.Namespace]
		granted[g.Namespace] = addGrant(before, ok, g.Spec.To)
	}
	return func(namespace string) (target, bool) { t, ok := granted[namespace]; return t, ok }, nil
}

// addGrant adds the names of one more grant to a target.
func addGrant(before target, granted bool, to []v1alpha1.SecretShareGrantTo) target {
	if len(to) == 0 || granted && before.names == nil {
		return target{}
	}
	t := target{names: slices.Clone(before.names)}
	for _, name := range to {
		t.names = append(t.names, glob.Pattern(name.Name))
	}
	slices.Sort(t.names)
	return t
}
