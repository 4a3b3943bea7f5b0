package secretshare

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// pageSize is how many Secrets are read at once, which may be of 1 MiB each.
const pageSize = 50

// sources returns what a rule shares: as it was read before, unless something may
// have changed since. They are unknown if the selector is wrong, or with an error.
func (r *Reconciler) sources(ctx context.Context, key kube.Key, object Object, rule *share.Rule) (sources, error) {
	if s, ok := r.book.sourcesOf(key, object.GetUID(), object.GetGeneration()); ok {
		return s, nil
	}
	if _, ok := rule.SourceSelector(); !ok {
		return sources{unknown: true}, nil
	}
	r.book.read(key, rule)
	s := sources{wants: map[string]want{}, versions: map[string]string{}, held: map[string]types.UID{}}
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
		s.wants[secret.Name] = want{copy: copied, content: content, source: secret.UID}
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
		return r.eachNamed(ctx, rule, each)
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

func (r *Reconciler) eachNamed(ctx context.Context, rule *share.Rule, each func(*corev1.Secret)) error {
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

func secretMetadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	return list
}
