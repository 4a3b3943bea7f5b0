package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/install"
)

// ErrNobodyLeads means that there is no operator to clean up behind its objects.
var ErrNobodyLeads = errors.New("no operator is at work")

// ErrDataStays means that objects of users were not gone in time.
var ErrDataStays = errors.New("not all objects are gone")

// deleteData deletes the objects of our kinds, has the operator clean up behind them,
// and removes what was made of them.
func (r *removal) deleteData(ctx context.Context, kinds []kind) error {
	all, err := r.objects(ctx, kinds)
	if err != nil {
		return err
	}
	if err := r.checkOperator(ctx, all); err != nil {
		return err
	}
	for _, o := range all {
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	if !r.DryRun {
		if err := r.awaitGone(ctx, kinds); err != nil {
			return err
		}
	}
	return r.removeMade(ctx)
}

// checkOperator refuses to delete what would then wait for an operator for ever.
func (r *removal) checkOperator(ctx context.Context, all []*unstructured.Unstructured) error {
	if !slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return held(o) }) {
		return nil
	}
	leader, err := r.leader(ctx)
	if err == nil && leader == "" {
		return fmt.Errorf("%w in namespace %s to make backups and remove copies: start it (bongsu install --apply), or leave the data", ErrNobodyLeads, r.Namespace)
	}
	return err
}

func (r *removal) awaitGone(ctx context.Context, kinds []kind) error {
	said := ""
	err := wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
		left, err := r.objects(ctx, kinds)
		if err != nil || len(left) == 0 {
			return len(left) == 0, err
		}
		if line := fmt.Sprintf("%d left, among them %s", len(left), waitingFor(left[0])); line != said && ctx.Err() == nil {
			r.Progress(line)
			said = line
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%w: %s; the operator was left in place", ErrDataStays, said)
	}
	return err
}

// waitingFor names an object that is being deleted and, of an app, what its backup does.
func waitingFor(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "backup", "phase")
	message, _, _ := unstructured.NestedString(o.Object, "status", "backup", "message")
	switch {
	case phase == "":
		return install.Describe(o)
	case message == "":
		return fmt.Sprintf("%s (backup: %s)", install.Describe(o), phase)
	}
	return fmt.Sprintf("%s (backup: %s: %s)", install.Describe(o), phase, message)
}

// deleteKinds removes the definitions of our kinds, and returns when they are gone.
func (r *removal) deleteKinds(ctx context.Context, kinds []kind) error {
	for _, k := range kinds {
		if err := r.removeAndWait(ctx, k.definition); err != nil {
			return err
		}
	}
	return nil
}

// deleteNamespace removes the operator's namespace if it was made for it.
func (r *removal) deleteNamespace(ctx context.Context) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.client.Get(ctx, client.ObjectKey{Name: r.Namespace}, o)
	if err != nil || o.Labels[install.LabelPartOf] != install.PartOf {
		return client.IgnoreNotFound(err)
	}
	return r.removeAndWait(ctx, o)
}

func (r *removal) removeAndWait(ctx context.Context, o client.Object) error {
	if err := r.remove(ctx, o); err != nil || r.DryRun {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
		left := &metav1.PartialObjectMetadata{}
		left.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
		err := r.client.Get(ctx, client.ObjectKeyFromObject(o), left)
		if err == nil && left.UID == o.GetUID() {
			return false, nil
		}
		return true, client.IgnoreNotFound(err)
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s is not gone yet: %w", install.Describe(o), err)
	}
	return err
}
