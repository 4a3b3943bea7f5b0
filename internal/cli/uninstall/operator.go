package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// ErrStillRuns means that an operator leads that is not part of the installation: it
// would put back what is taken away.
var ErrStillRuns = errors.New("an operator is still at work")

const (
	lookInterval = 500 * time.Millisecond
	// leaseOutlives is how long a lease is waited for of which nobody knows whether its
	// holder lives: longer than it lasts when it is not renewed.
	leaseOutlives = 20 * time.Second
)

// stopOperator removes what runs, and returns when no operator is at work any more.
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
	err := wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
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

// awaitLease returns when nobody leads.
func (r *removal) awaitLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseOutlives)
	defer cancel()
	holder := ""
	err := wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
		found, err := r.leader(ctx)
		if err == nil { // the time may be over amid a question
			holder = found
		}
		return found == "", err
	})
	if wait.Interrupted(err) && holder != "" {
		return fmt.Errorf("%w: %s holds lease %s/%s: stop it, and do this again", ErrStillRuns, holder, r.Namespace, options.LeaseName)
	}
	return err
}

// leader returns who leads; empty is nobody.
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

// removeRest removes what the installation is made of besides what runs.
func (r *removal) removeRest(ctx context.Context) error {
	present, err := install.Present(ctx, r.client, r.Namespace, r.Manifests)
	if err != nil {
		return err
	}
	for _, o := range present {
		if r.DryRun && o.GetObjectKind().GroupVersionKind().Group == appsv1.GroupName {
			continue // has been told
		}
		if err := r.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// removeOwn removes what the operator made for itself.
func (r *removal) removeOwn(ctx context.Context) error {
	lease := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	configMap := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for name, kind := range map[string]metav1.TypeMeta{
		options.LeaseName:    {APIVersion: lease.GroupVersion().String(), Kind: lease.Kind},
		options.DefaultsName: {APIVersion: configMap.GroupVersion().String(), Kind: configMap.Kind},
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
