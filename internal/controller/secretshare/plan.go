package secretshare

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// plan is the plan of a rule with this key.
type plan struct {
	share.Plan
	key kube.Key
}

func newPlan(key kube.Key, rule *share.Rule, object Object) *plan {
	return &plan{key: key, Plan: share.Plan{Rule: rule, Generation: object.GetGeneration(), Since: object.GetCreationTimestamp().Time}}
}

// setSources sets what the rule of a plan shares. It reads the Secrets only if there is a
// namespace to copy them to, and if they may have changed since the last plan. The sources
// are unknown if the selector is invalid, or if there is an error.
func (r *Reconciler) setSources(ctx context.Context, p *plan, object Object) error {
	if len(p.Targets)+len(p.Ungranted) == 0 {
		p.Sources = share.Sources{Skipped: true}
		return nil
	}
	if s, ok := r.store.cachedSources(p); ok {
		p.Sources = s
		return nil
	}
	p.Sources = share.Sources{Unknown: true}
	if _, ok := p.Rule.SourceSelector(); !ok || p.Rule.InvalidSource() != "" {
		return nil
	}
	r.store.beginRead(p.key, p.Rule)
	s, err := r.readSources(ctx, p, object)
	if err == nil {
		p.Sources = s
	}
	return err
}

// readSources reads the Secrets that the rule of a plan selects. The error is errOverBudget
// if they are too many for any budget.
func (r *Reconciler) readSources(ctx context.Context, p *plan, object Object) (share.Sources, error) {
	selection := share.NewSelection(&p.Plan)
	if exists, err := r.checkSource(ctx, object); err != nil || !exists {
		return selection.Sources(), err
	}
	err := r.eachSource(ctx, p.Rule, func(secret *corev1.Secret) error {
		if selection.Len() == maxSources(r.kind) {
			return errOverBudget
		}
		if selection.Add(secret) {
			r.contents.keep(secret)
		}
		return nil
	}, func(secret *corev1.Secret) { selection.AddNear(secret) })
	if err == nil && selection.Len() == 0 && len(p.Rule.Source.Names) == 0 {
		err = r.addNear(ctx, p.Rule, selection)
	}
	// Check the namespace again: it may have been recreated before the Secrets were read.
	if exists, changed := r.checkSource(ctx, object); err == nil && (changed != nil || !exists) {
		err = cmp.Or(changed, errors.New("its namespace was deleted a moment ago"))
	}
	if err != nil {
		return share.Sources{}, err
	}
	return selection.Sources(), nil
}

// maxNearReads limits the Secrets that are read to find those that a rule nearly selects.
const maxNearReads = 20

// addNear adds Secrets to a selection that is empty, so that the status says why. It reads only some of
// the namespace.
func (r *Reconciler) addNear(ctx context.Context, rule *share.Rule, selection *share.Selection) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.live.List(ctx, list, client.InNamespace(rule.Namespace), client.Limit(maxNearReads)); err != nil {
		return err
	}
	for i := range list.Items {
		secret, err := r.contents.read(ctx, client.ObjectKeyFromObject(&list.Items[i]))
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case !selection.AddNear(secret):
			return nil
		}
	}
	return nil
}

// eachSource reads the Secrets that the rule selects. It calls near for those that the rule names
// and does not select.
func (r *Reconciler) eachSource(ctx context.Context, rule *share.Rule, each func(*corev1.Secret) error, near func(*corev1.Secret)) error {
	if len(rule.Source.Names) > 0 {
		return r.eachNamedSource(ctx, rule, each, near)
	}
	selector, _ := rule.SourceSelector()
	opts := []client.ListOption{client.InNamespace(rule.Namespace), client.MatchingLabelsSelector{Selector: selector}}
	if rule.Source.Type != "" {
		opts = append(opts, client.MatchingFields{"type": rule.Source.Type})
	}
	return r.contents.list(ctx, each, opts...)
}

func (r *Reconciler) eachNamedSource(ctx context.Context, rule *share.Rule, each func(*corev1.Secret) error, near func(*corev1.Secret)) error {
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
		default:
			near(secret)
		}
	}
	return nil
}

// setTargets sets the namespaces of a plan.
func (r *Reconciler) setTargets(ctx context.Context, p *plan) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var grants v1alpha1.SecretShareGrantList
	if !p.Rule.IsOfCluster() {
		if err := r.client.List(ctx, &grants, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	p.SetTargets(namespaces.Items, grants.Items, func(g *v1alpha1.SecretShareGrant) bool { return !r.policies.IsUnchecked(g) })
	return nil
}

// setGrace sets which copies of a plan stay although their source was deleted. An error means that it
// is not known whether a source was deleted.
func (r *Reconciler) setGrace(ctx context.Context, p *plan) error {
	last, listed := r.store.lastPlan(p.key)
	former := share.Former{
		Listed: listed, Copies: r.store.copiesOf(p.Rule),
		Exists: func(source string, uid types.UID) (bool, error) {
			live := &metav1.PartialObjectMetadata{}
			live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			err := r.live.Get(ctx, types.NamespacedName{Namespace: p.Rule.Namespace, Name: source}, live)
			return err == nil && live.UID == uid, client.IgnoreNotFound(err)
		},
	}
	if last != nil && last.Rule.UID == p.Rule.UID {
		former.Plan = &last.Plan
	}
	return p.SetGrace(former, r.clock.Now())
}

// announceExpiry emits one Event on a rule about copies whose source was not found at the start. The
// condition reports a source that was deleted later.
func (r *Reconciler) announceExpiry(ctx context.Context, p *plan, object Object) {
	note := p.ExpiryNote(r.store.countExpiring(p))
	if note == "" {
		return
	}
	err := r.writer.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonSourceDeleted, Action: "Remove", Note: note, Identity: note, Since: r.clock.Now(),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to emit the Event about copies without a source", "rule", p.key)
	}
}

// announceRemovals emits one Event on a rule about the copies that its plan removes, however many.
func (r *Reconciler) announceRemovals(ctx context.Context, p *plan, object Object) {
	removals := r.store.takeRemovals(p.key)
	if len(removals) == 0 {
		return
	}
	note := p.Rule.RemovalNote(removals)
	err := r.writer.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonRemovingCopies, Action: "Remove", Note: note, Identity: note, Since: r.clock.Now(),
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to emit the Event about removed copies", "rule", p.key, "removed", note)
	}
}
