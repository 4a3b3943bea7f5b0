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
	"github.com/bongsu-io/bongsu/internal/controller/appservice/healthcheck"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
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
	err := a.readPods(ctx, r.Client, inNamespace, client.MatchingFields{byApp: a.name.Name}, client.UnsafeDisableDeepCopy)
	if counted := a.deployment.Status.Replicas; err == nil && counted == a.wanted() && len(a.pods) < int(counted) {
		err = a.readPods(ctx, r.Live, inNamespace, client.MatchingLabels(workload.Selector(a.service)))
	}
	return step.Result{}, err
}

// readPods reads the ReplicaSets and pods that are selected.
func (a *app) readPods(ctx context.Context, from client.Reader, selected ...client.ListOption) error {
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSetList"))
	if err := from.List(ctx, sets, selected...); err != nil {
		return err
	}
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], &a.deployment) {
			a.sets[sets.Items[i].UID] = sets.Items[i].Name
		}
	}
	var pods corev1.PodList
	if err := from.List(ctx, &pods, selected...); err != nil {
		return err
	}
	a.pods, a.ending = nil, nil
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case !a.controls(pod):
		case pod.DeletionTimestamp.IsZero():
			a.pods = append(a.pods, pod)
		default:
			a.ending = append(a.ending, pod)
		}
	}
	for _, pods := range [][]*corev1.Pod{a.pods, a.ending} {
		slices.SortFunc(pods, func(x, y *corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	}
	return nil
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

// maxChecks is how many pods are checked at the same time. A pod that does not answer
// occupies a place until its timeout.
const maxChecks = 1024

// checks runs the health checks of the pods of apps, outside of every reconcile. It
// enqueues an app if a result changes its status.
type checks struct {
	pool    *probe.Pool[health.Observation]
	clock   clock.PassiveClock
	checker *healthcheck.Checker
	metrics *metrics
	enqueue func(ctx context.Context, name types.NamespacedName)

	mu   sync.Mutex
	apps map[types.NamespacedName]*checkedApp
	// owners are the apps of the pods that are checked.
	owners map[types.NamespacedName]types.NamespacedName
}

// checkedApp is an app whose pods are checked.
type checkedApp struct {
	spec *v1alpha1.HealthCheck
	pods map[string]*checkedPod
	// refreshed is when counts and messages in the status were last updated.
	refreshed time.Time
}

// checkedPod is a pod that is checked.
type checkedPod struct {
	uid     types.UID
	started time.Time
	address string
	record  health.Record
}

func newChecks(clk clock.WithTicker, checker *healthcheck.Checker, enqueue func(context.Context, types.NamespacedName)) *checks {
	c := &checks{
		clock: clk, checker: checker, enqueue: enqueue,
		apps: map[types.NamespacedName]*checkedApp{}, owners: map[types.NamespacedName]types.NamespacedName{},
	}
	c.pool = probe.NewPool(maxChecks, clk, c.report)
	return c
}

// check registers the running pods of an app with the pool, and reads the results so far.
func (r *Reconciler) check(_ context.Context, a *app) (step.Result, error) {
	if !a.isChecked() || a.blocked {
		r.checks.forget(a.name)
	} else {
		r.checks.register(a)
	}
	pods, refreshed := r.checks.records(a)
	a.checked, a.refreshed = health.Known(&a.before.Status, pods), refreshed
	return step.Result{}, nil
}

// isChecked reports whether the operator makes the health check of the app.
func (a *app) isChecked() bool {
	return a.service.Spec.HealthCheck != nil && a.disabled.healthCheck == ""
}

func (c *checks) register(a *app) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec := a.service.Spec.HealthCheck
	followed := c.apps[a.name]
	if followed == nil || !reflect.DeepEqual(followed.spec, spec) {
		c.drop(a.name)
		followed = &checkedApp{spec: spec.DeepCopy(), pods: map[string]*checkedPod{}}
		c.apps[a.name] = followed
	}
	container := checkedContainer(spec)
	wanted := map[string]bool{}
	for _, pod := range a.pods {
		if status := running(pod, container); status != nil && (pod.Status.PodIP != "" || spec.Exec != nil) {
			wanted[pod.Name] = true
			c.put(a, followed, pod, status.State.Running.StartedAt.Time)
		}
	}
	for name := range followed.pods {
		if !wanted[name] {
			c.remove(a.name, followed, name)
		}
	}
}

func checkedContainer(check *v1alpha1.HealthCheck) string {
	if check.Exec != nil {
		return check.Exec.Container
	}
	return v1alpha1.AppContainer
}

// put checks one pod from now on. A pod that has not changed keeps its interval.
func (c *checks) put(a *app, followed *checkedApp, pod *corev1.Pod, started time.Time) {
	p := followed.pods[pod.Name]
	switch {
	case p == nil || p.uid != pod.UID:
		p = &checkedPod{uid: pod.UID, record: health.Restore(&a.before.Status, pod.Name, pod.UID)}
		followed.pods[pod.Name] = p
	case p.started.Equal(started) && p.address == pod.Status.PodIP:
		return
	}
	restarted := !p.started.IsZero() && !p.started.Equal(started)
	p.started, p.address = started, pod.Status.PodIP
	p.record = p.record.Started(started)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if restarted {
		c.pool.Remove(key) // the initial delay begins again
	}
	check, err := healthcheck.For(followed.spec, pod)
	if err != nil {
		return // a pod of a former template has no such port
	}
	c.owners[key] = a.name
	c.pool.Put(probe.Check[health.Observation]{
		Key: key, PodUID: pod.UID,
		InitialDelay: max(0, time.Duration(followed.spec.InitialDelaySeconds)*time.Second-c.clock.Since(started)),
		Period:       time.Duration(followed.spec.PeriodSeconds) * time.Second,
		Timeout:      check.Limit(),
		Run:          func(ctx context.Context) health.Observation { return c.checker.Run(ctx, check) },
		Overdue:      func() health.Observation { return c.checker.Overdue(check) },
	})
}

// report records the result of a check.
func (c *checks) report(ctx context.Context, pod types.NamespacedName, uid types.UID, o health.Observation) {
	c.metrics.observations.WithLabelValues(string(o.Outcome)).Inc()
	if app, changed := c.add(pod, uid, o); changed {
		c.enqueue(ctx, app)
	}
}

// add returns the app of a pod, and whether an observation changes its status.
func (c *checks) add(pod types.NamespacedName, uid types.UID, o health.Observation) (types.NamespacedName, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	app := c.owners[pod]
	followed := c.apps[app]
	if followed == nil {
		return app, false
	}
	p := followed.pods[pod.Name]
	if p == nil || p.uid != uid {
		return app, false
	}
	before := p.record
	p.record = p.record.Add(o, health.ThresholdsOf(followed.spec))
	return app, health.IsNews(before, p.record)
}

// records returns the pods with the results of their checks, and when counts and messages
// in the status were last updated.
func (c *checks) records(a *app) ([]health.Pod, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	followed := c.apps[a.name]
	pods := make([]health.Pod, 0, len(a.pods))
	for _, pod := range a.pods {
		p := health.Pod{Name: pod.Name, UID: pod.UID, Ready: kube.IsPodReady(pod)}
		if followed != nil && followed.pods[pod.Name] != nil {
			p.Record = followed.pods[pod.Name].record
		}
		pods = append(pods, p)
	}
	if followed == nil {
		return pods, time.Time{}
	}
	return pods, followed.refreshed
}

// setRefreshed records when counts and messages in the status were updated.
func (c *checks) setRefreshed(name types.NamespacedName, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if followed := c.apps[name]; followed != nil {
		followed.refreshed = at
	}
}

// forget ends the checks of an app.
func (c *checks) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(name)
}

// drop must be called with the lock.
func (c *checks) drop(name types.NamespacedName) {
	followed := c.apps[name]
	if followed == nil {
		return
	}
	for pod := range followed.pods {
		c.remove(name, followed, pod)
	}
	delete(c.apps, name)
}

// remove must be called with the lock.
func (c *checks) remove(app types.NamespacedName, followed *checkedApp, pod string) {
	key := types.NamespacedName{Namespace: app.Namespace, Name: pod}
	c.pool.Remove(key)
	delete(c.owners, key)
	delete(followed.pods, pod)
}
