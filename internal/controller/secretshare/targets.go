package secretshare

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// targets returns the namespaces that get copies, and those that the rule names and
// that do not let it in: of namespaces that a pattern or selector may mean, it is
// not said which there are.
func (r *Reconciler) targets(ctx context.Context, rule *share.Rule) (map[string]target, []string, error) {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	lets, err := r.grants(ctx, rule)
	if err != nil {
		return nil, nil, err
	}
	targets := map[string]target{}
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if !ns.DeletionTimestamp.IsZero() || !rule.Targets(ns.Name, labels.Set(ns.Labels)) {
			continue
		}
		if t, ok := lets(ns.Name); ok {
			t.uid = ns.UID
			targets[ns.Name] = t
		}
	}
	var ungranted []string
	for _, name := range rule.NamedTargets() {
		if _, ok := lets(name); !ok {
			ungranted = append(ungranted, name)
		}
	}
	return targets, ungranted, nil
}

// grants returns who lets the rule in: everyone a rule of the cluster, and the
// others those whose grants say so.
func (r *Reconciler) grants(ctx context.Context, rule *share.Rule) (func(namespace string) (target, bool), error) {
	if r.kind == v1alpha1.KindClusterSecretShare {
		return func(string) (target, bool) { return target{}, true }, nil
	}
	var list v1alpha1.SecretShareGrantList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	granted := map[string]target{}
	for i := range list.Items {
		g := &list.Items[i]
		if !slices.Contains(g.Spec.From, v1alpha1.SecretShareGrantFrom{Namespace: rule.Namespace}) {
			continue
		}
		former, ok := granted[g.Namespace]
		granted[g.Namespace] = widen(former, ok, g.Spec.To)
	}
	return func(namespace string) (target, bool) { t, ok := granted[namespace]; return t, ok }, nil
}

// widen returns what a namespace lets in by one more grant.
func widen(former target, granted bool, to []v1alpha1.SecretShareGrantTo) target {
	if len(to) == 0 || granted && former.names == nil {
		return target{}
	}
	t := target{names: slices.Clone(former.names)}
	for _, name := range to {
		t.names = append(t.names, glob.Pattern(name.Name))
	}
	slices.Sort(t.names)
	return t
}
