package receiver

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/status"
)

// faultError is what the user must correct before a receiver can be built.
type faultError struct {
	verdict status.Result
}

// Error is the sentence of the verdict.
func (e *faultError) Error() string { return e.verdict.Message }

func fault(reason, format string, args ...any) error {
	return &faultError{status.Result{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// verdictOf tells what is the user's to correct from what may pass.
func verdictOf(err error) (status.Result, error) {
	if f, ok := errors.AsType[*faultError](err); ok {
		return f.verdict, nil
	}
	return status.Result{}, err
}

// all reads a whole Secret and notes its version; nothing where none is named.
func (c *construction) all(ctx context.Context, ref secretKey) (map[string][]byte, error) {
	if ref.Name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	err := c.Live.Get(ctx, ref.NamespacedName, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fault(v1alpha1.ReasonSecretNotFound, "Secret %s does not exist: create it, or correct the reference", ref.NamespacedName)
	}
	c.read = append(c.read, string(secret.UID)+"/"+secret.ResourceVersion)
	return secret.Data, err
}

// value reads one key of a Secret; nothing where none is named.
func (c *construction) value(ctx context.Context, ref secretKey) (string, error) {
	data, err := c.all(ctx, ref)
	if err != nil || ref.Name == "" {
		return "", err
	}
	value, ok := data[ref.key]
	if !ok {
		return "", fault(v1alpha1.ReasonSecretNotFound, "Secret %s has no key %q: add it, or name another in the reference", ref.NamespacedName, ref.key)
	}
	return string(value), nil
}
