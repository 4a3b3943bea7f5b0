package workload

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// NotebookIngress is how a notebook is reached from outside of the cluster, or nil
// if it is not.
func NotebookIngress(j *v1alpha1.Jupyter) *networkingv1.Ingress {
	access := j.Spec.Access
	if access.Type != v1alpha1.AccessTypeIngress {
		return nil
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: childMeta(j, j.Name),
		Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{
				Host: access.Host,
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{
						Path: "/", PathType: new(networkingv1.PathTypePrefix),
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
							Name: j.Name, Port: networkingv1.ServiceBackendPort{Name: portName},
						}},
					}},
				}},
			}},
		},
	}
	if access.IngressClassName != nil {
		ingress.Spec.IngressClassName = new(*access.IngressClassName)
	}
	if access.TLSSecretName != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{access.Host}, SecretName: access.TLSSecretName}}
	}
	return ingress
}

// NotebookURL is where a notebook is reached: from outside if there is an Ingress,
// from within the cluster otherwise. It holds no token.
func NotebookURL(j *v1alpha1.Jupyter) string {
	switch access := j.Spec.Access; {
	case access.Type != v1alpha1.AccessTypeIngress:
		return "http://" + j.Name + "." + j.Namespace + ".svc/"
	case access.TLSSecretName != "":
		return "https://" + access.Host + "/"
	default:
		return "http://" + access.Host + "/"
	}
}
