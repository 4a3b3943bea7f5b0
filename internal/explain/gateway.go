package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gatewayGroup is the group of gateway-api/apis/v1.
const gatewayGroup = "gateway.networking.k8s.io"

var gateway = schema.GroupKind{Group: gatewayGroup, Kind: "Gateway"}

// routed adds what the Services of a route of gateway-api/apis/v1 show. Its conditions only say whether
// these exist.
func (q *inquiry) routed(u *unstructured.Unstructured) {
	kind := u.GroupVersionKind()
	if kind.Group != gatewayGroup || !strings.HasSuffix(kind.Kind, "Route") {
		return
	}
	if q.explanation.State == Running || len(q.explanation.Conditions) == 0 {
		q.next = append(q.next, q.gateways(u)...)
	}
	if q.explanation.State != Running {
		return
	}
	q.routeBackends(u)
	if len(q.workload.Known)+len(q.workload.Pods) > 0 {
		q.explanation.State = Waiting
	}
}

// routeBackends adds what the Services of a route show.
func (q *inquiry) routeBackends(u *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
	read := 0
	for i, rule := range rules {
		fields, _ := rule.(map[string]any)
		backends, _, _ := unstructured.NestedSlice(fields, "backendRefs")
		for _, b := range backends {
			ref, _ := b.(map[string]any)
			name, _ := ref["name"].(string)
			port, _ := ref["port"].(int64)
			namespace, _ := ref["namespace"].(string)
			if weight, ok := ref["weight"].(int64); ok && weight == 0 { // it gets no requests
				continue
			}
			if kindIn("backendRefs", ref, "") != serviceKind || read >= maxBackends || namespace != "" && namespace != q.namespace {
				continue
			}
			read++
			q.backend(backend{networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: int32(port)}}, fmt.Sprintf("rule %d", i+1)})
		}
	}
}

// gateways returns the Gateways of a route that have a problem themselves. That of a listener can be about other routes.
func (q *inquiry) gateways(route *unstructured.Unstructured) []reference {
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	var all []reference
	for _, p := range parents[:min(len(parents), maxReferences)] {
		ref, _ := p.(map[string]any)
		name, _ := ref["name"].(string)
		namespace, _ := ref["namespace"].(string)
		namespace = cmp.Or(namespace, q.namespace)
		for _, o := range q.listIn(namespace, gateway) {
			conditions := conditionsIn(contentOf(o)["status"], "")
			fails := slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
				return isBad(c) || isConventional(c) && c.Status == metav1.ConditionUnknown
			})
			if kindIn("parentRefs", ref, gatewayGroup) == gateway && o.GetName() == name && fails {
				all = append(all, newReference(gateway, namespace, name, ", through which requests come,"))
			}
		}
	}
	return all
}

// gatewayNames are the labels of the Service of a Gateway with its name: gateway-api.sigs.k8s.io/geps/gep-1762, and
// gateway.envoyproxy.io.
var gatewayNames = []string{"gateway.networking.k8s.io/gateway-name", "gateway.envoyproxy.io/owning-gateway-name"}

// gatewayServices returns the Services at which a Gateway without an address gets requests.
func (q *inquiry) gatewayServices() []reference {
	if !strings.Contains(strings.ToLower(q.problemText()), "address") {
		return nil
	}
	var all []reference
	for _, o := range q.listIn("", serviceKind) {
		isOwn := metav1.IsControlledBy(o, q.object) || slices.ContainsFunc(gatewayNames, func(label string) bool { return o.GetLabels()[label] == q.name }) &&
			cmp.Or(o.GetLabels()["gateway.envoyproxy.io/owning-gateway-namespace"], o.GetNamespace()) == q.namespace
		if isOwn && len(all) < maxReferences {
			all = append(all, newReference(serviceKind, o.GetNamespace(), o.GetName(), ", which gets its requests,"))
		}
	}
	return all
}

// gatewayClass returns the class of a Gateway that no controller has answered.
func (q *inquiry) gatewayClass() []reference {
	name, _, _ := unstructured.NestedString(q.custom().Object, "spec", "gatewayClassName")
	return []reference{newReference(schema.GroupKind{Group: gatewayGroup, Kind: "GatewayClass"}, "", name, ", which is its class,")}
}

// gatewayCertificates returns what should create the Secrets with the certificates of a Gateway's listeners.
func (q *inquiry) gatewayCertificates() []reference {
	if !strings.Contains(q.problemText(), "ertificateRef") {
		return nil
	}
	var all []reference
	c := q.explanation.Cause
	eachReference(q.custom().Object["spec"], func(field string, ref map[string]any) {
		name, _ := ref["name"].(string)
		namespace, _ := ref["namespace"].(string)
		if field != "certificateRefs" || name == "" {
			return
		}
		if c != nil && c.Reason == "RefNotPermitted" {
			if namespace == "" || namespace == q.namespace || q.isGranted(namespace, name) {
				return
			}
			c.add(fmt.Sprintf("no ReferenceGrant of namespace %q lets a Gateway of namespace %q use Secret %q", namespace, q.namespace, name), "ask for a ReferenceGrant there, or for a copy of the Secret")
			return
		}
		if len(all) < maxReferences {
			all = append(all, q.missingSecret(cmp.Or(namespace, q.namespace), name)...)
		}
	})
	return all
}

// isGranted reports whether a ReferenceGrant of a namespace lets Gateways of the target's namespace use a Secret. It is true if
// they cannot be read.
func (q *inquiry) isGranted(namespace, secret string) bool {
	kind := schema.GroupKind{Group: gatewayGroup, Kind: "ReferenceGrant"}
	grants := q.listIn(namespace, kind)
	return !q.couldRead(namespace, kind) || slices.ContainsFunc(grants, func(o client.Object) bool {
		return has(contentOf(o), "from", map[string]string{"kind": gateway.Kind, "namespace": q.namespace}) &&
			(has(contentOf(o), "to", map[string]string{"kind": kindSecret, "name": secret}) || has(contentOf(o), "to", map[string]string{"kind": kindSecret, "name": ""}))
	})
}

// has reports whether an item of a list in a spec has these values. A field that is missing is empty.
func has(content map[string]any, list string, values map[string]string) bool {
	items, _, _ := unstructured.NestedSlice(content, "spec", list)
	return slices.ContainsFunc(items, func(item any) bool {
		fields, _ := item.(map[string]any)
		for field, want := range values {
			if got, _ := fields[field].(string); got != want {
				return false
			}
		}
		return true
	})
}
