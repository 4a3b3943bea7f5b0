package appservice

import (
	"context"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/healthcheck"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// atOnce is how many pods are checked at once. One that does not answer takes a place
// for its time-out.
const atOnce = 1024

// checks has the pods of apps checked, outside of every reconcile, and has those apps
// looked at again of which there is news.
type checks struct {
	pool      *probe.Pool[health.Observation]
	clock     clock.PassiveClock
	checker   *healthcheck.Checker
	metrics   *metrics
	lookAgain func(ctx context.Context, name types.NamespacedName)

	mu   sync.Mutex
	apps map[types.NamespacedName]*checkedApp
	// owners are the apps of the pods that are checked.
	owners map[types.NamespacedName]types.NamespacedName
}

// checkedApp is an app whose pods are checked.
type checkedApp struct {
	spec *v1alpha1.HealthCheck
	pods map[string]*checkedPod
	// refreshed is health.Summary's.
	refreshed time.Time
}

// checkedPod is a pod that is checked.
type checkedPod struct {
	uid     types.UID
	started time.Time
	address string
	record  health.Record
}

func newChecks(clk clock.WithTicker, checker *healthcheck.Checker, lookAgain func(context.Context, types.NamespacedName)) *checks {
	c := &checks{
		clock: clk, checker: checker, lookAgain: lookAgain,
		apps: map[types.NamespacedName]*checkedApp{}, owners: map[types.NamespacedName]types.NamespacedName{},
	}
	c.pool = probe.NewPool(atOnce, clk, c.report)
	return c
}

// check has the pods of an app checked that run, and no others.
func (r *Reconciler) check(_ context.Context, a *app) error {
	if a.Spec.HealthCheck == nil || a.Stop {
		r.checks.forget(a.name)
		return nil
	}
	r.checks.follow(a)
	return nil
}

// follow has the pods that run checked as is asked for now.
func (c *checks) follow(a *app) {
	c.mu.Lock()
	defer c.mu.Unlock()
	followed := c.apps[a.name]
	if followed == nil || !reflect.DeepEqual(followed.spec, a.Spec.HealthCheck) {
		c.drop(a.name)
		followed = &checkedApp{spec: a.Spec.HealthCheck.DeepCopy(), pods: map[string]*checkedPod{}}
		c.apps[a.name] = followed
	}
	container := checkedContainer(a.Spec.HealthCheck)
	wanted := map[string]bool{}
	for _, pod := range a.pods {
		if status := running(pod, container); status != nil && (pod.Status.PodIP != "" || a.Spec.HealthCheck.Exec != nil) {
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

// put has one pod checked. One of which nothing has changed keeps its cadence.
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
		c.pool.Remove(key) // its first delay begins anew
	}
	check, err := healthcheck.For(followed.spec, pod)
	if err != nil {
		return // the template was changed and this pod is of the former: it has no such port
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

// report takes up what a check came to.
func (c *checks) report(ctx context.Context, pod types.NamespacedName, uid types.UID, o health.Observation) {
	c.metrics.observations.WithLabelValues(string(o.Outcome)).Inc()
	if app, news := c.note(pod, uid, o); news {
		c.lookAgain(ctx, app)
	}
}

// note says whether an observation is news, and of which app.
func (c *checks) note(pod types.NamespacedName, uid types.UID, o health.Observation) (types.NamespacedName, bool) {
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

// records returns the pods with what their checks came to, and when counts and messages
// were last brought up to date.
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

// refreshed notes when counts and messages were brought up to date.
func (c *checks) refreshed(name types.NamespacedName, at time.Time) {
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

// drop needs the lock.
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

// remove needs the lock.
func (c *checks) remove(app types.NamespacedName, followed *checkedApp, pod string) {
	key := types.NamespacedName{Namespace: app.Namespace, Name: pod}
	c.pool.Remove(key)
	delete(c.owners, key)
	delete(followed.pods, pod)
}
