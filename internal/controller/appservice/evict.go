package appservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

const (
	// restartsPerHour is the default of spec.healthCheck.maxRestartsPerHour.
	restartsPerHour = 3
	// evictedLag is how long the cache may not show that a pod was evicted.
	evictedLag = 10 * time.Second
)

// evictions are the last attempts to evict a pod, by app. A new leader continues without them:
// the condition EvictionBlocked shows that a pod waits.
type evictions struct {
	mu   sync.Mutex
	apps map[types.NamespacedName]eviction
}

// eviction is the last attempt to evict a pod of an app.
type eviction struct {
	pod types.UID
	// refusals is how many attempts in a row were refused, and next is when to try again.
	refusals int
	next     time.Time
	// budgets refused the last attempt, as message says. Both are empty if none did.
	budgets []string
	message string
	// uncounted is an entry of status.restartTimes for an eviction that did not happen.
	uncounted metav1.Time
}

func newEvictions() *evictions { return &evictions{apps: map[types.NamespacedName]eviction{}} }

func (e *evictions) last(app types.NamespacedName) eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.apps[app]
}

func (e *evictions) set(app types.NamespacedName, last eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.apps[app] = last
}

func (e *evictions) forget(app types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.apps, app)
}

// happened returns the entries of status.restartTimes without the uncounted one.
func (e *eviction) happened(times []metav1.Time) []metav1.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t metav1.Time) bool { return t.Equal(&e.uncounted) })
}

// remedy is what one reconcile does about unhealthy pods.
type remedy struct {
	// evict is the pod to evict after the status counts it at the time at; nil for none.
	evict *corev1.Pod
	at    metav1.Time
	// blocked is the pod whose eviction disruption budgets refuse, as message says; nil for none.
	blocked *health.Pod
	message string
	// err is another error of the dry run.
	err error
}

// chooseRestart decides which pod is evicted, if any. A dry run finds out whether disruption
// budgets allow it, because a refusal must not use up the limit. The status counts the eviction
// before it happens, so that the limit holds also if the operator crashes. This step is the last
// one: after an error of another step, the status would count an eviction that does not happen.
func (r *Reconciler) chooseRestart(ctx context.Context, a *app) (step.Result, error) {
	if !a.isRestarted() {
		a.service.Status.RestartTimes = nil
		r.evictions.forget(a.name)
		return step.Result{}, nil
	}
	limit := restartsPerHour
	if most := a.service.Spec.HealthCheck.MaxRestartsPerHour; most != nil {
		limit = int(*most)
	}
	last := r.evictions.last(a.name)
	d := health.Remedy{
		Pods: a.checked, Wanted: int(a.wanted()), Times: last.happened(a.before.Status.RestartTimes), MaxPerHour: limit, Now: r.Clock.Now(),
	}.Decide()
	a.service.Status.RestartTimes = d.Times
	switch {
	case d.Pod != nil:
		return step.Result{RequeueAfter: r.dryRun(ctx, a, &d, last)}, nil
	case d.Next.IsZero(): // for example, another pod is missing
		a.keepBlocked(last.pod)
	}
	return step.Result{RequeueAfter: r.until(d.Next)}, nil
}

// isRestarted reports whether unhealthy pods of the app are evicted.
func (a *app) isRestarted() bool {
	return a.isChecked() && a.service.Spec.HealthCheck.Remedy == v1alpha1.HealthCheckRemedyRestart && !a.service.Spec.Suspend && !a.deleting()
}

// until returns the time until t, and 0 for the zero time.
func (r *Reconciler) until(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(r.Clock.Now()), time.Second)
}

// dryRun finds out whether the chosen pod can be evicted. It returns when to try again.
func (r *Reconciler) dryRun(ctx context.Context, a *app, d *health.Restart, last eviction) time.Duration {
	if last.pod != d.Pod.UID {
		last = eviction{pod: d.Pod.UID, uncounted: last.uncounted}
	}
	if wait := last.next.Sub(r.Clock.Now()); wait > 0 && !r.allowsNow(ctx, a, last.budgets) {
		a.setBlocked(d.Pod, last.message)
		return wait
	}
	pod := a.podOf(d.Pod.UID)
	err := r.evict(ctx, pod, client.DryRunAll)
	switch {
	case err == nil:
		a.service.Status.RestartTimes = d.Counted()
		a.remedy.evict, a.remedy.at = pod, d.At
		return 0
	case isGone(err): // its deletion enqueues the app
		return 0
	}
	last, a.remedy.err = r.refuse(ctx, a, pod, last, err)
	a.setBlocked(d.Pod, last.message)
	return max(0, last.next.Sub(r.Clock.Now()))
}

// podOf returns the pod with a UID.
func (a *app) podOf(uid types.UID) *corev1.Pod {
	return a.pods[slices.IndexFunc(a.pods, func(p *corev1.Pod) bool { return p.UID == uid })]
}

// setBlocked records that disruption budgets refuse the eviction of a pod. Without a message, the
// attempt failed for another reason, and the former refusal stays.
func (a *app) setBlocked(pod *health.Pod, message string) {
	if message == "" {
		a.keepBlocked(pod.UID)
		return
	}
	a.remedy.blocked, a.remedy.message = pod, message
}

// keepBlocked keeps the refusal that the status contains while the pod is unhealthy. Without a
// UID, another process observed the refusal of some pod.
func (a *app) keepBlocked(uid types.UID) {
	former := meta.FindStatusCondition(a.before.Status.Conditions, v1alpha1.ConditionEvictionBlocked)
	i := slices.IndexFunc(a.checked, func(p health.Pod) bool {
		return p.Record.Health == v1alpha1.PodUnhealthy && (uid == "" || uid == p.UID)
	})
	if former != nil && i >= 0 {
		a.remedy.blocked, a.remedy.message = &a.checked[i], former.Message
	}
}

// allowsNow reports whether the app's own budget refused the last attempt, and its status allows
// an eviction now. The watch of this budget enqueues the app.
func (r *Reconciler) allowsNow(ctx context.Context, a *app, budgets []string) bool {
	if len(budgets) != 1 || budgets[0] != a.name.Name {
		return false
	}
	var b policyv1.PodDisruptionBudget
	err := r.Client.Get(ctx, a.name, &b, client.UnsafeDisableDeepCopy)
	return err == nil && b.Status.ObservedGeneration >= b.Generation && b.Status.DisruptionsAllowed > 0
}

// evict evicts a pod. Disruption budgets can refuse it.
func (r *Reconciler) evict(ctx context.Context, pod *corev1.Pod, opts ...client.SubResourceCreateOption) error {
	return r.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}, opts...)
}

// isGone reports whether an eviction failed because the pod no longer exists.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// refuse returns and stores an attempt that the API server refused: why, and when to try again.
// It returns the error if the cause is neither a disruption budget nor too many requests.
func (r *Reconciler) refuse(ctx context.Context, a *app, pod *corev1.Pod, last eviction, err error) (eviction, error) {
	refusal, failure := r.refusalFrom(ctx, pod, err)
	last.budgets, last.message = refusal.Budgets, ""
	if !refusal.IsZero() {
		last.message = refusal.Message(pod.Name, a.name.Name)
	}
	if failure == nil {
		last.refusals++
		last.next = r.Clock.Now().Add(health.RetryAfter(err, last.refusals))
	}
	r.evictions.set(a.name, last)
	return last, failure
}

// refusalFrom returns the refusal of disruption budgets that an error contains. For other errors
// than too many requests, it returns the error.
func (r *Reconciler) refusalFrom(ctx context.Context, pod *corev1.Pod, err error) (health.Refusal, error) {
	if refusal := health.RefusalFrom(err); !refusal.IsZero() || apierrors.IsTooManyRequests(err) {
		return refusal, nil
	}
	if !health.MayHaveSeveralBudgets(err) {
		return health.Refusal{}, err
	}
	budgets, listErr := r.budgetsOf(ctx, pod)
	if listErr != nil || len(budgets) < 2 {
		return health.Refusal{}, errors.Join(err, listErr)
	}
	return health.Refusal{Budgets: budgets}, nil
}

// maxBudgets limits the list of the PodDisruptionBudgets of a namespace, in bytes. A tenant can
// create many large ones.
const maxBudgets = 2 << 20

// budgetsOf returns the names of the PodDisruptionBudgets that select a pod. It returns none if they
// are too large. The cache contains only those of apps.
func (r *Reconciler) budgetsOf(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	var all policyv1.PodDisruptionBudgetList
	err := r.Live.List(kube.WithResponseLimit(ctx, maxBudgets), &all, client.InNamespace(pod.Namespace))
	if err != nil {
		if errors.Is(err, kube.ErrTooLarge) {
			return nil, nil
		}
		return nil, err
	}
	var names []string
	for i := range all.Items {
		selector, err := metav1.LabelSelectorAsSelector(all.Items[i].Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, all.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// restart evicts the pod that the status counts. It returns when to reconcile again.
func (r *Reconciler) restart(ctx context.Context, a *app) (time.Duration, error) {
	pod := a.remedy.evict
	if pod == nil {
		return 0, a.remedy.err
	}
	err := r.evict(ctx, pod)
	if health.IsRejected(err) {
		return time.Second, r.uncount(ctx, a, err) // the next reconcile corrects the status
	}
	// Without an answer, the pod may have been evicted. The eviction then counts.
	r.evictions.set(a.name, eviction{pod: pod.UID, next: r.Clock.Now().Add(evictedLag)})
	if err != nil {
		return 0, err
	}
	r.metrics.restarts.Inc()
	return 0, r.Writer.Emit(ctx, a.service, restarted(pod, r.now()))
}

// uncount stores that the API server rejected the eviction that the status counts. For example,
// another client has used the budget since the dry run. A pod that is gone was not evicted here.
func (r *Reconciler) uncount(ctx context.Context, a *app, err error) error {
	pod := a.remedy.evict
	last := r.evictions.last(a.name)
	if last.pod != pod.UID {
		last = eviction{pod: pod.UID}
	}
	last.uncounted = a.remedy.at
	if isGone(err) {
		r.evictions.set(a.name, last)
		return nil
	}
	_, err = r.refuse(ctx, a, pod, last, err)
	return err
}

// setEvictionBlocked sets the condition EvictionBlocked, which exists only while it is True.
func (r *Reconciler) setEvictionBlocked(a *app) {
	if a.remedy.blocked == nil {
		meta.RemoveStatusCondition(&a.service.Status.Conditions, v1alpha1.ConditionEvictionBlocked)
		return
	}
	r.Writer.SetCondition(a.service, condition(
		v1alpha1.ConditionEvictionBlocked, metav1.ConditionTrue, v1alpha1.ReasonBlockedByDisruptionBudget, a.remedy.message))
}

// evictionEvents returns a Warning if the condition EvictionBlocked is new.
func (a *app) evictionEvents() []events.Event {
	pod := a.remedy.blocked
	if pod == nil || meta.FindStatusCondition(a.before.Status.Conditions, v1alpha1.ConditionEvictionBlocked) != nil {
		return nil
	}
	return []events.Event{{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonBlockedByDisruptionBudget, Action: "EvictPod", Note: a.remedy.message,
		Identity: string(pod.UID), Since: pod.Record.Since,
	}}
}

func restarted(pod *corev1.Pod, at metav1.Time) events.Event {
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRestartedUnhealthyPod, Action: "EvictPod",
		Note:     fmt.Sprintf("Pod %s is unhealthy: it was evicted and will be replaced", pod.Name),
		Identity: string(pod.UID), Since: at.Time,
	}
}
