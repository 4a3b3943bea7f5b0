package explain

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// configuredWebhook is a webhook with the object that configures it.
type configuredWebhook struct {
	admissionWebhook
	kind, configuration string
}

// byWebhook explains a target whose pods cannot be created because an admission webhook does not
// answer: by the pods that should answer. If the webhook must admit these pods too, they can never be
// created. It reports whether it found the root.
func (q *inquiry) byWebhook() bool {
	if q.blaming == nil {
		return false
	}
	i := slices.IndexFunc(q.blaming.Blames, func(o diagnosis.Object) bool { return o.Kind == diagnosis.KindWebhook })
	if i < 0 {
		return false
	}
	w := q.webhookNamed(q.blaming.Blames[i].Name)
	if w == nil || w.client.Service == nil {
		return false
	}
	t := q.missingPods(w.client.Service)
	if t == nil {
		q.next = append(q.next, newReference(schema.GroupKind{Group: admissionv1.GroupName, Kind: w.kind}, "", w.configuration, ", which configures it,"))
		return false
	}
	namespace := w.client.Service.Namespace
	if t.exists || !q.admits(w, namespace, t.template) { // pods that exist have been admitted
		q.next = append(q.next, *t.reference(namespace))
		return false
	}
	x := &q.explanation
	x.Chain = []Link{
		{Kind: w.kind, Name: w.configuration, Message: fmt.Sprintf("its webhook %q must admit the pods of %s", w.name, t.owner)},
		{Kind: kindService, Namespace: namespace, Name: w.client.Service.Name, Message: "it has no pod that answers"},
	}
	x.Cause.add(fmt.Sprintf("this is a deadlock: the pods of %s in namespace %s answer for the webhook, and the webhook must admit them", t.owner, namespace),
		fmt.Sprintf("an administrator deletes %s %q, whose installer creates it again, and then excludes the webhook's own pods or namespace with a selector", w.kind, w.configuration))
	x.Cause.root = "deadlock|" + w.kind + "/" + w.configuration
	return true
}

// unready is a template whose pods are not ready. exists means that there are some.
type unready struct {
	*template
	exists bool
}

// missingPods returns the template of the pods that should answer at a Service. It returns nil if one of
// them is ready, or if the template is unknown or needs no pods now.
func (q *inquiry) missingPods(ref *admissionv1.ServiceReference) *unready {
	s := &corev1.Service{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, s); err != nil {
		if !apierrors.IsNotFound(err) {
			q.unread("service "+ref.Name, "get it", err)
		}
		return nil
	}
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	behind := &inquiry{ctx: q.ctx, Explainer: q.Explainer, resource: q.resource, namespace: ref.Namespace}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	t, _ := behind.templateOf(selector)
	pods, read := behind.podsWith(selector)
	q.alsoUnread(behind.explanation.NotChecked)
	if t == nil || t.idle != "" || !read || slices.ContainsFunc(pods, kube.IsPodReady) {
		return nil
	}
	return &unready{t, len(pods) > 0}
}

// webhookNamed returns the webhook of this name, or nil.
func (q *inquiry) webhookNamed(name string) *configuredWebhook {
	var found *configuredWebhook
	add := func(kind, configuration string, all []admissionWebhook) {
		for _, w := range all {
			if w.name == name && found == nil {
				found = &configuredWebhook{w, kind, configuration}
			}
		}
	}
	var validating admissionv1.ValidatingWebhookConfigurationList
	q.list("validatingwebhookconfigurations.admissionregistration.k8s.io", &validating, func() {
		for i := range validating.Items {
			add(kindValidating, validating.Items[i].Name, ofValidating(&validating.Items[i]))
		}
	})
	if found != nil {
		return found
	}
	var mutating admissionv1.MutatingWebhookConfigurationList
	q.list("mutatingwebhookconfigurations.admissionregistration.k8s.io", &mutating, func() {
		for i := range mutating.Items {
			add(kindMutating, mutating.Items[i].Name, ofMutating(&mutating.Items[i]))
		}
	})
	return found
}

// admits reports whether a webhook must admit the pods of a template.
func (q *inquiry) admits(w *configuredWebhook, namespace string, t *template) bool {
	if w.policy() == admissionv1.Ignore || !slices.ContainsFunc(w.rules, createsPods) || !selects(w.objects, t.labels) {
		return false
	}
	if w.namespaces == nil || len(w.namespaces.MatchLabels)+len(w.namespaces.MatchExpressions) == 0 {
		return true
	}
	n := &corev1.Namespace{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Name: namespace}, n); err != nil {
		q.unread("namespace "+namespace, "get it", err)
		return false
	}
	return selects(w.namespaces, n.Labels)
}

func selects(s *metav1.LabelSelector, set labels.Set) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(set)
}

// createsPods reports whether a rule is for the creation of pods.
func createsPods(r admissionv1.RuleWithOperations) bool {
	return includes(r.APIGroups, "") && (includes(r.Resources, "pods") || slices.Contains(r.Resources, "*/*")) &&
		slices.ContainsFunc(r.Operations, func(o admissionv1.OperationType) bool {
			return o == admissionv1.Create || o == admissionv1.OperationAll
		})
}
