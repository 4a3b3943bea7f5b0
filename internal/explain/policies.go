package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Policies of others than Kubernetes: docs.cilium.io, security/policy, and istio.io/docs/reference/config/security.
var (
	ciliumPolicy        = schema.GroupKind{Group: "cilium.io", Kind: "CiliumNetworkPolicy"}
	ciliumClusterPolicy = schema.GroupKind{Group: "cilium.io", Kind: "CiliumClusterwideNetworkPolicy"}
	authorizationPolicy = schema.GroupKind{Group: "security.istio.io", Kind: "AuthorizationPolicy"}
)

// ciliumBetween returns the policies of Cilium that isolate a pod, as a text, if none of them admits connections of
// another pod. It returns "" if one may admit them.
func (q *inquiry) ciliumBetween(isolated, other *corev1.Pod) string {
	if isolated.Spec.HostNetwork || other.Spec.HostNetwork {
		return ""
	}
	var names []string
	for _, o := range slices.Concat(q.listIn(isolated.Namespace, ciliumPolicy), q.listIn("", ciliumClusterPolicy)) {
		spec, _, _ := unstructured.NestedMap(contentOf(o), "spec")
		rules, _ := spec["ingress"].([]any)
		selector, known := ciliumSelector(spec["endpointSelector"])
		if selector == nil || len(rules) == 0 && known || !selector.Matches(ciliumLabels(isolated)) {
			continue
		}
		if slices.ContainsFunc(rules, func(r any) bool { return mayAdmit(r, o.GetNamespace(), other) }) {
			return ""
		}
		names = append(names, fmt.Sprintf("%q", o.GetName()))
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("CiliumNetworkPolicy %s of namespace %q admits no connection from pod %q", strings.Join(names, ", "), isolated.Namespace, other.Name)
}

// mayAdmit reports whether an ingress rule of Cilium may admit a pod. Of all peers, only those by labels are compared.
func mayAdmit(rule any, namespace string, pod *corev1.Pod) bool {
	fields, _ := rule.(map[string]any)
	endpoints, found := fields["fromEndpoints"].([]any)
	for field := range fields {
		if field != "fromEndpoints" && field != "toPorts" {
			return true
		}
	}
	return !found || slices.ContainsFunc(endpoints, func(e any) bool {
		selector, known := ciliumSelector(e)
		if !known {
			return true
		}
		const namespaceLabel = "io.kubernetes.pod.namespace"
		if requirements, _ := selector.Requirements(); namespace != "" && !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == namespaceLabel }) && pod.Namespace != namespace {
			return false
		}
		return selector.Matches(ciliumLabels(pod))
	})
}

// ciliumSelector reads a selector, whose labels can have the prefix k8s: or any:. It does not know those with labels of
// the namespace.
func ciliumSelector(value any) (selector labels.Selector, known bool) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	of := &metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, of) != nil {
		return nil, false
	}
	plain := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range of.MatchLabels {
		plain.MatchLabels[withoutSource(key)] = value
	}
	for _, e := range of.MatchExpressions {
		e.Key = withoutSource(e.Key)
		plain.MatchExpressions = append(plain.MatchExpressions, e)
	}
	selector, err := metav1.LabelSelectorAsSelector(plain)
	if err != nil || strings.Contains(selector.String(), "io.cilium.") {
		return nil, false
	}
	return selector, true
}

// withoutSource removes where Cilium has a label from.
func withoutSource(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, "k8s:"), "any:")
}

// ciliumLabels returns the labels that Cilium gives a pod, except those of its namespace.
func ciliumLabels(p *corev1.Pod) labels.Set {
	all := labels.Set{"io.kubernetes.pod.namespace": p.Namespace, "io.cilium.k8s.policy.serviceaccount": p.Spec.ServiceAccountName}
	maps.Copy(all, p.Labels)
	return all
}

// deniedByIstio adds to the cause which AuthorizationPolicies decide about the calls that the log says are denied. It
// leads nowhere: they do what they should.
func (q *inquiry) deniedByIstio([]string) []reference {
	p := q.loggedPod()
	if p == nil {
		return nil
	}
	for _, line := range q.explanation.Log.whole {
		if !strings.Contains(line, "RBAC: access denied") {
			continue
		}
		for _, s := range q.servicesIn(line) {
			if names := q.authorizing(s); len(names) > 0 {
				q.explanation.Cause.add(fmt.Sprintf("its log says that Istio denies its calls of Service %q: AuthorizationPolicy %s of namespace %q decides about them, and the pod runs as ServiceAccount %q",
					s.Name, strings.Join(names, ", "), s.Namespace, p.Spec.ServiceAccountName), "if the calls are wanted, add a rule for this ServiceAccount")
			}
		}
	}
	return nil
}

// authorizing returns the quoted names of the AuthorizationPolicies for the pods of a Service.
func (q *inquiry) authorizing(s *corev1.Service) (names []string) {
	for _, o := range q.listIn(s.Namespace, authorizationPolicy) {
		selector, _, _ := unstructured.NestedStringMap(contentOf(o), "spec", "selector", "matchLabels")
		isFor := slices.ContainsFunc(q.listIn(s.Namespace, podKind), func(p client.Object) bool {
			return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.GetLabels())) && labels.SelectorFromSet(selector).Matches(labels.Set(p.GetLabels()))
		})
		if isFor && len(names) < maxReferences {
			names = append(names, fmt.Sprintf("%q", o.GetName()))
		}
	}
	return names
}
