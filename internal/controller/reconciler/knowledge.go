package reconciler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// ReadQuotas adds the quotas of a namespace, if Events tell that anyone was refused
// anything.
func (u *Helpers) ReadQuotas(ctx context.Context, namespace string, w *diagnosis.Workload) error {
	refused := func(e diagnosis.Event) bool { return e.Reason == diagnosis.ReasonFailedCreate }
	if !slices.ContainsFunc(w.Events, refused) {
		return nil
	}
	var quotas corev1.ResourceQuotaList
	if err := u.Live.List(ctx, &quotas, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range quotas.Items {
		w.Quotas = append(w.Quotas, &quotas.Items[i])
	}
	return nil
}

// ReadNodes sums up the nodes, of which the cache holds what this needs.
func (u *Helpers) ReadNodes(ctx context.Context, w *diagnosis.Workload) error {
	var nodes corev1.NodeList
	if err := u.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	w.Nodes = diagnosis.SummarizeNodes(nodes.Items)
	return nil
}

// LookBack finds a crash that was over before anyone looked. failure is the last that
// was told.
func (u *Helpers) LookBack(p *State, failure *v1alpha1.LastFailure, pods ...*corev1.Pod) {
	crash := diagnosis.LastCrash(pods)
	if crash != nil && diagnosis.HappenedAfter(fromStatus(failure), crash, u.Clock.Now()) {
		p.Crash = crash
	}
}
