package alarms

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// receivers are those to which an alarm may send.
type receivers struct {
	keys []string
	// route chooses further receivers. It is nil without spec.receiversFrom.
	route *match.Route
	// result contains the problems of the receivers.
	result status.Result
}

// any reports whether the alarm has a receiver.
func (to *receivers) any() bool { return len(to.keys) > 0 || to.route != nil }

// resolveReceivers finds the receivers in spec.receivers that exist and allow the alarm, and those
// that spec.receiversFrom can choose.
func (r *Reconciler) resolveReceivers(ctx context.Context, object Object) (receivers, error) {
	var out receivers
	var problems problems
	seen := map[kube.Key]bool{}
	for _, ref := range object.ReceiverReferences() {
		key := referenceKey(ref, object.GetNamespace())
		if seen[key] {
			continue
		}
		seen[key] = true
		usable, result, err := r.resolve(ctx, key, object.GetNamespace())
		if err != nil {
			return receivers{}, err
		}
		if usable {
			out.keys = append(out.keys, key.String())
		}
		problems.add(key, result)
	}
	if from := object.ReceiverChoice(); from != nil {
		var err error
		if out.route, err = r.resolveRoute(ctx, from, seen, &problems); err != nil {
			return receivers{}, err
		}
	}
	out.result = problems.result()
	return out, nil
}

// resolveRoute finds the receivers that a label can choose. It adds the problems of those that
// are not in seen.
func (r *Reconciler) resolveRoute(ctx context.Context, from *v1alpha1.ReceiversFrom, seen map[kube.Key]bool, all *problems) (*match.Route, error) {
	byDefault := referenceKey(v1alpha1.ReceiverReference(from.Default), "")
	if !seen[byDefault] {
		_, result, err := r.resolve(ctx, byDefault, "")
		if err != nil {
			return nil, err
		}
		all.add(byDefault, result)
		seen[byDefault] = true
	}
	var list v1alpha1.ClusterAlarmReceiverList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	choosable := receiver.Choosable(from.NamespaceLabel, list.Items)
	route, excess := receiver.Route(from, choosable)
	for _, object := range choosable {
		if key := (kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: object.Name}); !seen[key] {
			all.add(key, unready(key, "", &object.Status))
		}
	}
	for _, name := range excess {
		all.add(kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: name}, newProblem(v1alpha1.ReasonTooManyReceivers,
			"the label %s does not choose ClusterAlarmReceiver %s: delete some receivers, or use several labels. It can choose %d at most, and %d for a value",
			from.NamespaceLabel, name, match.MaxRouteReceivers, match.MaxChosen))
	}
	return route, nil
}

// problem is that of one receiver of an alarm.
type problem struct {
	status.Result
	// cause is the reason of the receiver's own condition, if that is the problem.
	cause string
}

// problems are those of the receivers of an alarm.
type problems struct {
	first status.Result
	// others names the first of the other receivers, and more is the number of the rest.
	others []string
	more   int
}

func (p *problems) add(key kube.Key, result problem) {
	switch {
	case result.Ready():
	case p.first.Ready():
		p.first = result.Result
	case len(p.others) < maxOthers:
		p.others = append(p.others, fmt.Sprintf("%s %s (%s)", key.Kind, key.Name, cmp.Or(result.cause, result.Reason)))
	default:
		p.more++
	}
}

// result returns the problem of the first receiver that has one. Its message names the others.
func (p *problems) result() status.Result {
	result := p.first
	if len(p.others) > 0 {
		result.Message = plaintext.Cut(result.Message, maxProblem) + "; also correct " + strings.Join(p.others, ", ")
	}
	if p.more > 0 {
		result.Message += fmt.Sprintf(" and %d more", p.more)
	}
	return result
}

// maxProblem limits the message about the first receiver, in bytes. maxOthers limits the names
// behind it, of 253 bytes each.
const (
	maxProblem = 1024
	maxOthers  = 15
)

func referenceKey(ref v1alpha1.ReceiverReference, namespace string) kube.Key {
	if ref.Kind == v1alpha1.KindClusterAlarmReceiver {
		namespace = ""
	}
	return kube.Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
}

// resolve returns whether the receiver exists and an alarm of the namespace may use it, and the
// problem of the receiver. The namespace of a ClusterAlarm is empty.
func (r *Reconciler) resolve(ctx context.Context, key kube.Key, namespace string) (bool, problem, error) {
	cluster := key.Kind == v1alpha1.KindClusterAlarmReceiver
	var object status.AlarmObject = &v1alpha1.AlarmReceiver{}
	if cluster {
		object = &v1alpha1.ClusterAlarmReceiver{}
	}
	err := r.client.Get(ctx, key.NamespacedName(), object)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return false, problem{}, err
	}
	if cluster && namespace != "" {
		allowed, err := r.allows(ctx, object.(*v1alpha1.ClusterAlarmReceiver), namespace)
		if err != nil {
			return false, problem{}, err
		}
		if missing || !allowed {
			refused := receiver.NotAllowed(key.Name, namespace)
			return false, newProblem(refused.Reason, "%s", refused.Message), nil
		}
	}
	if missing {
		return false, newProblem(v1alpha1.ReasonReceiverNotFound, "%s %s does not exist: create it, or correct spec.receivers", key.Kind, key.Name), nil
	}
	return true, unready(key, namespace, object.AlarmStatus()), nil
}

// allows reports whether the Alarms of a namespace may use the receiver.
func (r *Reconciler) allows(ctx context.Context, object *v1alpha1.ClusterAlarmReceiver, namespace string) (bool, error) {
	if object.Spec.AllowedNamespaces == nil {
		return false, nil
	}
	ns, err := kube.NamespaceMetadata(ctx, r.client, namespace)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return receiver.Allows(object, ns.Labels), nil
}

// unready is the problem of a receiver that is not Ready, for an alarm of a namespace. The
// message of a ClusterAlarmReceiver is for administrators, whose ClusterAlarms have no namespace.
func unready(key kube.Key, namespace string, st *v1alpha1.AlarmStatus) problem {
	ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return problem{}
	}
	says := ready.Message
	if key.Kind == v1alpha1.KindClusterAlarmReceiver && namespace != "" {
		says = "ask an administrator, who can read why"
	}
	p := newProblem(v1alpha1.ReasonReceiverNotReady, "%s %s is not ready (%s): %s", key.Kind, key.Name, ready.Reason, says)
	p.cause = ready.Reason
	return p
}

func newProblem(reason, format string, args ...any) problem {
	return problem{Result: status.Result{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// receiversField indexes alarms by the keys of their receivers.
const receiversField = "spec.receivers"

func receiverKeysOf(o client.Object) []string {
	object, ok := o.(Object)
	if !ok {
		return nil
	}
	var keys []string
	for _, ref := range object.ReceiverReferences() {
		keys = append(keys, referenceKey(ref, object.GetNamespace()).String())
	}
	if from := object.ReceiverChoice(); from != nil {
		keys = append(keys, referenceKey(v1alpha1.ReceiverReference(from.Default), "").String(), labelPrefix+from.NamespaceLabel)
	}
	return keys
}

// labelPrefix precedes the key of a label in receiversField, for the alarms that choose receivers
// by it.
const labelPrefix = "label:"

// receiverChanged admits changes on which the condition of an alarm depends. It leaves
// out the counts in a receiver's status.
var receiverChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			readiness(e.ObjectOld) != readiness(e.ObjectNew)
	},
}

type readinessOf struct{ status, reason, message string }

func readiness(o client.Object) readinessOf {
	object, ok := o.(status.AlarmObject)
	if !ok {
		return readinessOf{}
	}
	c := meta.FindStatusCondition(object.AlarmStatus().Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return readinessOf{}
	}
	return readinessOf{string(c.Status), c.Reason, c.Message}
}

// usersOf maps a receiver to the alarms that name it, and to those that can choose it.
func (r *Reconciler) usersOf(kind string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		key := kube.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		users := r.requests(ctx, client.MatchingFields{receiversField: key.String()})
		if choosable, ok := o.(*v1alpha1.ClusterAlarmReceiver); ok && choosable.Spec.ChosenBy != nil {
			users = append(users, r.requests(ctx, client.MatchingFields{receiversField: labelPrefix + choosable.Spec.ChosenBy.NamespaceLabel})...)
		}
		return users
	}
}

// inNamespace maps a namespace to its Alarms: ClusterAlarmReceivers may allow them by its
// labels.
func (r *Reconciler) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	if r.kind != alarm.KindAlarm {
		return nil // ClusterAlarms read the labels with each Event
	}
	return r.requests(ctx, client.InNamespace(o.GetName()))
}

func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := r.newList()
	if err := r.client.List(ctx, list, opts...); err != nil {
		return nil // only if the cache was stopped
	}
	var requests []reconcile.Request
	for _, object := range objectsOf(list) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{
			Namespace: object.GetNamespace(), Name: object.GetName(),
		}})
	}
	return requests
}
