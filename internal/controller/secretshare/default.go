package secretshare

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// The rule that is there from the start: every Secret of a type, of a namespace,
// goes to all others.
const (
	defaultRule = "secretsync"
	defaultType = v1alpha1.Group + "/secretsync"
)

// EnsureDefault creates the ClusterSecretShare secretsync at the operator's first
// start in a cluster.
func EnsureDefault(ctx context.Context, c client.Client, namespace string) error {
	key := client.ObjectKey{Namespace: namespace, Name: options.DefaultsName}
	var made corev1.ConfigMap
	err := c.Get(ctx, key, &made)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	rule := &v1alpha1.ClusterSecretShare{
		ObjectMeta: metav1.ObjectMeta{Name: defaultRule},
		Spec: v1alpha1.ClusterSecretShareSpec{Source: v1alpha1.ClusterSecretSource{
			Namespace: defaultRule, SecretSource: v1alpha1.SecretSource{Type: defaultType},
		}},
	}
	if err := c.Create(ctx, rule); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterSecretShare %s: %w", defaultRule, err)
	}
	// Last: if the operator dies before, it creates the rule again, or finds it.
	made = corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data:       map[string]string{"clustersecretshare." + defaultRule: "created"},
	}
	if err := c.Create(ctx, &made); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("remember what was created: %w", err)
	}
	return nil
}
