package receiver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// SecretsOf returns the names of the Secrets that a receiver names.
func SecretsOf(object Object) []types.NamespacedName {
	spec := object.ClusterSpec()
	var names []types.NamespacedName
	for _, ref := range spec.SecretReferences() {
		names = append(names, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
	return names
}

// secretKey names one key of a Secret, or all keys if key is empty. The zero value names
// none.
type secretKey struct {
	types.NamespacedName
	key string
}

func urlIn(r *v1alpha1.SecretURLReference) secretKey {
	if r == nil {
		return secretKey{}
	}
	return secretKey{types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, r.Key}
}

func valueIn(r *v1alpha1.SecretKeyReference) secretKey {
	if r == nil {
		return secretKey{}
	}
	return secretKey{types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, r.Key}
}

func allOf(r *v1alpha1.SecretReference) secretKey {
	if r == nil {
		return secretKey{}
	}
	return secretKey{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}
}

// Receivers name Secrets with addresses and tokens. These are read one by one. The metadata
// of all Secrets is watched for changes. A role cannot list names that are not known in
// advance.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// all reads a Secret and records its version. It returns nil if the receiver names none.
func (b *construction) all(ctx context.Context, ref secretKey) (map[string][]byte, error) {
	if ref.Name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	err := b.live.Get(ctx, ref.NamespacedName, &secret)
	if apierrors.IsNotFound(err) {
		return nil, configError(v1alpha1.ReasonSecretNotFound, "Secret %s does not exist: create it, or correct the reference", ref.NamespacedName)
	}
	if err != nil {
		return nil, &UnreadSecretError{Secret: ref.NamespacedName, Err: err}
	}
	b.versions = append(b.versions, string(secret.UID)+"/"+secret.ResourceVersion)
	return secret.Data, nil
}

// UnreadSecretError is the error of the API server for a Secret that exists, or can exist.
type UnreadSecretError struct {
	Secret types.NamespacedName
	Err    error
}

func (e *UnreadSecretError) Error() string { return fmt.Sprintf("read Secret %s: %v", e.Secret, e.Err) }

// Unwrap returns the error of the API server.
func (e *UnreadSecretError) Unwrap() error { return e.Err }

// value reads one key of a Secret. It is empty if the receiver names none.
func (b *construction) value(ctx context.Context, ref secretKey) (string, error) {
	data, err := b.all(ctx, ref)
	if err != nil || ref.Name == "" {
		return "", err
	}
	value, ok := data[ref.key]
	if !ok {
		return "", configError(v1alpha1.ReasonSecretNotFound, "Secret %s has no key %q: add it, or name another in the reference", ref.NamespacedName, ref.key)
	}
	return string(value), nil
}
