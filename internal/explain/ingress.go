package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const kindIngress = "Ingress"

// maxBackends limits the Services and Secrets that are read for an Ingress.
const maxBackends = 32

// classAnnotation is how an Ingress named its class before spec.ingressClassName.
const classAnnotation = "kubernetes.io/ingress.class"

// ingress explains an Ingress by its class, its backends and its certificates.
func (q *inquiry) ingress() error {
	q.explanation.passive = true
	i := &networkingv1.Ingress{}
	if readable, err := q.targetOf(kindIngress, i); !readable {
		return err
	}
	if i.DeletionTimestamp != nil {
		q.set(kindIngress, Stopped, "it is being deleted")
		return nil
	}
	summary, warned := "a controller has given it an address", q.clock.Now().Add(-warningMaxAge)
	if len(i.Status.LoadBalancer.Ingress) == 0 {
		summary, warned = "no controller has given it an address", time.Time{}
	}
	q.set(kindIngress, Running, summary)
	q.ingressClass(i)
	for _, b := range backendsOf(i) {
		q.backend(b)
	}
	q.certificates(i)
	q.lastWarning(kindIngress, i, warned)
	if len(q.workload.Known)+len(q.workload.Pods) > 0 {
		q.explanation.State = Waiting
	}
	return nil
}

// ingressClass adds a cause if the class of the Ingress does not exist, or if it has none
// and needs one.
func (q *inquiry) ingressClass(i *networkingv1.Ingress) {
	if i.Annotations[classAnnotation] != "" {
		return // the controllers interpret it, without an object
	}
	var list networkingv1.IngressClassList
	var names []string
	var classes []networkingv1.IngressClass
	isDefault := false
	read := q.list("ingressclasses.networking.k8s.io", &list, func() {
		for _, c := range list.Items {
			names, classes = append(names, c.Name), append(classes, c)
			isDefault = isDefault || c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
		}
	})
	q.next = append(q.next, q.ingressController(i, classes)...)
	q.next = append(q.next, q.ingressAddress(i, classes)...)
	cause := diagnosis.Cause{Reason: "IngressClassNotFound", Object: diagnosis.Object{Kind: kindIngress, Name: i.Name}}
	cause.Advice = "set spec.ingressClassName to one of " + nameList(names)
	if len(names) == 0 {
		cause.Advice = "ask the cluster's administrator which controller serves Ingresses"
	}
	switch class := i.Spec.IngressClassName; {
	case !read:
		return
	case class != nil && !slices.Contains(names, *class):
		cause.Message = fmt.Sprintf("IngressClass %q does not exist", *class)
	case class == nil && !isDefault && len(names) > 0 && len(i.Status.LoadBalancer.Ingress) == 0: // some controllers need no class
		cause.Message = "it has no class, and no IngressClass is the default; most controllers ignore it"
	default:
		return
	}
	q.workload.Known = append(q.workload.Known, cause)
}

// backend is a Service that an Ingress sends requests to.
type backend struct {
	networkingv1.IngressServiceBackend
	// place is the first rule that names it.
	place string
}

// actionPort is the port of a backend that names an annotation of the Ingress instead of a Service:
// kubernetes-sigs/aws-load-balancer-controller/docs/guide/ingress/annotations.md.
const actionPort = "use-annotation"

// backendsOf returns the distinct Services of an Ingress.
func backendsOf(i *networkingv1.Ingress) []backend {
	var all []backend
	add := func(b *networkingv1.IngressBackend, place string) {
		if b == nil || b.Service == nil || b.Service.Port.Name == actionPort || len(all) >= maxBackends ||
			slices.ContainsFunc(all, func(known backend) bool { return known.IngressServiceBackend == *b.Service }) {
			return
		}
		all = append(all, backend{*b.Service, place})
	}
	add(i.Spec.DefaultBackend, "the default backend")
	for _, r := range i.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for p := range r.HTTP.Paths {
			add(&r.HTTP.Paths[p].Backend, fmt.Sprintf("path %q of host %q", r.HTTP.Paths[p].Path, r.Host))
		}
	}
	return all
}

// backend adds a cause if the Service or its port does not exist, or if it has no
// endpoints.
func (q *inquiry) backend(b backend) {
	object := diagnosis.Object{Kind: kindService, Name: b.Name}
	s := &corev1.Service{}
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: b.Name}, s)
	switch {
	case apierrors.IsNotFound(err):
		q.workload.Known = append(q.workload.Known, diagnosis.Cause{
			Reason: "ServiceNotFound", Object: object,
			Message: fmt.Sprintf("Service %q, which %s names, does not exist", b.Name, b.place),
			Advice:  "create the Service, or correct the backend of the Ingress",
		})
	case err != nil:
		q.unread("services", "get them", err)
	case !offers(s, b.Port):
		q.workload.Known = append(q.workload.Known, diagnosis.Cause{
			Reason: "ServicePortNotFound", Object: object,
			Message: fmt.Sprintf("Service %q has no port %s, which %s names%s", b.Name, portText(b.Port), b.place, offered(s)),
			Advice:  "correct the port of the backend, or add the port to the Service",
		})
	default:
		e := q.endpointsOf(s)
		if e.state == Stopped {
			if q.logs == nil { // pods that are stopped on purpose are no problem in an overview
				return
			}
			e.cause = noEndpoints(s, fmt.Sprintf("Service %q has no pods: %s", b.Name, e.summary), "start the pods again, or remove the backend")
		}
		q.add(e)
	}
}

// offers reports whether the Service has a port. A Service without ports that is an alias
// accepts all.
func offers(s *corev1.Service, port networkingv1.ServiceBackendPort) bool {
	return s.Spec.Type == corev1.ServiceTypeExternalName || slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return port.Name != "" && p.Name == port.Name || port.Name == "" && p.Port == port.Number
	})
}

func portText(p networkingv1.ServiceBackendPort) string {
	if p.Name != "" {
		return fmt.Sprintf("%q", p.Name)
	}
	return fmt.Sprint(p.Number)
}

func offered(s *corev1.Service) string {
	var ports []string
	for _, p := range s.Spec.Ports {
		text := fmt.Sprint(p.Port)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		ports = append(ports, text)
	}
	if len(ports) == 0 {
		return ""
	}
	return "; it has " + nameList(ports)
}

// certificates adds a cause for each missing Secret with a certificate. It reads only the
// metadata.
func (q *inquiry) certificates(i *networkingv1.Ingress) {
	for _, t := range i.Spec.TLS[:min(len(i.Spec.TLS), maxBackends)] {
		if t.SecretName == "" {
			continue
		}
		if q.logs == nil { // an overview reads no Secrets, but what creates them
			q.next = append(q.next, q.makersOf(kindSecret, q.namespace, t.SecretName)...)
			continue
		}
		var secret metav1.PartialObjectMetadata
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: q.namespace, Name: t.SecretName}, &secret)
		switch {
		case apierrors.IsNotFound(err):
			q.workload.Known = append(q.workload.Known, diagnosis.Cause{
				Reason: diagnosis.ReasonSecretNotFound, Object: diagnosis.Object{Kind: "Secret", Name: t.SecretName},
				Message: fmt.Sprintf("Secret %q, which contains the certificate of %s, does not exist", t.SecretName, hostsOf(t)),
				Advice:  "create the Secret with type kubernetes.io/tls, or look at the controller that should create it",
			})
		case err != nil:
			q.unread("secrets", "get them", err)
		}
	}
}

func hostsOf(t networkingv1.IngressTLS) string {
	if len(t.Hosts) == 0 {
		return "all hosts"
	}
	return "host " + nameList(t.Hosts)
}
