package secretshare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	// since is when the rule was created.
	since time.Time
	sources
	grace
	// targets are the namespaces that get copies.
	targets map[string]target
	// ungranted are the namespaces that the rule names and that have no grant for it.
	ungranted []string
	// waiting are the target namespaces with a grant whose status does not yet record the
	// rule's namespace. Existing copies there stay as they are.
	waiting map[string]struct{}
	// terminating are the namespaces that are being deleted and that the rule selects. Their copies
	// are deleted with them.
	terminating map[string]struct{}
	// deleting means that the rule is being deleted.
	deleting bool
	// grants are the grants that the plan was made with.
	grants map[types.UID]grantState
	// namespace is the UID of a SecretShare's namespace.
	namespace string
}

// equal reports whether two plans are the same. The versions of the sources stand for
// their content.
func (p *plan) equal(other *plan) bool {
	return p.rule.UID == other.rule.UID && p.generation == other.generation && p.unknown == other.unknown && p.skipped == other.skipped &&
		maps.Equal(p.versions, other.versions) && maps.Equal(p.deleted, other.deleted) && p.settles.Equal(other.settles) && p.unlisted == other.unlisted &&
		slices.Equal(p.ungranted, other.ungranted) && maps.Equal(p.waiting, other.waiting) && maps.Equal(p.grants, other.grants) &&
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
	// held are the UIDs of sources that exist but cannot be copied now, with the names that
	// their copies would have. Their copies stay as they are, also under former names.
	held map[types.UID]string
	// leftOut are labels and annotations of tools that are not copied, at most maxLeftOut.
	leftOut []string
	// unknown means that nothing was read. Copies of all Secrets that the rule may
	// select stay as they are.
	unknown bool
	// skipped means that nothing was read, because no namespace gets copies.
	skipped bool
}

// maxLeftOut is how many labels and annotations of tools a status names.
const maxLeftOut = 5

// addLeftOut adds labels and annotations of tools, up to the limit.
func (s *sources) addLeftOut(keys []string) {
	for _, key := range keys {
		if len(s.leftOut) < maxLeftOut && !slices.Contains(s.leftOut, key) {
			s.leftOut = append(s.leftOut, key)
		}
	}
}

// hold returns the sources with all copies held and none wanted.
func (s sources) hold() sources {
	held := maps.Clone(s.held)
	for name, want := range s.wanted {
		held[want.sourceUID] = name
	}
	s.wanted, s.held = nil, held
	return s
}

// wantedCopy is a copy to write. The data is not in memory until it is written: see
// [contents].
type wantedCopy struct {
	// content identifies the content: it differs if the rule or the source has changed.
	content string
	// source and sourceUID are the name and UID of the source.
	source    string
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

// keeps reports whether an existing copy stays: it is still wanted, or its source cannot be
// copied now or was deleted a moment ago. It also stays if its grant is not recorded yet.
func (p *plan) keeps(name types.NamespacedName, c copyState) bool {
	if _, ok := p.waiting[name.Namespace]; ok {
		return true
	}
	t, isTarget := p.targets[name.Namespace]
	if !isTarget || !t.allows(name.Name) {
		return false
	}
	if p.unknown {
		source, ok := strings.CutPrefix(c.source, p.rule.Namespace+"/")
		return ok && p.rule.AllowsName(source)
	}
	_, wanted := p.wanted[name.Name]
	_, held := p.held[c.sourceUID]
	return wanted || held || p.awaits(c)
}

// isAffectedBy reports whether a change of a Secret in the source's namespace can change
// the plan.
func (p *plan) isAffectedBy(o observation) bool {
	if p.skipped {
		return false
	}
	read, wasRead := p.versions[o.name]
	if wasRead {
		return read != o.version
	}
	return o.version != absent && p.rule.MaySelect(o.name, o.labels)
}

// desired returns how many copies should exist, also those that cannot be updated now.
func (p *plan) desired() int {
	return (len(p.ungranted) + len(p.targets)) * (len(p.wanted) + len(p.held))
}

// setSources sets what the rule of a plan shares. It reads the Secrets only if there is a
// namespace to copy them to, and if they may have changed since the last plan. The sources
// are unknown if the selector is invalid, or if there is an error.
func (r *Reconciler) setSources(ctx context.Context, p *plan, object Object) error {
	if len(p.targets)+len(p.ungranted) == 0 {
		p.sources = sources{skipped: true}
		return nil
	}
	if s, ok := r.store.cachedSources(p); ok {
		p.sources = s
		return nil
	}
	p.sources = sources{unknown: true}
	if _, ok := p.rule.SourceSelector(); !ok {
		return nil
	}
	r.store.beginRead(p.key, p.rule)
	s, err := r.readSources(ctx, p, object)
	if err == nil {
		p.sources = s
	}
	return err
}

// readSources reads the Secrets that the rule of a plan selects. The error is errOverBudget
// if they are too many for any budget.
func (r *Reconciler) readSources(ctx context.Context, p *plan, object Object) (sources, error) {
	s := sources{wanted: map[string]wantedCopy{}, versions: map[string]string{}, held: map[types.UID]string{}}
	if exists, err := r.checkSource(ctx, object); err != nil || !exists {
		return s, err
	}
	refused, taken := map[string]share.Refusal{}, map[string]bool{} // names of copies
	err := r.eachSource(ctx, p.rule, func(secret *corev1.Secret) error {
		if len(s.versions) == maxSources(r.kind) {
			return errOverBudget
		}
		s.versions[secret.Name] = versionOf(secret.UID, secret.ResourceVersion)
		name := p.rule.CopyName(secret.Name)
		refusal := refuse(p.rule, secret, taken[name])
		switch {
		case refusal == nil:
			content := fmt.Sprint(p.rule.UID, p.generation, s.versions[secret.Name])
			s.wanted[name] = wantedCopy{content: content, source: secret.Name, sourceUID: secret.UID}
			r.contents.keep(secret)
		case refusal.Reason == v1alpha1.ReasonKeyNotFound:
			s.held[secret.UID] = name
			refused[secret.Name] = *refusal
		default:
			refused[secret.Name] = *refusal
			return nil
		}
		taken[name] = true
		s.addLeftOut(p.rule.LeftOut(secret))
		return nil
	})
	// Check the namespace again: it may have been recreated before the Secrets were read.
	if exists, changed := r.checkSource(ctx, object); err == nil && (changed != nil || !exists) {
		err = cmp.Or(changed, errors.New("its namespace was deleted a moment ago"))
	}
	if err != nil {
		return sources{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		s.refused = append(s.refused, refused[name])
	}
	return s, nil
}

// refuse returns the reason why a Secret is not copied, or nil. taken means that the copy of
// another Secret has the name of its copy.
func refuse(rule *share.Rule, secret *corev1.Secret, taken bool) *share.Refusal {
	if taken {
		return &share.Refusal{Reason: v1alpha1.ReasonSourceRefused, Message: fmt.Sprintf(
			"the copy of Secret %s would have the name %s, which the copy of another Secret has: correct spec.copyName",
			client.ObjectKeyFromObject(secret), rule.CopyName(secret.Name))}
	}
	_, refusal := rule.Copy(secret)
	return refusal
}

// eachSource reads the Secrets that the rule selects.
func (r *Reconciler) eachSource(ctx context.Context, rule *share.Rule, each func(*corev1.Secret) error) error {
	if len(rule.Source.Names) > 0 {
		return r.eachNamedSource(ctx, rule, each)
	}
	selector, _ := rule.SourceSelector()
	opts := []client.ListOption{client.InNamespace(rule.Namespace), client.MatchingLabelsSelector{Selector: selector}}
	if rule.Source.Type != "" {
		opts = append(opts, client.MatchingFields{"type": rule.Source.Type})
	}
	return r.contents.list(ctx, each, opts...)
}

func (r *Reconciler) eachNamedSource(ctx context.Context, rule *share.Rule, each func(*corev1.Secret) error) error {
	for _, name := range rule.Source.Names {
		secret, err := r.contents.read(ctx, types.NamespacedName{Namespace: rule.Namespace, Name: name})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case rule.Selects(secret):
			if err := each(secret); err != nil {
				return err
			}
		}
	}
	return nil
}

// setTargets sets the namespaces that get copies, and the namespaces that the rule names
// without a grant. Other namespaces without a grant are in neither: the author of the rule
// must not learn that they exist.
func (r *Reconciler) setTargets(ctx context.Context, p *plan, object Object) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	granted, waiting, err := r.readGrants(ctx, p, object)
	if err != nil {
		return err
	}
	p.targets, p.waiting, p.terminating = map[string]target{}, map[string]struct{}{}, map[string]struct{}{}
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if !p.rule.Targets(ns.Name, labels.Set(ns.Labels)) {
			continue
		}
		if !ns.DeletionTimestamp.IsZero() {
			p.terminating[ns.Name] = struct{}{}
			continue
		}
		if _, ok := waiting[ns.Name]; ok {
			p.waiting[ns.Name] = struct{}{}
		}
		if t, ok := granted(ns.Name); ok {
			t.uid = ns.UID
			p.targets[ns.Name] = t
		}
	}
	for _, name := range p.rule.NamedTargets() {
		_, isGranted := granted(name)
		if _, isWaiting := p.waiting[name]; !isGranted && !isWaiting {
			p.ungranted = append(p.ungranted, name)
		}
	}
	return nil
}

// readGrants sets the grants of the plan. It returns a function that reports what a
// namespace allows the rule to copy. waiting are the namespaces with a grant that does not
// record the rule's namespace yet. A ClusterSecretShare needs no grant.
func (r *Reconciler) readGrants(ctx context.Context, p *plan, object Object) (granted func(namespace string) (target, bool), waiting map[string]struct{}, err error) {
	if r.kind == v1alpha1.KindClusterSecretShare {
		return func(string) (target, bool) { return target{}, true }, nil, nil
	}
	var list v1alpha1.SecretShareGrantList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	if err := r.setNamespace(ctx, p, object); err != nil {
		return nil, nil, err
	}
	waiting = map[string]struct{}{}
	p.grants = map[types.UID]grantState{}
	matching := map[string][]*v1alpha1.SecretShareGrant{}
	for i := range list.Items {
		g := &list.Items[i]
		if !isFrom(g, p.rule.Namespace) {
			continue
		}
		recorded, ok := recordedFor(g, p.rule.Namespace)
		ok = ok && !r.policies.IsUnchecked(g)
		if !ok && g.DeletionTimestamp.IsZero() {
			waiting[g.Namespace] = struct{}{} // the rule is enqueued when the grant has a record, or changes
		}
		if !ok {
			continue
		}
		if p.matches(g, recorded) {
			matching[g.Namespace] = append(matching[g.Namespace], g)
		}
	}
	targets := map[string]target{}
	for namespace, grants := range matching {
		targets[namespace] = p.grantedNames(grants)
	}
	return func(namespace string) (target, bool) { t, ok := targets[namespace]; return t, ok }, waiting, nil
}

// matches reports whether a grant that names the rule's namespace records its present UID. It
// also notes the grants that the plan depends on.
func (p *plan) matches(g *v1alpha1.SecretShareGrant, recorded v1alpha1.NamespaceIdentity) bool {
	if recorded.UID == p.namespace || recorded.Generation == g.Generation {
		p.grants[g.UID] = grantState{generation: g.Generation}
	}
	return recorded.UID == p.namespace
}

// maxGrantedNames limits how many names the grants of a namespace allow to the SecretShares
// of another one. Without it, the owner of the grants could use up the memory for the plans
// of the other namespace.
const maxGrantedNames = 256

// grantState is what a plan was made with.
type grantState struct {
	generation int64
	// exceeds means that some names of the grant are not allowed, because of maxGrantedNames.
	exceeds bool
}

// grantedNames returns the names that the grants of a namespace allow. If there are too many,
// the names of the oldest grants count.
func (p *plan) grantedNames(grants []*v1alpha1.SecretShareGrant) target {
	if slices.ContainsFunc(grants, func(g *v1alpha1.SecretShareGrant) bool { return len(g.Spec.To) == 0 }) {
		return target{}
	}
	slices.SortFunc(grants, func(a, b *v1alpha1.SecretShareGrant) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	names := make(map[glob.Pattern]struct{}, maxGrantedNames)
	for _, g := range grants {
		for _, to := range g.Spec.To {
			name := glob.Pattern(to.Name)
			if _, known := names[name]; !known && len(names) == maxGrantedNames {
				p.grants[g.UID] = grantState{generation: g.Generation, exceeds: true}
				break
			}
			names[name] = struct{}{}
		}
	}
	return target{names: slices.Sorted(maps.Keys(names))}
}
