package explain

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// admissionWebhook is what the webhooks of both kinds of configurations have in common.
type admissionWebhook struct {
	name    string
	client  admissionv1.WebhookClientConfig
	failure *admissionv1.FailurePolicyType
	rules   []admissionv1.RuleWithOperations
	// namespaces and objects select what it must admit.
	namespaces, objects *metav1.LabelSelector
}

func ofValidating(c *admissionv1.ValidatingWebhookConfiguration) (all []admissionWebhook) {
	for _, w := range c.Webhooks {
		all = append(all, admissionWebhook{w.Name, w.ClientConfig, w.FailurePolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector})
	}
	return all
}

func ofMutating(c *admissionv1.MutatingWebhookConfiguration) (all []admissionWebhook) {
	for _, w := range c.Webhooks {
		all = append(all, admissionWebhook{w.Name, w.ClientConfig, w.FailurePolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector})
	}
	return all
}

const (
	kindValidating = "ValidatingWebhookConfiguration"
	kindMutating   = "MutatingWebhookConfiguration"
)

// caAnnotation names the Certificate whose authority cert-manager writes to a configuration:
// cert-manager.io/docs/concepts/ca-injector.
const caAnnotation = "cert-manager.io/inject-ca-from"

// validatingWebhooks explains a ValidatingWebhookConfiguration.
func (q *inquiry) validatingWebhooks() error {
	c := &admissionv1.ValidatingWebhookConfiguration{}
	return q.webhooks(kindValidating, c, func() []admissionWebhook { return ofValidating(c) })
}

// mutatingWebhooks explains a MutatingWebhookConfiguration.
func (q *inquiry) mutatingWebhooks() error {
	c := &admissionv1.MutatingWebhookConfiguration{}
	return q.webhooks(kindMutating, c, func() []admissionWebhook { return ofMutating(c) })
}

// webhooks explains a configuration by the Services that its webhooks call, and by their certificates.
// The status of the configuration does not say whether the API server gets an answer.
func (q *inquiry) webhooks(kind string, o client.Object, webhooksOf func() []admissionWebhook) error {
	q.explanation.passive = true
	if readable, err := q.targetOf(kind, o); !readable {
		return err
	}
	if name := o.GetAnnotations()[caAnnotation]; name != "" && len(q.walk.from) > 1 {
		q.authority(kind, o, name)
		if slices.ContainsFunc(webhooksOf(), func(w admissionWebhook) bool { return len(w.client.CABundle) == 0 }) {
			q.next = append(q.next, q.failingWorkloads(", which writes the authorities of webhooks,", func(o client.Object, _ *corev1.PodSpec) bool {
				return strings.Contains(o.GetName(), "cainjector")
			})...)
		}
	}
	all := webhooksOf()
	q.set(kind, Running, "it has "+plural(len(all), "webhook"))
	seen := map[string]bool{}
	for _, w := range all {
		service := w.client.Service
		if service == nil { // a URL, which only the API server must reach
			continue
		}
		key := fmt.Sprintf("%s/%s:%d %s %s", service.Namespace, service.Name, w.port(), w.policy(), w.client.CABundle)
		if !seen[key] && len(seen) < maxBackends {
			seen[key] = true
			q.webhook(w)
		}
	}
	if len(q.workload.Known) > 0 {
		q.explanation.State = Waiting
	}
	return nil
}

// authority leads to the Certificate whose authority a configuration contains, or adds a cause if it does not exist.
func (q *inquiry) authority(kind string, o client.Object, annotation string) {
	namespace, name, _ := strings.Cut(annotation, "/")
	all := q.listIn(namespace, certificate)
	exists := slices.ContainsFunc(all, func(c client.Object) bool { return c.GetName() == name })
	if exists || !q.couldRead(namespace, certificate) || len(all) >= pageSize*maxPages {
		q.next = append(q.next, newReference(certificate, namespace, name, ", whose authority it contains,"))
		return
	}
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: "CertificateNotFound", Object: diagnosis.Object{Kind: kind, Name: o.GetName()},
		Message: fmt.Sprintf("its annotation %s names Certificate %s, which does not exist", caAnnotation, annotation),
		Advice:  "ask the cluster's administrator to correct the annotation, or to create the Certificate",
	})
}

// webhook adds a cause if the API server cannot call the webhook.
func (q *inquiry) webhook(w admissionWebhook) {
	ref, s := w.client.Service, &corev1.Service{}
	port := networkingv1.ServiceBackendPort{Number: w.port()}
	cause := diagnosis.Cause{Object: diagnosis.Object{Kind: kindService, Name: ref.Name}}
	names := fmt.Sprintf("Service %q in namespace %q, which webhook %q calls, ", ref.Name, ref.Namespace, w.name)
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, s)
	switch expired := w.expiry(q.clock.Now()); {
	case apierrors.IsNotFound(err):
		cause.Reason, cause.Message = "ServiceNotFound", names+"does not exist"
		cause.Advice = "install the webhook again, or delete its configuration"
	case err != nil:
		q.unread("services", "get them", err)
		return
	case !offers(s, port):
		cause.Reason, cause.Message = "ServicePortNotFound", names+"has no port "+portText(port)+offered(s)
		cause.Advice = "correct the port of the webhook, or add the port to the Service"
	case expired != "":
		cause.Reason, cause.Message = "CertificateExpired", fmt.Sprintf("the certificate in caBundle of webhook %q expired on %s", w.name, expired)
		cause.Advice = "renew the certificates of the webhook, for example with its installer or cert-manager"
	default:
		behind := &inquiry{ctx: q.ctx, Explainer: q.Explainer, resource: q.resource, namespace: ref.Namespace}
		called := s.DeepCopy() // its other ports do not matter
		called.Spec.Ports = slices.DeleteFunc(called.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port != port.Number })
		e := behind.endpointsOf(called)
		q.explanation.NotChecked = append(q.explanation.NotChecked, behind.explanation.NotChecked...)
		if e.cause == nil && e.state != Waiting && e.state != Stopped {
			return
		}
		why := e.summary
		if e.state == Running {
			why = e.cause.Message
		}
		cause.Reason, cause.Message = reasonNoEndpoints, names+"has no pod that answers: "+why
		cause.Advice = "start the pods of the Service, or ask the cluster's administrator to delete the configuration of the webhook"
		q.next = append(q.next, reference{kind: schema.GroupKind{Kind: kindService}, namespace: ref.Namespace, name: ref.Name})
	}
	if w.policy() == admissionv1.Ignore {
		cause.Message += "; the API server admits requests that it does not check"
	} else {
		cause.Message += "; the API server refuses requests that it must check"
	}
	q.workload.Known = append(q.workload.Known, cause)
}

// port returns the port that the API server calls: api/admissionregistration/v1/types.go.
func (w *admissionWebhook) port() int32 { return ptr.Deref(w.client.Service.Port, 443) }

// policy returns what the API server does without an answer, by the same file.
func (w *admissionWebhook) policy() admissionv1.FailurePolicyType {
	return ptr.Deref(w.failure, admissionv1.Fail)
}

// expiry returns when the last certificate in caBundle expired, or "" if one is valid or none can be read.
func (w *admissionWebhook) expiry(now time.Time) string {
	var last time.Time
	for block, rest := pem.Decode(w.client.CABundle); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return ""
		}
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	if last.IsZero() || last.After(now) {
		return ""
	}
	return last.UTC().Format(time.DateOnly)
}
