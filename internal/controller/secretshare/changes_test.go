package secretshare

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// change is one random change by a user.
type change func(ctx context.Context, m *Model, rng *rand.Rand) error

// sourceChanges change the Secrets that the rule shares.
var sourceChanges = map[string]change{
	"create a source": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(rng, m.Sources), Name: oneOf(rng, secretNames), Labels: shareLabel},
			Type:       corev1.SecretTypeOpaque, Data: m.newData(rng.IntN(2) > 0),
		}
		return m.Client.Create(ctx, secret)
	},
	"delete a source": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.Client.Delete(ctx, m.someSource(rng))
	},
	"rotate a source": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.update(ctx, m.someSource(rng), func(s *corev1.Secret) { s.Data = m.newData(s.Data[password] != nil) })
	},
	"add or remove a source's key": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.update(ctx, m.someSource(rng), func(s *corev1.Secret) { s.Data = m.newData(s.Data[password] == nil) })
	},
	"add or remove a source's label": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.update(ctx, m.someSource(rng), func(s *corev1.Secret) {
			if s.Labels == nil {
				s.Labels = shareLabel
			} else {
				s.Labels = nil
			}
		})
	},
	"mark a source as a copy, or not": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.update(ctx, m.someSource(rng), func(s *corev1.Secret) {
			if s.Annotations == nil {
				s.Annotations = map[string]string{share.AnnotationRuleUID: "another", share.AnnotationSourceUID: "another"}
			} else {
				s.Annotations = nil
			}
		})
	},
}

// otherChanges change the rule, its targets and its copies.
var otherChanges = map[string]change{
	"create the rule": func(ctx context.Context, m *Model, _ *rand.Rand) error { return m.createRule(ctx) },
	"delete the rule": func(ctx context.Context, m *Model, _ *rand.Rand) error {
		return m.Client.Delete(ctx, m.newRule())
	},
	"replace the rule and leave its copies": func(ctx context.Context, m *Model, _ *rand.Rand) error { return m.replaceRule(ctx) },
	"suspend or resume": func(ctx context.Context, m *Model, _ *rand.Rand) error {
		return m.changeRule(ctx, func(_ *v1alpha1.ClusterSecretSource, s *v1alpha1.SecretCopySpec) { s.Suspend = !s.Suspend })
	},
	"change the deletion policy": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.changeRule(ctx, func(_ *v1alpha1.ClusterSecretSource, s *v1alpha1.SecretCopySpec) {
			s.DeletionPolicy = oneOf(rng, []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyDelete, v1alpha1.DeletionPolicyRetain})
		})
	},
	"change the keys": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.changeRule(ctx, func(_ *v1alpha1.ClusterSecretSource, s *v1alpha1.SecretCopySpec) {
			s.Keys = oneOf(rng, [][]v1alpha1.SecretKeyMapping{nil, {{From: password, To: "pass"}}})
		})
	},
	"change the sources": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.changeRule(ctx, func(source *v1alpha1.ClusterSecretSource, _ *v1alpha1.SecretCopySpec) {
			if m.Kind == v1alpha1.KindClusterSecretShare {
				source.Namespace = oneOf(rng, m.Sources)
			}
			source.Names, source.Selector = nil, oneOf(rng, []*metav1.LabelSelector{{MatchLabels: shareLabel}, invalidSelector})
			if rng.IntN(2) > 0 {
				source.Names, source.Selector = secretNames[:1+rng.IntN(2)], nil
			}
		})
	},
	"exclude or include a namespace": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.changeRule(ctx, func(_ *v1alpha1.ClusterSecretSource, s *v1alpha1.SecretCopySpec) {
			s.Targets.Exclude = toggle(s.Targets.Exclude, v1alpha1.NamespaceGlob(oneOf(rng, m.Targets)))
		})
	},
	"change the names of the targets": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.changeRule(ctx, func(_ *v1alpha1.ClusterSecretSource, s *v1alpha1.SecretCopySpec) {
			names := oneOf(rng, [][]string{nil, m.Targets[1:], {m.Targets[0], m.Sources[0]}})
			s.Targets.Names = nil
			for _, name := range names {
				s.Targets.Names = append(s.Targets.Names, v1alpha1.NamespaceGlob(name))
			}
		})
	},
	"change the selector of the targets": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.changeRule(ctx, func(_ *v1alpha1.ClusterSecretSource, s *v1alpha1.SecretCopySpec) {
			s.Targets.NamespaceSelector = oneOf(rng, []*metav1.LabelSelector{m.anyTarget(), m.labelledTarget(), invalidSelector})
		})
	},
	"label or unlabel a namespace": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.labelTarget(ctx, oneOf(rng, m.Targets))
	},
	"create a grant": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		grant := m.newGrant(oneOf(rng, m.Targets))
		grant.Spec.To = someNames(rng)
		return m.Client.Create(ctx, grant)
	},
	"change a grant": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		grant := m.newGrant(oneOf(rng, m.Targets))
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		grant.Spec.To = someNames(rng)
		return m.Client.Update(ctx, grant)
	},
	"delete a grant": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.Client.Delete(ctx, m.newGrant(oneOf(rng, m.Targets)))
	},
	"delete the Secret in a slot": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.inSlot(ctx, rng, func(secret *corev1.Secret) error { return m.Client.Delete(ctx, secret) })
	},
	"edit the Secret in a slot": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.inSlot(ctx, rng, func(secret *corev1.Secret) error {
			return m.update(ctx, secret, func(s *corev1.Secret) { s.Data = m.newData(true) })
		})
	},
	"create a foreign Secret in a slot": func(ctx context.Context, m *Model, rng *rand.Rand) error {
		return m.inSlot(ctx, rng, func(secret *corev1.Secret) error {
			secret.Type, secret.Data = corev1.SecretTypeOpaque, m.newData(true)
			return m.Client.Create(ctx, secret)
		})
	},
}

// password is the key that the rule may require.
const password = "password"

var (
	shareLabel      = map[string]string{"share": "yes"}
	invalidSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "In"}}}
)

// Change makes one random change and describes it. An impossible change has no effect.
func (m *Model) Change(ctx context.Context, rng *rand.Rand) (string, error) {
	if rng.IntN(3) == 0 {
		return m.changeOneOf(ctx, rng, sourceChanges)
	}
	return m.changeOneOf(ctx, rng, otherChanges)
}

func (m *Model) changeOneOf(ctx context.Context, rng *rand.Rand, changes map[string]change) (string, error) {
	what := oneOf(rng, slices.Sorted(maps.Keys(changes)))
	err := changes[what](ctx, m, rng)
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
		return what + ": not possible", nil
	}
	if err != nil {
		return what, err
	}
	return what, m.Observe(ctx)
}

// Prepare creates the sources, the rule and its grants.
func (m *Model) Prepare(ctx context.Context) error {
	for _, name := range secretNames {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.Sources[0], Name: name, Labels: shareLabel},
			Type:       corev1.SecretTypeOpaque, Data: m.newData(true),
		}
		if err := m.Client.Create(ctx, secret); err != nil {
			return err
		}
	}
	if m.Kind == v1alpha1.KindSecretShare {
		for _, namespace := range m.Targets {
			if err := m.Client.Create(ctx, m.newGrant(namespace)); err != nil {
				return err
			}
		}
	}
	if err := m.createRule(ctx); err != nil {
		return err
	}
	return m.Observe(ctx)
}

// DeleteRule deletes the rule, if there is one.
func (m *Model) DeleteRule(ctx context.Context) error {
	if err := m.Client.Delete(ctx, m.newRule()); client.IgnoreNotFound(err) != nil {
		return err
	}
	return m.Observe(ctx)
}

// replaceRule deletes the rule without its finalizer, and creates it again, as from a backup. The
// operator may begin to remove the copies.
func (m *Model) replaceRule(ctx context.Context) error {
	if err := m.Client.Delete(ctx, m.newRule()); err != nil {
		return err
	}
	if err := m.Observe(ctx); err != nil {
		return err
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		rule := m.newRule()
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		rule.SetFinalizers(nil)
		return m.Client.Update(ctx, rule)
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return m.createRule(ctx, Finalizer)
}

// createRule creates the rule, which shares everything with all targets.
func (m *Model) createRule(ctx context.Context, finalizers ...string) error {
	rule := m.newRule()
	rule.SetFinalizers(finalizers)
	*sourceOf(rule) = v1alpha1.SecretSource{Names: secretNames}
	if o, ok := rule.(*v1alpha1.ClusterSecretShare); ok {
		o.Spec.Source.Namespace = m.Sources[0]
	}
	spec := rule.CopySpec()
	spec.DeletionPolicy, spec.SourceDeletionGraceSeconds = v1alpha1.DeletionPolicyDelete, new(m.Grace)
	spec.Targets.NamespaceSelector, spec.Targets.Exclude = m.anyTarget(), []v1alpha1.NamespaceGlob{}
	spec.Keys = []v1alpha1.SecretKeyMapping{{From: password, To: "pass"}}
	return m.Client.Create(ctx, rule)
}

func sourceOf(rule Object) *v1alpha1.SecretSource {
	if o, ok := rule.(*v1alpha1.ClusterSecretShare); ok {
		return &o.Spec.Source.SecretSource
	}
	return &rule.(*v1alpha1.SecretShare).Spec.Source
}

// changeRule changes the rule. It retries if the operator writes it at the same time.
func (m *Model) changeRule(ctx context.Context, change func(*v1alpha1.ClusterSecretSource, *v1alpha1.SecretCopySpec)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		rule := m.newRule()
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		source := rule.ClusterSource()
		change(&source, rule.CopySpec())
		*sourceOf(rule) = source.SecretSource
		if o, ok := rule.(*v1alpha1.ClusterSecretShare); ok {
			o.Spec.Source.Namespace = source.Namespace
		}
		return m.Client.Update(ctx, rule)
	})
}

// update changes a Secret. It retries if the operator writes it at the same time.
func (m *Model) update(ctx context.Context, secret *corev1.Secret, change func(*corev1.Secret)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		change(secret)
		return m.Client.Update(ctx, secret)
	})
}

// inSlot changes the content of a slot, which becomes its start.
func (m *Model) inSlot(ctx context.Context, rng *rand.Rand, change func(*corev1.Secret) error) error {
	key := types.NamespacedName{Namespace: oneOf(rng, m.Targets), Name: oneOf(rng, secretNames)}
	if err := change(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		return err
	}
	var err error
	m.slots[key].start, err = m.occupant(ctx, key)
	return err
}

// labelKey is the label of all targets. Its value is the name of the rule.
const labelKey = "test"

// TargetLabels are the labels of all targets.
func (m *Model) TargetLabels() map[string]string { return map[string]string{labelKey: m.Rule} }

func (m *Model) anyTarget() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: m.TargetLabels()}
}

func (m *Model) labelledTarget() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelKey: m.Rule, "labelled": "yes"}}
}

// labelTarget adds or removes the label that some rules select.
func (m *Model) labelTarget(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return err
	}
	patch := `{"metadata":{"labels":{"labelled":"yes"}}}`
	if namespace.Labels["labelled"] != "" {
		patch = `{"metadata":{"labels":{"labelled":null}}}`
	}
	return m.Client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (m *Model) someSource(rng *rand.Rand) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(rng, m.Sources), Name: oneOf(rng, secretNames)}}
}

// newData returns data that no Secret had before.
func (m *Model) newData(withPassword bool) map[string][]byte {
	m.changes++
	value := []byte(fmt.Sprint("value-", m.changes))
	if withPassword {
		return map[string][]byte{password: value}
	}
	return map[string][]byte{"other": value}
}

func someNames(rng *rand.Rand) []v1alpha1.SecretShareGrantTo {
	return oneOf(rng, [][]v1alpha1.SecretShareGrantTo{nil, {{Name: secretNames[0]}}})
}

func oneOf[T any](rng *rand.Rand, values []T) T { return values[rng.IntN(len(values))] }

func toggle[T comparable](values []T, value T) []T {
	if i := slices.Index(values, value); i >= 0 {
		return slices.Delete(values, i, i+1)
	}
	return append(values, value)
}
