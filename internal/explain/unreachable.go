package explain

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How programs, their libraries, and scripts that wait for a host say that they cannot reach it. The texts are
// those of Go, Java, Node.js, Python, glibc, musl and libpq.
var (
	noConnection = regexp.MustCompile(`(?i)connection (?:refused|reset)|connection to \S+ refused|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|no such host|(?:name|service) (?:or service )?not known|` +
		`name ?resolution|name does not resolve|could not translate host|UnknownHost|no route to host|unreachable|timed? ?out|deadline exceeded|can(?:no|')t connect|(?:could not|cannot|failed to|unable to) (?:connect|resolve|reach)|failed to obtain|waiting for|no response`)
	noName     = regexp.MustCompile(`(?i)name ?resolution|failed to resolve|EAI_AGAIN|lookup .*i/o timeout|could not translate host|could not resolve`)
	givesUp    = regexp.MustCompile(`(?i)\b(?:exiting|giving up|shutting down|aborting|will exit|quitting)\b`)
	noAnswer   = regexp.MustCompile(`(?i)timed? ?out|ETIMEDOUT|deadline exceeded`)
	refused    = regexp.MustCompile(`(?i)connection refused|ECONNREFUSED`)
	otherError = regexp.MustCompile(`(?i)\b(?:error|fatal|panic|exception|traceback|failed|invalid|missing|denied|unauthorized)\b`)
	hostName   = regexp.MustCompile(`[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*`)
)

// unreachable returns the Services that the container cannot reach, as the end of its log says, and what should apply one
// that does not exist.
func (q *inquiry) unreachable() []reference {
	x := &q.explanation
	if x.Log == nil || x.Cause == nil {
		return nil
	}
	var all []reference
	for _, line := range x.Log.connectionErrors() {
		services := q.servicesIn(line)
		if q.between(line, services) {
			return nil
		}
		if m := unknownName.FindStringSubmatch(line); m != nil && noSuchName.MatchString(line) {
			all = append(all, q.missingService(m[1])...)
		}
		for _, s := range services {
			r := newReference(serviceKind, s.Namespace, s.Name, ", which it cannot reach by its log,").needed()
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// between reports whether the reason is not one of the Services that a line is about: a NetworkPolicy, or a port. The cause then
// says so.
func (q *inquiry) between(line string, services []*corev1.Service) bool {
	return noName.MatchString(line) && q.withoutDNS() || noAnswer.MatchString(line) && slices.ContainsFunc(services, q.forbidden) ||
		refused.MatchString(line) && slices.ContainsFunc(services, func(s *corev1.Service) bool { return q.undeclaredPort(s, line) })
}

// connectionErrors returns the lines that say that a host cannot be reached, the last one first. Another error
// below them means that they have not ended the program, unless it still runs.
func (l *Log) connectionErrors() []string {
	var all []string
	for _, line := range slices.Backward(l.whole) {
		switch {
		case noConnection.MatchString(line):
			all = append(all, line)
		case givesUp.MatchString(line): // because of an error above
		case otherError.MatchString(line) && l.Errors == 0:
			return all
		}
	}
	return all
}

// lastMatch returns the submatches of an expression in the error that ended the program, or in the last such line of one
// that runs. It is nil if there is none.
func (l *Log) lastMatch(text *regexp.Regexp) []string {
	if l == nil {
		return nil
	}
	if l.Errors == 0 {
		return text.FindStringSubmatch(lastError(l.whole))
	}
	for _, line := range slices.Backward(l.whole) {
		if m := text.FindStringSubmatch(line); m != nil {
			return m
		}
	}
	return nil
}

// lastError returns the last line that reports an error, without the one that says that the program gives up.
func lastError(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if !givesUp.MatchString(line) && (otherError.MatchString(line) || noConnection.MatchString(line) || denial.MatchString(line)) {
			return line
		}
	}
	return ""
}

// urlWithPort matches NAME.NAMESPACE in a URL. Without a port, it is more often a host of the Internet.
var urlWithPort = regexp.MustCompile(`://([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.([a-z0-9](?:[a-z0-9-]*[a-z0-9])?):\d`)

// servicesIn returns the Services whose names or addresses a line contains, except those of the pod itself.
func (q *inquiry) servicesIn(line string) []*corev1.Service {
	var all []*corev1.Service
	add := func(s *corev1.Service) {
		if s != nil && !q.isBehind(s) && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, host := range hostName.FindAllString(line, -1) {
		add(q.serviceAt(host))
	}
	for _, m := range urlWithPort.FindAllStringSubmatch(line, maxReferences) {
		add(q.serviceWith(m[2], func(s *corev1.Service) bool { return s.Name == m[1] }))
	}
	return all
}

// isBehind reports whether a Service selects the pod of the log.
func (q *inquiry) isBehind(s *corev1.Service) bool {
	p := q.loggedPod()
	return p != nil && p.Namespace == s.Namespace && len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
}

// serviceAt returns the Service that a name or an address in a log means, or nil.
func (q *inquiry) serviceAt(host string) *corev1.Service {
	if address := net.ParseIP(host); address != nil {
		return q.serviceWith("", func(s *corev1.Service) bool {
			return slices.Contains(s.Spec.ClusterIPs, host) || s.Spec.ClusterIP == host ||
				slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == host })
		})
	}
	parts := strings.Split(host, ".")
	named := func(namespace, name string) *corev1.Service {
		return q.serviceWith(namespace, func(s *corev1.Service) bool { return s.Name == name })
	}
	switch {
	case len(parts) == 1:
		return named(q.namespace, host)
	case len(parts) >= 4 && parts[3] == "svc": // a pod of a StatefulSet
		return named(parts[2], parts[1])
	case len(parts) >= 3 && parts[2] == "svc":
		return named(parts[1], parts[0])
	case len(parts) == 2 && parts[1] == q.namespace:
		return named(q.namespace, parts[0])
	case len(parts) == 2: // a pod of a StatefulSet: a Service of another namespace looks like a file
		return named(q.namespace, parts[1])
	}
	return nil
}

func (q *inquiry) serviceWith(namespace string, is func(*corev1.Service) bool) *corev1.Service {
	for _, o := range q.listIn(namespace, serviceKind) {
		if s, ok := o.(*corev1.Service); ok && is(s) {
			return s
		}
	}
	return nil
}

// withoutDNS reports whether NetworkPolicies forbid the pod of the log to ask for the address of a host, and
// says so in the cause.
func (q *inquiry) withoutDNS() bool {
	from := q.loggedPod()
	if from == nil || from.Spec.HostNetwork {
		return false
	}
	names, allowed := q.isolating(from, networkingv1.PolicyTypeEgress, func(_ *networkingv1.NetworkPolicy, r policyRule) bool {
		return len(r.ports) == 0 || slices.ContainsFunc(r.ports, func(p networkingv1.NetworkPolicyPort) bool {
			return p.Port == nil || p.Port.Type == intstr.String || p.Port.IntVal <= dnsPort && dnsPort <= max(p.Port.IntVal, ptr.Deref(p.EndPort, 0))
		})
	})
	if allowed || len(names) == 0 {
		return false
	}
	q.explanation.Cause.add(fmt.Sprintf("its log says that it cannot resolve a name, and NetworkPolicy %s allows the pod no connection to port %d (DNS)", strings.Join(names, ", "), dnsPort),
		"add an egress rule for the ports 53 of UDP and TCP")
	return true
}

const dnsPort = 53

// loggedPod returns the pod whose log was read, or nil.
func (q *inquiry) loggedPod() *corev1.Pod {
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == q.explanation.Log.Pod })
	if i < 0 {
		return nil
	}
	return q.workload.Pods[i]
}

// unknownName matches how Go, Node.js, Python and curl say that a name does not exist. The first group is the name.
var unknownName = regexp.MustCompile(`(?:lookup |getaddrinfo ENOTFOUND |Failed to resolve '|Could not resolve host: |host=')([a-z0-9][a-z0-9.-]*)`)

// noSuchName matches an answer of a DNS server that has no such name.
var noSuchName = regexp.MustCompile(`(?i)no such host|ENOTFOUND|NXDOMAIN|not known|could not resolve host`)

// missingService returns what should apply a Service that does not exist. The cause then says that it does not. A name
// without a dot, or with the suffix svc, can only be that of a Service.
func (q *inquiry) missingService(host string) []reference {
	parts := strings.Split(host, ".")
	namespace := q.namespace
	switch {
	case len(parts) >= 3 && parts[2] == "svc":
		namespace = parts[1]
	case len(parts) != 1:
		return nil
	}
	all := q.listIn(namespace, serviceKind)
	if slices.ContainsFunc(all, func(o client.Object) bool { return o.GetName() == parts[0] }) || !q.couldRead(namespace, serviceKind) {
		return nil
	}
	q.explanation.Cause.add(fmt.Sprintf("its log says that it cannot resolve %q, and namespace %q has no Service of this name", host, namespace), "create the Service, or correct the name in the configuration of the program")
	return q.appliersOf(kindService, namespace, parts[0])
}

// undeclaredPort reports whether a Service forwards a port to one that no container of its pods declares, and says so in the
// cause. A container can listen on others too. So it counts only if a line says that connections to the port are refused.
func (q *inquiry) undeclaredPort(s *corev1.Service, line string) bool {
	if len(s.Spec.Selector) == 0 {
		return false
	}
	i := slices.IndexFunc(q.listIn(s.Namespace, podKind), func(o client.Object) bool {
		p, ok := o.(*corev1.Pod)
		return ok && podIsReady(p) && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
	})
	if i < 0 {
		return false
	}
	p := q.listIn(s.Namespace, podKind)[i].(*corev1.Pod) //nolint:forcetypeassert // the search checked it
	var declared []int32
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			declared = append(declared, port.ContainerPort)
		}
	}
	for _, port := range s.Spec.Ports {
		to := port.TargetPort.IntVal
		isMeant := len(s.Spec.Ports) == 1 || strings.Contains(line, fmt.Sprintf(":%d", port.Port))
		if !isMeant || port.TargetPort.Type == intstr.String || len(declared) == 0 || slices.Contains(declared, cmp.Or(to, port.Port)) {
			continue
		}
		q.explanation.Cause.add(fmt.Sprintf("its log says that Service %q of namespace %q refuses the connection; it forwards to port %d, and its pods declare %s", s.Name, s.Namespace, cmp.Or(to, port.Port), strings.Trim(fmt.Sprint(declared), "[]")),
			"correct targetPort of the Service, or the port on which the program listens")
		return true
	}
	return false
}

// forbidden reports whether NetworkPolicies forbid the pod of the log to connect to a Service, and says so
// in the cause: k8s.io/api/networking/v1, NetworkPolicySpec.
func (q *inquiry) forbidden(s *corev1.Service) bool {
	from := q.loggedPod()
	if from == nil || len(s.Spec.Selector) == 0 {
		return false
	}
	behind := &inquiry{ctx: q.ctx, Explainer: q.Explainer, resource: q.resource, namespace: s.Namespace}
	pods, _ := behind.podsWith(labels.SelectorFromSet(s.Spec.Selector))
	q.alsoUnread(behind.explanation.NotChecked)
	if len(pods) == 0 {
		return false
	}
	by := q.policyBetween(pods[0], from, networkingv1.PolicyTypeIngress, s)
	advice := fmt.Sprintf("if the connection is wanted, add an ingress rule that admits pods with the labels of pod %q", from.Name)
	if by == "" {
		by = q.ciliumBetween(pods[0], from)
	}
	if by == "" {
		by = q.policyBetween(from, pods[0], networkingv1.PolicyTypeEgress, s)
		advice = fmt.Sprintf("if the connection is wanted, add an egress rule for the pods of Service %q", s.Name)
	}
	if by == "" {
		return false
	}
	q.explanation.Cause.add(fmt.Sprintf("its log says that Service %q does not answer, and %s", s.Name, by), advice)
	return true
}

// policyBetween returns the NetworkPolicies that isolate a pod, as a text, if none of them allows connections
// with another pod. It returns "" if one may allow them.
func (q *inquiry) policyBetween(isolated, other *corev1.Pod, direction networkingv1.PolicyType, s *corev1.Service) string {
	if isolated.Spec.HostNetwork || other.Spec.HostNetwork { // policies are for addresses of pods
		return ""
	}
	names, allowed := q.isolating(isolated, direction, func(p *networkingv1.NetworkPolicy, r policyRule) bool {
		return r.hasPort(s) && (len(r.peers) == 0 || slices.ContainsFunc(r.peers, func(peer networkingv1.NetworkPolicyPeer) bool {
			return q.isPeer(peer, p.Namespace, other)
		}))
	})
	if allowed || len(names) == 0 {
		return ""
	}
	verb := "admits no connection from pod"
	if direction == networkingv1.PolicyTypeEgress {
		verb = "allows no connection to pod"
	}
	return fmt.Sprintf("NetworkPolicy %s of namespace %q %s %q", strings.Join(names, ", "), isolated.Namespace, verb, other.Name)
}

// isolating returns the quoted names of the NetworkPolicies that isolate a pod in a direction, and whether one of
// their rules allows what allows reports. Without the permission to read them, there are none.
func (q *inquiry) isolating(p *corev1.Pod, direction networkingv1.PolicyType, allows func(*networkingv1.NetworkPolicy, policyRule) bool) (names []string, allowed bool) {
	for _, o := range q.listIn(p.Namespace, networkPolicyKind) {
		policy, ok := o.(*networkingv1.NetworkPolicy)
		if !ok || !isolates(policy, direction) || !selects(&policy.Spec.PodSelector, p.Labels) {
			continue
		}
		names = append(names, fmt.Sprintf("%q", policy.Name))
		allowed = allowed || slices.ContainsFunc(rulesOf(policy, direction), func(r policyRule) bool { return allows(policy, r) })
	}
	return names, allowed
}

// isolates reports whether a NetworkPolicy is for a direction. The API server sets the types if they are empty.
func isolates(p *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if len(p.Spec.PolicyTypes) == 0 {
		return direction == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
	}
	return slices.Contains(p.Spec.PolicyTypes, direction)
}

// policyRule is a rule of a NetworkPolicy in one of the two directions.
type policyRule struct {
	ports []networkingv1.NetworkPolicyPort
	peers []networkingv1.NetworkPolicyPeer
}

func rulesOf(p *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) (rules []policyRule) {
	if direction == networkingv1.PolicyTypeEgress {
		for _, r := range p.Spec.Egress {
			rules = append(rules, policyRule{r.Ports, r.To})
		}
		return rules
	}
	for _, r := range p.Spec.Ingress {
		rules = append(rules, policyRule{r.Ports, r.From})
	}
	return rules
}

// hasPort reports whether a rule may be for a port of the Service. A name of a port may be any number.
func (r *policyRule) hasPort(s *corev1.Service) bool {
	return len(r.ports) == 0 || slices.ContainsFunc(r.ports, func(port networkingv1.NetworkPolicyPort) bool {
		if port.Port == nil || port.Port.Type == intstr.String {
			return true
		}
		first, last := port.Port.IntVal, port.Port.IntVal
		if port.EndPort != nil {
			last = *port.EndPort
		}
		return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			target := p.TargetPort.IntVal
			if target == 0 {
				target = p.Port
			}
			return p.TargetPort.Type == intstr.String || first <= target && target <= last
		})
	})
}

// isPeer reports whether a peer of a NetworkPolicy may be the pod. A block of addresses may contain it.
func (q *inquiry) isPeer(peer networkingv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	if peer.IPBlock != nil {
		return true
	}
	if peer.PodSelector != nil && !selects(peer.PodSelector, pod.Labels) {
		return false
	}
	if peer.NamespaceSelector == nil {
		return pod.Namespace == namespace
	}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Name: pod.Namespace}, n); err != nil {
		if !apierrors.IsNotFound(err) {
			q.unread("namespace "+pod.Namespace, "get it", err)
		}
		return true // it is not known
	}
	return selects(peer.NamespaceSelector, n.Labels)
}
