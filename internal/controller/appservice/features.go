package appservice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// disabled has a message for each part of a spec that needs a feature that the operator runs
// without. Messages say what to do. The operator makes no request for these parts: each would be
// refused.
type disabled struct {
	healthCheck, backup string
	// forbidden: the operator has the feature for the backup, and lacks its permission.
	forbidden bool
}

// disabledIn returns the parts of a spec that need a feature that was not chosen.
func disabledIn(spec *v1alpha1.AppServiceSpec, chosen []feature.Feature) disabled {
	var d disabled
	lacks := func(f feature.Feature) bool { return !slices.Contains(chosen, f) }
	switch check := spec.HealthCheck; {
	case check == nil:
	case check.Exec != nil && lacks(feature.AppServiceExec):
		d.healthCheck = without(feature.AppServiceExec, chosen, "spec.healthCheck.exec", "use httpGet")
	case check.Transport == v1alpha1.HealthCheckTransportAPIServer && lacks(feature.AppServiceProxy):
		d.healthCheck = without(feature.AppServiceProxy, chosen, "spec.healthCheck.transport: APIServer", "use PodIP")
	}
	if spec.Backup != nil && spec.Backup.Exec != nil && lacks(feature.AppServiceExec) {
		d.backup = without(feature.AppServiceExec, chosen, "spec.backup.exec", "use jobTemplate")
	}
	return d
}

// without says how an administrator switches the feature on, beside those that were chosen.
func without(f feature.Feature, chosen []feature.Feature, field, instead string) string {
	all := append(feature.Names(chosen), string(f))
	return fmt.Sprintf("%s needs the feature %s, which is off: %s, or ask an administrator to install again with the same values and --set 'controllers={%s}'",
		field, f, instead, strings.Join(all, ","))
}

// message describes all parts; empty if there is none.
func (d disabled) message() string {
	all := slices.DeleteFunc([]string{d.healthCheck, d.backup}, func(s string) bool { return s == "" })
	return strings.Join(all, "; ")
}

// reason is that of a disabled part.
func (d disabled) reason() string {
	if d.forbidden && d.healthCheck == "" {
		return v1alpha1.ReasonExecForbidden
	}
	return v1alpha1.ReasonFeatureDisabled
}

// featureEvents returns a Warning if the app has just become Degraded because of a feature.
func (a *app) featureEvents() []events.Event {
	reason := a.disabled.reason()
	isDegraded := func(service *v1alpha1.AppService) bool {
		c := meta.FindStatusCondition(service.Status.Conditions, v1alpha1.ConditionDegraded)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
	}
	if a.disabled.message() == "" || !isDegraded(a.service) || isDegraded(a.before) {
		return nil
	}
	return []events.Event{{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Reconcile", Note: a.disabled.message(),
		Identity: fmt.Sprintf("%s/%d", a.service.UID, a.service.Generation), Since: a.service.CreationTimestamp.Time,
	}}
}

// noExec is the message for a backup whose command the operator is not allowed to run.
const noExec = "spec.backup.exec: the operator is not allowed to get and create pods/exec in this namespace: " +
	"use jobTemplate, or ask an administrator to apply the role bongsu-appservice-exec"

// checkExec disables a backup by command that the operator is not allowed to run. Otherwise
// users would learn that when the deletion waits for it.
func (r *Reconciler) checkExec(ctx context.Context, a *app) (step.Result, error) {
	backup := a.service.Spec.Backup
	if backup == nil || backup.Exec == nil || a.disabled.backup != "" {
		return step.Result{}, nil
	}
	allowed, lasts := r.exec.mayExec(ctx, a.name.Namespace)
	if allowed {
		return step.Result{}, nil
	}
	a.disabled.backup, a.disabled.forbidden = noExec, true
	return step.Result{RequeueAfter: lasts}, nil
}

const (
	// grantKept is how long a permission counts as granted.
	grantKept = 10 * time.Minute
	// askAgain is how long it counts as missing, or as unknown. An app is reconciled more often
	// than that, for example at each change of a pod, and each reconcile would ask. An
	// administrator who grants the permission waits as long, which must be short.
	askAgain = 30 * time.Second
)

// execGrants asks whether the operator is allowed to run commands in a namespace, and keeps
// the answers for a while.
type execGrants struct {
	client client.Writer
	clock  clock.PassiveClock

	mu      sync.Mutex
	answers map[string]execAnswer
}

// execAnswer counts until a time.
type execAnswer struct {
	allowed bool
	until   time.Time
}

func newExecGrants(c client.Writer, clk clock.PassiveClock) *execGrants {
	return &execGrants{client: c, clock: clk, answers: map[string]execAnswer{}}
}

// mayExec reports whether the operator may get and create pods/exec, and how long this answer
// lasts. If that is unknown, the command itself shows it.
func (e *execGrants) mayExec(ctx context.Context, namespace string) (allowed bool, lasts time.Duration) {
	now := e.clock.Now()
	answer, kept := e.kept(namespace, now)
	if !kept {
		granted, err := e.ask(ctx, namespace)
		if err != nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("cannot ask whether the operator may run commands in pods", "error", err.Error())
		}
		answer = execAnswer{granted || err != nil, now.Add(askAgain)}
		if granted {
			answer.until = now.Add(grantKept)
		}
		e.keep(namespace, answer)
	}
	return answer.allowed, answer.until.Sub(now)
}

func (e *execGrants) ask(ctx context.Context, namespace string) (allowed bool, err error) {
	for _, verb := range []string{"get", "create"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: "pods", Subresource: "exec"},
		}}
		if err := e.client.Create(ctx, review); err != nil || !review.Status.Allowed {
			return false, err
		}
	}
	return true, nil
}

func (e *execGrants) keep(namespace string, answer execAnswer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[namespace] = answer
}

// kept also forgets the answers that are too old.
func (e *execGrants) kept(namespace string, now time.Time) (answer execAnswer, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.answers, func(_ string, answer execAnswer) bool { return !now.Before(answer.until) })
	answer, ok = e.answers[namespace]
	return answer, ok
}
