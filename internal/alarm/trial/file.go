package trial

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// checkFile reports what is wrong with the receivers in the file. It builds them as the operator
// does, and sends nothing.
func (t *test) checkFile(ctx context.Context, report *Report) error {
	sinks := receiver.NewSinks(dialguard.Config{}, io.Discard, clock.RealClock{})
	for i := range t.InFile.Receivers {
		r := &t.InFile.Receivers[i]
		name := r.key().Display()
		t.notes = append(t.notes, name+" of the file is used as if it were applied: apply it too")
		stored, note, err := t.review(ctx, r.Object, r.key())
		if err != nil {
			return err
		}
		if note != "" {
			t.notes = append(t.notes, name+": "+note)
			continue
		}
		_, err = receiver.Build(ctx, t.secrets(), sinks, r.key(), stored.(receiver.Object))
		invalid, wrong := errors.AsType[*receiver.ConfigError](err)
		switch {
		case wrong && invalid.Reason == v1alpha1.ReasonAddressNotAllowed:
			t.notes = append(t.notes, fmt.Sprintf("%s: unless your operator allows more: %v", name, err))
		case wrong:
			report.Problems = append(report.Problems, fmt.Sprintf("%s: %v", name, err))
		case apierrors.IsForbidden(err):
			t.notes = append(t.notes, fmt.Sprintf("%s: it is unknown whether its Secrets are correct: %v", name, err))
		case err != nil:
			return fmt.Errorf("read the Secrets that %s names: %w", name, err)
		}
	}
	return nil
}

// fileSecrets reads Secrets of the file as if they were applied, and other objects from the
// cluster.
type fileSecrets struct {
	client.Reader
	secrets []corev1.Secret
}

// Get reads an object.
func (f fileSecrets) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if secret, ok := into.(*corev1.Secret); ok {
		for i := range f.secrets {
			if client.ObjectKeyFromObject(&f.secrets[i]) == key {
				f.secrets[i].DeepCopyInto(secret)
				return nil
			}
		}
	}
	return f.Reader.Get(ctx, key, into, opts...)
}

// secrets returns a reader of the Secrets that receivers name.
func (e *Environment) secrets() client.Reader { return fileSecrets{e.Client, e.InFile.Secrets} }

// inFile returns a receiver of the file, nil if it is not in it.
func (e *Environment) inFile(key kube.Key) receiver.Object {
	for i := range e.InFile.Receivers {
		if r := &e.InFile.Receivers[i]; r.key() == key {
			return r.Object
		}
	}
	return nil
}
