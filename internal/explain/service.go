package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	kindService       = "Service"
	reasonNoEndpoints = "NoEndpoints"
)

// service explains why a Service has no endpoints, or no address.
func (q *inquiry) service() error {
	q.explanation.passive = true
	s := &corev1.Service{}
	if readable, err := q.targetOf(kindService, s); !readable {
		return err
	}
	if s.DeletionTimestamp != nil {
		q.set(kindService, Stopped, "it is being deleted")
		return nil
	}
	pending := s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0
	if pending && len(s.Spec.Selector) == 0 { // the controller that made it writes its endpoints, once it has an address
		q.set(kindService, Waiting, "it has no address yet")
		q.loadBalancer(s)
		return nil
	}
	e := q.endpointsOf(s)
	q.set(kindService, e.state, e.summary)
	q.add(e)
	if len(e.slow) > 0 { // it works, but some of its pods may have a problem
		q.explanation.State, q.explanation.partial, q.works = Waiting, true, true
		q.workload.Pods = append(q.workload.Pods, e.slow...)
	}
	if e.state == Running && len(e.slow) == 0 && pending {
		q.set(kindService, Waiting, e.summary+"; it has no address yet")
		q.loadBalancer(s)
	}
	return nil
}

// add adds what the endpoints of a Service show.
func (q *inquiry) add(e endpoints) {
	if e.cause != nil {
		q.workload.Known = append(q.workload.Known, *e.cause)
	}
	q.workload.Pods = append(q.workload.Pods, e.unready...)
	if e.owner != nil {
		q.next = append(q.next, *e.owner)
	}
}

// endpoints describe where a Service sends requests.
type endpoints struct {
	state   State
	summary string
	// cause is why there are none, or nil.
	cause *diagnosis.Cause
	// unready are the selected pods if none of them is ready.
	unready []*corev1.Pod
	// slow are the selected pods that are not ready, if others are.
	slow []*corev1.Pod
	// owner creates the pods, if there are none, or is nil.
	owner *reference
}

// endpointsOf follows the rules of the EndpointSlice controller:
// k8s.io/endpointslice/utils.go and pkg/controller/endpointslice.
func (q *inquiry) endpointsOf(s *corev1.Service) endpoints {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return q.aliased(s)
	case s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes":
		return endpoints{state: Running, summary: "the API server manages its endpoints"} // or an administrator does
	case len(s.Spec.Selector) == 0 && s.Spec.ClusterIP == corev1.ClusterIPNone && len(s.Spec.Ports) == 0:
		return endpoints{state: Running, summary: "it has no selector and no ports"} // Patroni keeps its state in such Services
	case len(s.Spec.Selector) == 0:
		return q.manualEndpoints(s)
	}
	all, read := q.podsWith(labels.SelectorFromSet(s.Spec.Selector))
	if !read {
		return endpoints{state: Unknown, summary: "you may not read its pods"}
	}
	if len(all) == 0 {
		return q.noPods(s)
	}
	alive := slices.DeleteFunc(all, func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	ready := slices.DeleteFunc(slices.Clone(alive), func(p *corev1.Pod) bool {
		return !podIsReady(p) && (!s.Spec.PublishNotReadyAddresses || p.Status.PodIP == "")
	})
	summary := fmt.Sprintf("%d of %s ready", len(ready), plural(len(alive), "pod"))
	switch {
	case len(alive) == 0:
		return endpoints{state: Stopped, summary: "the pods that it selects have ended or are being deleted"}
	case len(ready) == 0:
		return endpoints{state: Waiting, summary: summary, unready: alive}
	}
	e := endpoints{state: Running, summary: summary, cause: missingPort(s, ready)}
	if e.cause == nil {
		e.slow = slices.DeleteFunc(alive, podIsReady)
	}
	return e
}

// aliased explains a Service that is another name for a host, which can be a Service that does not exist.
func (q *inquiry) aliased(s *corev1.Service) endpoints {
	e := endpoints{state: Running, summary: "it is an alias of " + s.Spec.ExternalName}
	m := serviceHost.FindStringSubmatch(s.Spec.ExternalName)
	if m == nil || m[1] == "" {
		return e
	}
	err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: m[2], Name: m[1]}, &corev1.Service{})
	switch {
	case apierrors.IsNotFound(err):
		e.state = Waiting
		e.cause = noEndpoints(s, fmt.Sprintf("it is an alias of %s, and namespace %q has no Service %q", s.Spec.ExternalName, m[2], m[1]), "correct spec.externalName")
	case err != nil:
		q.unread("services", "get them", err)
	}
	return e
}

func noEndpoints(s *corev1.Service, message, advice string) *diagnosis.Cause {
	return &diagnosis.Cause{Reason: reasonNoEndpoints, Object: diagnosis.Object{Kind: kindService, Name: s.Name}, Message: message, Advice: advice}
}

// manualEndpoints explains a Service without a selector. Its EndpointSlices come from
// users or other controllers.
func (q *inquiry) manualEndpoints(s *corev1.Service) endpoints {
	var list discoveryv1.EndpointSliceList
	addresses := 0
	read := q.list("endpointslices.discovery.k8s.io", &list, func() {
		for i := range list.Items {
			addresses += len(list.Items[i].Endpoints)
		}
	}, client.InNamespace(q.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name})
	e := endpoints{state: Running, summary: fmt.Sprintf("it has no selector; its EndpointSlices have %s", plural(addresses, "endpoint"))}
	switch {
	case !read:
		e.summary = "it has no selector; you may not read its EndpointSlices"
	case addresses == 0:
		e.owner = q.operatedBy(s)
		e.state, e.cause = Waiting, noEndpoints(s, "it has no selector, and no EndpointSlice contains an endpoint for it",
			"if a controller made the Service, find out why it has added no endpoint; otherwise, set spec.selector to the labels of the pods")
	}
	return e
}

// noPods explains why a Service selects no pod. Without all templates, it knows no cause.
func (q *inquiry) noPods(s *corev1.Service) endpoints {
	e := endpoints{state: Waiting, summary: "it selects no pod"}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	t, readAll := q.templateOf(selector)
	switch {
	case t != nil && t.idle != "":
		e.state, e.summary = Stopped, t.owner+", whose pods it selects, "+t.idle
	case t != nil:
		e.cause = noEndpoints(s, t.owner+", whose pods it selects, has no pods", fmt.Sprintf("if none appears, see its Events (kubectl events -n %s --for %s)", s.Namespace, typeAndName(t.owner)))
		e.owner = t.reference(q.namespace)
	case readAll:
		e.cause = noEndpoints(s, "no pod has the labels of its selector, "+selector.String()+q.nearMiss(s.Spec.Selector), "correct spec.selector, or the labels of the pods")
		e.owner = q.operatedBy(s)
	}
	return e
}

// operatedBy returns the custom resource that a Service without pods belongs to. It is nil if there is none.
func (q *inquiry) operatedBy(s *corev1.Service) *reference {
	kind, name := q.operandOf(s)
	if name == "" {
		return nil
	}
	return new(newReference(kind, s.Namespace, name, ", to which it belongs,").needed())
}

// operandOf returns the type and the name of that resource. It is the controller of the Service, or in a label of its
// selector, such as cnpg.io/cluster.
func (q *inquiry) operandOf(s *corev1.Service) (kind schema.GroupKind, name string) {
	if owner := metav1.GetControllerOfNoCopy(s); owner != nil {
		return kindOfOwner(owner), owner.Name
	}
	if len(s.Spec.Selector) == 0 {
		for _, o := range q.listIn(s.Namespace, workloads[1]) {
			if w, ok := o.(*appsv1.StatefulSet); ok && w.Spec.ServiceName == s.Name {
				return workloads[1], w.Name
			}
		}
	}
	if s.Labels["application"] == "spilo" { // postgres-operator.readthedocs.io
		return schema.GroupKind{Group: "acid.zalan.do", Kind: "postgresql"}, s.Labels["cluster-name"]
	}
	for _, key := range slices.Sorted(maps.Keys(s.Spec.Selector)) {
		prefix, word, found := strings.Cut(key, "/")
		if !found {
			kind = q.kindOfLabel(s.Namespace, prefix, s.Spec.Selector[key])
		} else if word != "" {
			kind = q.kindOfPrefix(key, strings.ToUpper(word[:1])+word[1:])
		}
		if kind.Kind != "" {
			return kind, s.Spec.Selector[key]
		}
	}
	return schema.GroupKind{}, ""
}

// kindOfLabel returns the type that a label without a prefix stands for, if an object has the name in its value. Examples
// are the labels prometheus and alertmanager of the Prometheus operator.
func (q *inquiry) kindOfLabel(namespace, label, name string) schema.GroupKind {
	for _, k := range q.kindsNamed(label) {
		if slices.ContainsFunc(q.listIn(namespace, k), func(o client.Object) bool { return o.GetName() == name }) {
			return k
		}
	}
	return schema.GroupKind{}
}

// kindOfPrefix returns the type with a name in the group to which the prefix of a label belongs.
func (q *inquiry) kindOfPrefix(label, kind string) schema.GroupKind {
	groups, err := q.served.ServerGroups()
	if err != nil {
		q.unread("the API groups", "", err)
		return schema.GroupKind{}
	}
	for _, g := range groups.Groups {
		named := schema.GroupKind{Group: g.Name, Kind: kind}
		if !isOfGroup(label, g.Name) {
			continue
		}
		if _, err := q.client.RESTMapper().RESTMapping(named); err == nil {
			return named
		}
	}
	return schema.GroupKind{}
}

func typeAndName(owner string) string {
	kind, name, _ := strings.Cut(owner, " ")
	return strings.ToLower(kind) + "/" + name
}

// nearMiss returns a text about pods that lack only one label of the selector.
func (q *inquiry) nearMiss(selector map[string]string) string {
	if len(selector) < 2 {
		return ""
	}
	pods, _ := q.podsWith(labels.Everything())
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		others := maps.Clone(selector)
		delete(others, key)
		i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return labels.SelectorFromSet(others).Matches(labels.Set(p.Labels)) })
		if i < 0 {
			continue
		}
		has := "no label " + key
		if value, ok := pods[i].Labels[key]; ok {
			has = "the label " + key + "=" + value
		}
		return fmt.Sprintf("; pod %q has the others, but %s", pods[i].Name, has)
	}
	return ""
}

// missingPort returns a cause if no ready pod has a named port that the Service uses. A
// numeric targetPort needs no port in the pods.
func missingPort(s *corev1.Service, pods []*corev1.Pod) *diagnosis.Cause {
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		if port.TargetPort.Type != intstr.String || slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return hasPort(p, port) }) {
			continue
		}
		return &diagnosis.Cause{
			Reason: "TargetPortNotFound", Object: diagnosis.Object{Kind: kindService, Name: s.Name},
			Message: fmt.Sprintf("port %d has the targetPort %q, but no container of its pods has a %s port of that name%s",
				port.Port, port.TargetPort.StrVal, port.Protocol, portNames(pods[0])),
			Advice: "correct targetPort, or the name of the container's port",
		}
	}
	return nil
}

func hasPort(p *corev1.Pod, port *corev1.ServicePort) bool {
	return slices.ContainsFunc(servingPorts(p), func(c corev1.ContainerPort) bool {
		return c.Name == port.TargetPort.StrVal && c.Protocol == port.Protocol
	})
}

// servingPorts returns the ports of the containers that run while the pod is ready.
func servingPorts(p *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, c := range p.Spec.Containers {
		ports = append(ports, c.Ports...)
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			ports = append(ports, c.Ports...)
		}
	}
	return ports
}

func portNames(p *corev1.Pod) string {
	var names []string
	for _, c := range servingPorts(p) {
		if c.Name != "" {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; they have " + nameList(names)
}

// addressAfter is how long a load balancer needs until it has an address. warningMaxAge is how old a
// Warning can be if the object has an address. A controller that fails tries again at least every 1,000
// seconds: client-go/util/workqueue.
const (
	addressAfter  = 5 * time.Minute
	warningMaxAge = 1000 * time.Second
)

// loadBalancer explains why a Service has no address.
func (q *inquiry) loadBalancer(s *corev1.Service) {
	now := q.clock.Now()
	if now.Sub(s.CreationTimestamp.Time) >= addressAfter {
		q.fallback = &diagnosis.Cause{
			Reason: "LoadBalancerPending", Object: diagnosis.Object{Kind: kindService, Name: s.Name}, Time: s.CreationTimestamp.Time, Transient: true,
			Message: "no controller has given the load balancer an address",
			Advice:  "it has no Warning that says why; ask the cluster's administrator for a controller of load balancers",
		}
	}
	for _, c := range s.Status.Conditions {
		if c.Status == metav1.ConditionFalse && c.Message != "" { // docs.cilium.io, LB IPAM
			q.workload.Known = append(q.workload.Known, fromCondition(diagnosis.Object{Kind: kindService, Name: s.Name}, short(c)))
		}
	}
	q.lastWarning(kindService, s, time.Time{})
	for i := range q.workload.Known {
		if c := &q.workload.Known[i]; c.Reason == "AllocationFailed" { // metallb.io, internal/k8s
			if strings.Contains(c.Message, "no available IPs") {
				c.Message += q.addressPools(s)
			}
			c.Advice = "ask the cluster's administrator for more addresses in an IPAddressPool of MetalLB, or delete a Service that uses one"
		}
	}
}

// addressPools names the IPAddressPools of MetalLB from which a Service can get an address: metallb.io/usage.
func (q *inquiry) addressPools(s *corev1.Service) string {
	var names []string
	for _, o := range q.listIn("", schema.GroupKind{Group: "metallb.io", Kind: "IPAddressPool"}) {
		if assigned, found, _ := unstructured.NestedBool(contentOf(o), "spec", "autoAssign"); assigned || !found {
			names = append(names, o.GetName())
		}
	}
	for _, key := range []string{"metallb.io/address-pool", "metallb.universe.tf/address-pool"} {
		if name := s.Annotations[key]; name != "" {
			names = []string{name}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it can get one from IPAddressPool " + nameList(names)
}
