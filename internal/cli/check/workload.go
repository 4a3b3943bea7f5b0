package check

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// workload is the Deployment or StatefulSet of the operator; nil if there is none.
type workload struct {
	kind, name    string
	wanted, ready int32
	pod           corev1.PodSpec
}

// workload finds the operator's workload by its label.
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

func (w *workload) summary() *preflight.Workload {
	if w == nil {
		return nil
	}
	return &preflight.Workload{Name: w.kind + " " + w.name, Wanted: w.wanted, Ready: w.ready}
}

// userName returns the name of the operator's service account for the API server. Without a
// workload it is the name in the manifests.
func (c *Checker) userName(w *workload) string {
	return "system:serviceaccount:" + c.namespace + ":" + w.account()
}

func (w *workload) account() string {
	if w == nil {
		return options.Account
	}
	return w.pod.ServiceAccountName
}

// features returns the features in the workload's --controllers argument, or the default without
// the argument. Without a workload, they are all features, as with `bongsu local`.
func (w *workload) features() ([]feature.Feature, error) {
	if w == nil {
		return feature.All(), nil
	}
	return feature.OfPod(&w.pod)
}

// protected returns the namespaces in the workload's --protected-namespaces argument, or the
// default without the argument.
func (w *workload) protected() []string {
	if names, found := w.list("--protected-namespaces="); found {
		return names
	}
	return options.Default().ProtectedNamespaces
}

// shareNamespaces returns the namespaces in the workload's --share-namespaces argument; none means
// all.
func (w *workload) shareNamespaces() []string {
	names, _ := w.list("--share-namespaces=")
	return names
}

// list returns the list in an argument of the workload.
func (w *workload) list(prefix string) (items []string, found bool) {
	if w == nil {
		return nil, false
	}
	text, found := feature.Argument(&w.pod, prefix)
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" }), found
}

// namespaceLabels returns the labels of the operator's namespace; nil if it does not exist.
func (c *Checker) namespaceLabels(ctx context.Context) (map[string]string, error) {
	var ns corev1.Namespace
	err := c.client.Get(ctx, client.ObjectKey{Name: c.namespace}, &ns)
	if isAbsent(err) {
		return nil, nil
	}
	return ns.Labels, err
}

func (c *Checker) leader(ctx context.Context) preflight.Result {
	var lease coordinationv1.Lease
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "bongsu"}, &lease)
	if isAbsent(err) {
		return preflight.Leader(nil)
	}
	return evaluate("leader", err, func() preflight.Result {
		return preflight.Leader(&preflight.Lease{
			Holder:   ptr.Deref(lease.Spec.HolderIdentity, ""),
			Age:      c.now().Sub(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time),
			Duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
		})
	})
}

// receivers evaluates the conditions of all receivers. It does not read their Secrets.
func (c *Checker) receivers(ctx context.Context) []preflight.Result {
	var ofNamespaces v1alpha1.AlarmReceiverList
	var ofCluster v1alpha1.ClusterAlarmReceiverList
	for _, list := range []client.ObjectList{&ofNamespaces, &ofCluster} {
		if err := c.client.List(ctx, list); err != nil {
			return []preflight.Result{preflight.Unknown("receivers", err)}
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
		Name: name, Processed: true, Ready: ready.Status == metav1.ConditionTrue,
		Suspended: ready.Reason == v1alpha1.ReasonSuspended, Reason: ready.Reason, Message: ready.Message,
	}
}

// Running describes the versions that run in a cluster.
type Running struct {
	// Kubernetes is the API server's version.
	Kubernetes string `json:"kubernetes"`
	// Workload runs the operator, for example "Deployment bongsu". It is empty if the
	// operator is not installed.
	Workload string `json:"workload,omitempty"`
	// Image is the image in the workload's pod template.
	Image string `json:"image,omitempty"`
}

// String returns the versions as one line.
func (r Running) String() string {
	if r.Workload == "" {
		return fmt.Sprintf("Kubernetes %s; the operator is not installed in this namespace", r.Kubernetes)
	}
	return fmt.Sprintf("Kubernetes %s; %s runs %s", r.Kubernetes, r.Workload, r.Image)
}

// Running reads the versions from the cluster.
func (c *Checker) Running(ctx context.Context) (Running, error) {
	server, err := c.discovery.ServerVersion()
	if err != nil {
		return Running{}, err
	}
	running := Running{Kubernetes: server.GitVersion}
	w, err := c.workload(ctx)
	if err != nil || w == nil {
		return running, err
	}
	running.Workload = w.summary().Name
	for _, container := range w.pod.Containers {
		running.Image = container.Image
	}
	return running, nil
}
