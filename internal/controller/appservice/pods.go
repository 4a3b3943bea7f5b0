package appservice

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// byApp is the index of the app's label, so that listing the pods of one app does not
// read all pods.
const byApp = "appservice"

func (r *Reconciler) addIndexes(mgr ctrl.Manager) error {
	for _, o := range []client.Object{&corev1.Pod{}, replicaSets()} {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), o, byApp, func(o client.Object) []string {
			return []string{o.GetLabels()[v1alpha1.LabelAppService]}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replicaSets is the part of ReplicaSets that is cached: their metadata.
func replicaSets() *metav1.PartialObjectMetadata {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	return set
}

// createdOrDeleted leaves out updates: the owner of a ReplicaSet does not change.
var createdOrDeleted = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// findPods reads the pods of the Deployment's ReplicaSets. Other pods with the same labels
// are ignored. The cache selects by a label that users can remove. The Deployment then
// counts pods that the cache lacks.
func (r *Reconciler) findPods(ctx context.Context, a *app) (step.Result, error) {
	a.sets = map[types.UID]string{}
	if a.deployment.UID == "" {
		return step.Result{}, nil
	}
	inNamespace := client.InNamespace(a.name.Namespace)
	err := r.readPods(ctx, a, r.Client, inNamespace, client.MatchingFields{byApp: a.name.Name}, client.UnsafeDisableDeepCopy)
	if counted := a.deployment.Status.Replicas; err == nil && counted == a.wanted() && len(a.pods) < int(counted) {
		err = r.readPods(ctx, a, r.Live, inNamespace, client.MatchingLabels(workload.Selector(a.service)))
	}
	return step.Result{}, err
}

// readPods reads the ReplicaSets and pods that are selected, and the last pod that was ended.
func (r *Reconciler) readPods(ctx context.Context, a *app, from client.Reader, selected ...client.ListOption) error {
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSetList"))
	if err := from.List(ctx, sets, selected...); err != nil {
		return err
	}
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], &a.deployment) {
			a.sets[sets.Items[i].UID] = sets.Items[i].Annotations[revision]
		}
	}
	// The pods are read after it, so that they are not older.
	a.lastEnded = r.ended.Of(a.name, a.controls)
	var pods corev1.PodList
	if err := from.List(ctx, &pods, selected...); err != nil {
		return err
	}
	a.pods, a.ended, a.ending = nil, nil, nil
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case !a.controls(pod):
		case !pod.DeletionTimestamp.IsZero():
			a.ending = append(a.ending, pod)
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
			a.ended = append(a.ended, pod)
		default:
			a.pods = append(a.pods, pod)
		}
	}
	for _, pods := range [][]*corev1.Pod{a.pods, a.ended, a.ending} {
		slices.SortFunc(pods, func(x, y *corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	}
	return nil
}

// revision is the annotation of a Deployment and its ReplicaSets that numbers its templates.
const revision = "deployment.kubernetes.io/revision"

// current returns those of the pods that have the current template. Once a rollout has ended, the
// others no longer exist, but the cache can still contain them.
func (a *app) current(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return a.sets[metav1.GetControllerOfNoCopy(pod).UID] != a.deployment.Annotations[revision]
	})
}

// controls reports whether one of the Deployment's ReplicaSets controls a pod.
func (a *app) controls(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return false
	}
	_, ours := a.sets[controller.UID]
	return ours
}

// running returns the status of a container if it is running, else nil.
func running(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	if pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == container && status.State.Running != nil {
			return status
		}
	}
	return nil
}

// checks runs the health checks of the pods of apps, outside of every reconcile. Its prober
// enqueues an app if a result changes its status.
type checks struct {
	*probe.Prober
	metrics *metrics

	mu sync.Mutex
	// refreshes are when counts and messages in the status of an app were last updated.
	refreshes map[types.NamespacedName]*refresh
}

// refresh is the last update of an app's status for a health check.
type refresh struct {
	spec *v1alpha1.HealthCheck
	at   time.Time
}

func newChecks(clk clock.WithTicker, checker *healthcheck.Checker) *checks {
	c := &checks{Prober: probe.New(clk, checker), refreshes: map[types.NamespacedName]*refresh{}}
	c.Observed = func(o health.Observation) { c.metrics.observations.WithLabelValues(string(o.Outcome)).Inc() }
	return c
}

// check registers the running pods of an app with the prober, and reads the results so far.
func (r *Reconciler) check(_ context.Context, a *app) (step.Result, error) {
	var histories map[types.UID]probe.History
	if !a.isChecked() || a.blocked {
		r.checks.forget(a.name)
	} else {
		histories = r.checks.register(a)
	}
	pods := make([]health.Pod, 0, len(a.pods))
	for _, pod := range a.pods {
		pods = append(pods, health.Pod{
			Name: pod.Name, UID: pod.UID, Ready: kube.IsPodReady(pod), Record: health.RecordOf(histories[pod.UID]),
		})
	}
	a.checked, a.refreshed = health.Known(&a.before.Status, pods), r.checks.refreshed(a.name)
	return step.Result{}, nil
}

// isChecked reports whether the operator makes the health check of the app.
func (a *app) isChecked() bool {
	return a.service.Spec.HealthCheck != nil && a.disabled.healthCheck == ""
}

// register checks the pods of an app from now on, and no others.
func (c *checks) register(a *app) map[types.UID]probe.History {
	c.refreshOf(a.name, a.service.Spec.HealthCheck)
	return c.Watch(a.name, probeOf(a.service.Spec.HealthCheck), a.pods, func(pod *corev1.Pod) probe.History {
		return health.Restore(&a.before.Status, pod.Name, pod.UID).History
	})
}

// probeOf returns the probe of a health check.
func probeOf(check *v1alpha1.HealthCheck) *probe.Spec {
	spec := &probe.Spec{
		Probe: corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: check.HTTPGet},
			InitialDelaySeconds: check.InitialDelaySeconds, PeriodSeconds: check.PeriodSeconds, TimeoutSeconds: check.TimeoutSeconds,
			SuccessThreshold: check.SuccessThreshold, FailureThreshold: check.FailureThreshold,
		},
		Container: v1alpha1.AppContainer, Transport: healthcheck.Transport(check.Transport),
	}
	if check.Exec != nil {
		spec.Container, spec.Exec = check.Exec.Container, &corev1.ExecAction{Command: check.Exec.Command}
	}
	return spec
}

// refreshOf forgets the last update if it was for another health check.
func (c *checks) refreshOf(name types.NamespacedName, check *v1alpha1.HealthCheck) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.refreshes[name]; last == nil || !reflect.DeepEqual(last.spec, check) {
		c.refreshes[name] = &refresh{spec: check.DeepCopy()}
	}
}

// refreshed returns when counts and messages in the status were last updated.
func (c *checks) refreshed(name types.NamespacedName) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.refreshes[name]; last != nil {
		return last.at
	}
	return time.Time{}
}

// setRefreshed records when counts and messages in the status were updated.
func (c *checks) setRefreshed(name types.NamespacedName, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.refreshes[name]; last != nil {
		last.at = at
	}
}

// forget ends the checks of an app.
func (c *checks) forget(name types.NamespacedName) {
	c.Forget(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refreshes, name)
}
