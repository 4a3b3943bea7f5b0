package check

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

// workload is what runs the operator; nil is that there is none.
type workload struct {
	kind, name    string
	wanted, ready int32
	pod           corev1.PodSpec
}

// workload finds it by the label that the manifests give it.
func (c *Checker) workload(ctx context.Context) (*workload, error) {
	ours := []client.ListOption{client.InNamespace(c.namespace), client.MatchingLabels{"app.kubernetes.io/name": "bongsu"}}
	var deployments appsv1.DeploymentList
	if err := c.client.List(ctx, &deployments, ours...); err != nil {
		return nil, err
	}
	for _, d := range deployments.Items {
		return &workload{"Deployment", d.Name, ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas, d.Spec.Template.Spec}, nil
	}
	var sets appsv1.StatefulSetList
	if err := c.client.List(ctx, &sets, ours...); err != nil {
		return nil, err
	}
	for _, s := range sets.Items {
		return &workload{"StatefulSet", s.Name, ptr.Deref(s.Spec.Replicas, 1), s.Status.ReadyReplicas, s.Spec.Template.Spec}, nil
	}
	return nil, nil
}

func (w *workload) facts() *preflight.Workload {
	if w == nil {
		return nil
	}
	return &preflight.Workload{Name: w.kind + " " + w.name, Wanted: w.wanted, Ready: w.ready}
}

// account is the service account; without a workload, that of the manifests.
func (w *workload) account() string {
	if w == nil {
		return "bongsu"
	}
	return w.pod.ServiceAccountName
}

// capabilities are those that the workload's arguments choose; all, if they do not say.
func (w *workload) capabilities() ([]feature.Feature, error) {
	if w != nil {
		for _, container := range w.pod.Containers {
			for _, arg := range container.Args {
				if names, found := strings.CutPrefix(arg, "--controllers="); found {
					return feature.Parse(strings.Split(names, ","))
				}
			}
		}
	}
	return feature.All(), nil
}

func (c *Checker) podSecurity(ctx context.Context) preflight.Finding {
	var ns corev1.Namespace
	err := c.client.Get(ctx, client.ObjectKey{Name: c.namespace}, &ns)
	if isAbsent(err) {
		return preflight.Namespace(c.namespace, nil)
	}
	return judge("Pod Security", err, func() preflight.Finding { return preflight.Namespace(c.namespace, ns.Labels) })
}

func (c *Checker) leader(ctx context.Context) preflight.Finding {
	var lease coordinationv1.Lease
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "bongsu"}, &lease)
	if isAbsent(err) {
		return preflight.Leader(nil)
	}
	return judge("leader", err, func() preflight.Finding {
		return preflight.Leader(&preflight.Lease{
			Holder:   ptr.Deref(lease.Spec.HolderIdentity, ""),
			Age:      c.now().Sub(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time),
			Duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
		})
	})
}

// receivers reads their conditions alone: what a receiver's Secret holds is not asked.
func (c *Checker) receivers(ctx context.Context) []preflight.Finding {
	var ofNamespaces v1alpha1.AlarmReceiverList
	var ofCluster v1alpha1.ClusterAlarmReceiverList
	for _, list := range []client.ObjectList{&ofNamespaces, &ofCluster} {
		if err := c.client.List(ctx, list); err != nil {
			return []preflight.Finding{preflight.Unknown("receivers", err)}
		}
	}
	var all []preflight.Receiver
	for i := range ofNamespaces.Items {
		r := &ofNamespaces.Items[i]
		all = append(all, receiver("AlarmReceiver "+r.Namespace+"/"+r.Name, r.Status.Conditions))
	}
	for i := range ofCluster.Items {
		r := &ofCluster.Items[i]
		all = append(all, receiver("ClusterAlarmReceiver "+r.Name, r.Status.Conditions))
	}
	return preflight.Receivers(all)
}

func receiver(name string, conditions []metav1.Condition) preflight.Receiver {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return preflight.Receiver{Name: name}
	}
	return preflight.Receiver{
		Name: name, Looked: true, Ready: ready.Status == metav1.ConditionTrue,
		Suspended: ready.Reason == v1alpha1.ReasonSuspended, Reason: ready.Reason, Message: ready.Message,
	}
}
