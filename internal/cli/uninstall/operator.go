package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/cli/bindings"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// ErrStillRuns reports that an operator outside of the installation leads. It would
// create the removed objects again.
var ErrStillRuns = errors.New("an operator still runs")

const (
	pollInterval = 500 * time.Millisecond
	// leaseTimeout limits the wait for a lease to expire. It is longer than the duration of
	// a lease that is not renewed.
	leaseTimeout = 20 * time.Second
)

// stopOperator removes the workload, and returns when no operator runs.
func (r *removal) stopOperator(ctx context.Context) error {
	present, err := install.Present(ctx, r.client, r.Namespace, r.Manifests)
	if err != nil {
		return err
	}
	for _, o := range present {
		if o.GetObjectKind().GroupVersionKind().Group != appsv1.GroupName {
			continue
		}
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	if r.DryRun {
		return nil
	}
	if err := r.awaitPods(ctx); err != nil {
		return err
	}
	return r.awaitLease(ctx)
}

func (r *removal) awaitPods(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := r.client.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels{install.LabelPartOf: install.PartOf})
		return len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the operator's pods to end: %w", err)
	}
	return nil
}

// awaitLease returns when no operator leads.
func (r *removal) awaitLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	holder := ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		found, err := r.leader(ctx)
		if err == nil { // the timeout may interrupt the request
			holder = found
		}
		return found == "", err
	})
	if wait.Interrupted(err) && holder != "" {
		return fmt.Errorf("%w: %s holds lease %s/%s: stop it, and run the command again", ErrStillRuns, holder, r.Namespace, options.LeaseName)
	}
	return err
}

// leader returns the holder of a valid lease, or an empty string.
func (r *removal) leader(ctx context.Context) (string, error) {
	var lease coordinationv1.Lease
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: options.LeaseName}, &lease)
	s := lease.Spec
	if err != nil || s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return "", client.IgnoreNotFound(err)
	}
	if lasts := time.Duration(*s.LeaseDurationSeconds) * time.Second; (clock.RealClock{}).Since(s.RenewTime.Time) > lasts {
		return "", nil
	}
	return *s.HolderIdentity, nil
}

// removeRest removes the objects of the installation except for the workload.
func (r *removal) removeRest(ctx context.Context) error {
	present, err := install.Present(ctx, r.client, r.Namespace, r.Manifests)
	if err != nil {
		return err
	}
	for _, o := range present {
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// removeBindings removes the permissions of the operator's account, however they were granted,
// before the policies that limit them. A binding with other subjects keeps these.
func (r *removal) removeBindings(ctx context.Context) error {
	all, err := bindings.Of(ctx, r.client, r.Namespace, options.Account)
	if err != nil {
		return err
	}
	for _, b := range all {
		switch {
		case len(b.Account) == 0:
			r.Progress(fmt.Sprintf("kept %s: it grants %s %s to all accounts of namespace %s", install.Describe(b.Object), b.Role.Kind, b.Role.Name, r.Namespace))
		case len(b.Others) == 0:
			err = r.remove(ctx, b.Object)
		default:
			err = r.removeSubject(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeSubject removes the operator's account from a binding with other subjects.
func (r *removal) removeSubject(ctx context.Context, b bindings.Binding) error {
	if r.DryRun {
		r.Progress("would remove the operator's account from " + install.Describe(b.Object))
		return nil
	}
	o := b.Object.DeepCopyObject().(client.Object)
	switch o := o.(type) {
	case *rbacv1.ClusterRoleBinding:
		o.Subjects = b.Others
	case *rbacv1.RoleBinding:
		o.Subjects = b.Others
	}
	patch := client.MergeFromWithOptions(b.Object, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the operator's account from %s: %w", install.Describe(b.Object), err)
	}
	r.Progress("removed the operator's account from " + install.Describe(b.Object))
	return nil
}

// removeState removes the objects in which the operator keeps its state.
func (r *removal) removeState(ctx context.Context) error {
	lease := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	configMap := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for name, kind := range map[string]metav1.TypeMeta{
		options.LeaseName:    {APIVersion: lease.GroupVersion().String(), Kind: lease.Kind},
		options.DefaultsName: {APIVersion: configMap.GroupVersion().String(), Kind: configMap.Kind},
		options.PoliciesName: {APIVersion: configMap.GroupVersion().String(), Kind: configMap.Kind},
		checkpoint.Name:      {APIVersion: configMap.GroupVersion().String(), Kind: configMap.Kind},
	} {
		o := &metav1.PartialObjectMetadata{TypeMeta: kind}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, o)
		if err == nil {
			err = r.remove(ctx, o)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
