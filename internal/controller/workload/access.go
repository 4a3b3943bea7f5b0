package workload

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// NotebookIngress makes a notebook reachable from outside the cluster; nil if it is not.
func NotebookIngress(j *v1alpha1.Jupyter) *networkingv1.Ingress {
	access := j.Spec.Access
	if access.Type != v1alpha1.AccessTypeIngress {
		return nil
	}
	meta := childMeta(j, j.Name)
	for name, value := range access.Annotations {
		metav1.SetMetaDataAnnotation(&meta, name, string(value))
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: meta,
		Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{
				Host: access.Host,
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{
						Path: cmp.Or(access.Path, "/"), PathType: new(networkingv1.PathTypePrefix),
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

// NotebookURL is the URL of a notebook: the one of its Ingress, or else of its Service. It
// contains no token.
func NotebookURL(j *v1alpha1.Jupyter) string {
	access := j.Spec.Access
	scheme, host := "http://", access.Host
	switch {
	case access.Type != v1alpha1.AccessTypeIngress:
		host = j.Name + "." + j.Namespace + ".svc"
	case access.TLSSecretName != "":
		scheme = "https://"
	}
	return scheme + host + access.Path + "/"
}

// prefixFlag is the argument that sets the path prefix of the server.
const prefixFlag = "--ServerApp.base_url="

// IsJupyter reports whether the server is a Jupyter server.
func IsJupyter(j *v1alpha1.Jupyter) bool {
	return j.Spec.Server == nil || j.Spec.Server.Type != v1alpha1.ServerTypeHTTP
}

// SpecPort is the port on which the server of a spec listens.
func SpecPort(j *v1alpha1.Jupyter) int32 {
	if IsJupyter(j) {
		return NotebookPort
	}
	return j.Spec.Server.Port
}

// ServerPort is the port on which the server in a pod listens. It differs from that of the
// spec until the notebook restarts.
func ServerPort(pod *corev1.Pod) int32 {
	if c := notebookOf(pod); c != nil {
		for _, port := range c.Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return NotebookPort
}

// notebookOf is the container of the server; nil if there is none.
func notebookOf(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == v1alpha1.NotebookContainer {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// serverVariables are the variables that the server gets. An HTTP server gets none.
func serverVariables(j *v1alpha1.Jupyter) []corev1.EnvVar {
	if !IsJupyter(j) {
		return nil
	}
	token := TokenRef(j)
	variables := []corev1.EnvVar{{
		Name: tokenVariable,
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: token.Name}, Key: token.Key,
		}},
	}}
	if prefix := j.Spec.Access.Path; prefix != "" {
		variables = append(variables, corev1.EnvVar{Name: v1alpha1.VariableNotebookArgs, Value: prefixFlag + prefix})
	}
	return variables
}

// overrideCommand sets the command and the arguments of the spec, which win over the
// template.
func overrideCommand(container *corev1.Container, server *v1alpha1.JupyterServer) {
	if server == nil {
		return
	}
	if len(server.Command) > 0 {
		container.Command = slices.Clone(server.Command)
	}
	if len(server.Args) > 0 {
		container.Args = slices.Clone(server.Args)
	}
}

// pathPrefix is the pattern of spec.access.path.
var pathPrefix = regexp.MustCompile(`^(/[A-Za-z0-9][-._A-Za-z0-9]*)+$`)

// NotebookPrefix is the path prefix of the server in a pod, without a slash at the end. It
// is empty if there is none. It differs from spec.access.path until the notebook restarts.
func NotebookPrefix(pod *corev1.Pod) string {
	c := notebookOf(pod)
	if c == nil {
		return ""
	}
	for _, variable := range c.Env {
		prefix, found := strings.CutPrefix(variable.Value, prefixFlag)
		if variable.Name == v1alpha1.VariableNotebookArgs && found && pathPrefix.MatchString(prefix) {
			return prefix
		}
	}
	return ""
}
