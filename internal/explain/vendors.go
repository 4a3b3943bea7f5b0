package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// istioGroup is the API group of Istio's routes: istio.io/docs/reference/config/networking.
const istioGroup = "networking.istio.io"

// runnerSet and its listener run jobs of GitHub: github.com/actions/actions-runner-controller.
var (
	runnerSet      = schema.GroupKind{Group: "actions.github.com", Kind: "AutoscalingRunnerSet"}
	runnerListener = schema.GroupKind{Group: runnerSet.Group, Kind: "AutoscalingListener"}
)

// listeners returns what waits for jobs for a set of runners. It is in the namespace of its controller.
func (q *inquiry) listeners() []reference {
	var all []reference
	for _, o := range q.listIn("", runnerListener) {
		name, _, _ := unstructured.NestedString(contentOf(o), "spec", "autoscalingRunnerSetName")
		namespace, _, _ := unstructured.NestedString(contentOf(o), "spec", "autoscalingRunnerSetNamespace")
		if name == q.name && namespace == q.namespace {
			all = append(all, newReference(runnerListener, o.GetNamespace(), o.GetName(), ", which waits for jobs,"))
		}
	}
	return all
}

// Networks of pods besides that of the cluster: github.com/k8snetworkplumbingwg, multus-cni and whereabouts.
var (
	networkAttachment = schema.GroupKind{Group: "k8s.cni.cncf.io", Kind: "NetworkAttachmentDefinition"}
	addressPool       = schema.GroupKind{Group: "whereabouts.cni.cncf.io", Kind: "IPPool"}
)

const networksAnnotation = "k8s.v1.cni.cncf.io/networks"

// addressRange adds to the cause which range of whereabouts has no free address, and who uses it. It leads nowhere: the pods
// there run, or are gone.
func (q *inquiry) addressRange([]string) []reference {
	for _, o := range q.listOf(networkAttachment) {
		named := slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return mentions(p.Annotations[networksAnnotation], o.GetName()) })
		config, _, _ := unstructured.NestedString(contentOf(o), "spec", "config")
		m := whereaboutsRange.FindStringSubmatch(config)
		if !named || m == nil {
			continue
		}
		q.explanation.Cause.add(fmt.Sprintf("NetworkAttachmentDefinition %q takes them from the range %s", o.GetName(), m[1])+q.givenAway(m[1]), "")
	}
	return nil
}

// givenAway says how many addresses of a range whereabouts has given away.
func (q *inquiry) givenAway(addresses string) string {
	for _, pool := range q.listIn("", addressPool) {
		if r, _, _ := unstructured.NestedString(contentOf(pool), "spec", "range"); r == addresses || strings.HasPrefix(addresses, addressOf(pool)) {
			return fmt.Sprintf("; by IPPool %q of whereabouts, it has allocated %s", pool.GetName(), q.allocations(pool))
		}
	}
	return ""
}

// whereaboutsRange matches the range in the configuration of a network.
var whereaboutsRange = regexp.MustCompile(`"type"\s*:\s*"whereabouts"[^}]*"range"\s*:\s*"([0-9a-fA-F.:/-]+)"`)

// addressOf returns the first three parts of the address in the name of a pool: a range can be a part of its network.
func addressOf(pool client.Object) string {
	name := pool.GetName()
	return name[:strings.LastIndex(name, ".")+1]
}

// allocations says how many addresses of a pool are in use, and of how many the pod no longer exists.
func (q *inquiry) allocations(pool client.Object) string {
	all, _, _ := unstructured.NestedMap(contentOf(pool), "spec", "allocations")
	gone := 0
	for _, a := range all {
		fields, _ := a.(map[string]any)
		ref, _ := fields["podref"].(string)
		namespace, name, _ := strings.Cut(ref, "/")
		exists := slices.ContainsFunc(q.listIn(namespace, podKind), func(p client.Object) bool { return p.GetName() == name })
		if !exists && q.couldRead(namespace, podKind) {
			gone++
		}
	}
	if gone == 0 {
		return plural(len(all), "address")
	}
	return fmt.Sprintf("%s, %d of them to pods that no longer exist", plural(len(all), "address"), gone)
}

// devices returns the nodes that the operator for SR-IOV could not set up. It adds to the cause which DaemonSet should offer
// a device and selects no node.
func (q *inquiry) devices(m []string) []reference {
	var all []reference
	for _, o := range q.listIn("", schema.GroupKind{Group: "sriovnetwork.openshift.io", Kind: "SriovNetworkNodeState"}) {
		all = append(all, newReference(schema.GroupKind{Group: "sriovnetwork.openshift.io", Kind: "SriovNetworkNodeState"}, o.GetNamespace(), o.GetName(), ", which should offer it,"))
	}
	parts := strings.Split(m[1], ".")
	vendor := parts[max(0, len(parts)-2)]
	for _, o := range q.listIn("", workloads[2]) {
		d, ok := o.(*appsv1.DaemonSet)
		if ok && d.Status.DesiredNumberScheduled == 0 && strings.Contains(d.Name, vendor) && strings.Contains(d.Name, "plugin") {
			q.explanation.Cause.add(fmt.Sprintf("DaemonSet %q of namespace %q should offer it, and runs on no node: it selects those with the labels %s", d.Name, d.Namespace, labels.Set(d.Spec.Template.Spec.NodeSelector)),
				"ask the cluster's administrator to add the labels to the nodes that have the device")
		}
	}
	return all[:min(len(all), maxReferences)]
}

// istioRoute returns the gateways and the Services of a VirtualService. It has no status.
func (q *inquiry) istioRoute() []reference {
	u := q.object.(*unstructured.Unstructured) //nolint:forcetypeassert // it is one without rules of its own
	gateways, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "gateways")
	var all []reference
	for _, g := range gateways[:min(len(gateways), maxReferences)] {
		namespace, name, found := strings.Cut(g, "/")
		if !found {
			namespace, name = q.namespace, g
		}
		if name != "mesh" {
			all = append(all, newReference(istioGateway, namespace, name, ", through which requests come,"))
		}
	}
	for _, protocol := range []string{"http", "tls", "tcp"} {
		routes, _, _ := unstructured.NestedSlice(u.Object, "spec", protocol)
		eachHost(routes, func(host string) {
			if s := q.serviceAt(host); s != nil && len(all) < 2*maxReferences {
				all = append(all, newReference(serviceKind, s.Namespace, s.Name, ", to which it sends requests,"))
			}
		})
	}
	return all
}

// eachHost calls visit for the host of each destination in the routes of a VirtualService.
func eachHost(routes []any, visit func(string)) {
	for _, r := range routes {
		fields, _ := r.(map[string]any)
		destinations, _, _ := unstructured.NestedSlice(fields, "route")
		for _, d := range destinations {
			fields, _ := d.(map[string]any)
			weight, isSet, _ := unstructured.NestedInt64(fields, "weight")
			if host, _, _ := unstructured.NestedString(fields, "destination", "host"); host != "" && (weight > 0 || !isSet) {
				visit(host)
			}
		}
	}
}

// gatewayPods returns the workloads whose pods a Gateway of Istio selects, and their Services without an address.
func (q *inquiry) gatewayPods() []reference {
	u := q.object.(*unstructured.Unstructured) //nolint:forcetypeassert // it is one without rules of its own
	selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
	if len(selector) == 0 {
		return nil
	}
	all := q.failingWorkloads(", which serves it,", func(o client.Object, _ *corev1.PodSpec) bool {
		return selects(&metav1.LabelSelector{MatchLabels: selector}, templateLabels(o))
	})
	eachField(u.Object["spec"], 0, func(field string, value any) { // usually, the pods are in its namespace
		name, _ := value.(string)
		if field == "credentialName" && name != "" && len(all) < maxReferences && q.logs != nil && q.lacksSecret(q.namespace, name) {
			all = append(all, q.missingSecret(q.namespace, name)...)
		}
	})
	for _, o := range q.listIn("", serviceKind) {
		s, ok := o.(*corev1.Service)
		if ok && s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 &&
			selects(&metav1.LabelSelector{MatchLabels: selector}, s.Spec.Selector) && len(all) < maxReferences {
			all = append(all, newReference(serviceKind, s.Namespace, s.Name, ", which gets its requests,"))
		}
	}
	return all
}

// remoteSecrets returns what should create the Secrets that an ExternalSecret reads from a namespace of the cluster:
// external-secrets.io, provider kubernetes.
func (q *inquiry) remoteSecrets() []reference {
	u := q.custom()
	name, _, _ := unstructured.NestedString(u.Object, "spec", "secretStoreRef", "name")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "secretStoreRef", "kind")
	store := &unstructured.Unstructured{}
	mapping, err := q.client.RESTMapper().RESTMapping(schema.GroupKind{Group: externalSecret.Group, Kind: kind})
	if err != nil || !strings.Contains(q.allText(), "Secret does not exist") {
		return nil
	}
	store.SetGroupVersionKind(mapping.GroupVersionKind)
	key := client.ObjectKey{Namespace: q.namespace, Name: name}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		key.Namespace = ""
	}
	if err := q.objects.Get(q.ctx, key, store); err != nil {
		if !apierrors.IsNotFound(err) {
			q.unread(mapping.Resource.GroupResource().String(), "get them", err)
		}
		return nil
	}
	namespace, _, _ := unstructured.NestedString(store.Object, "spec", "provider", "kubernetes", "remoteNamespace")
	if namespace == "" {
		return nil
	}
	items, _, _ := unstructured.NestedSlice(u.Object, "spec", "data")
	var all []reference
	for _, item := range items[:min(len(items), maxReferences)] {
		fields, _ := item.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "remoteRef", "key")
		if q.lacksSecret(namespace, name) {
			all = append(all, q.missingSecret(namespace, name)...)
		}
	}
	return all
}

// strimziCluster adds a cause if the cluster that an object of Strimzi belongs to does not exist. Then, no operator
// writes its status: strimzi.io/docs.
func (q *inquiry) strimziCluster(u *unstructured.Unstructured) {
	const label = "strimzi.io/cluster"
	kind, name := u.GroupVersionKind().GroupKind(), u.GetLabels()[label]
	if kind.Group != strimziGroup || name == "" {
		return
	}
	of := schema.GroupKind{Group: strimziGroup, Kind: "Kafka"}
	if kind.Kind == "KafkaConnector" {
		of.Kind = "KafkaConnect"
	}
	if q.explanation.State != Running || !hasStatus(u) {
		q.next = append(q.next, newReference(of, u.GetNamespace(), name, ", which runs it,"))
	}
	if hasStatus(u) {
		return
	}
	// A topic can be in another namespace than its cluster.
	if slices.ContainsFunc(q.listIn("", of), func(o client.Object) bool { return o.GetName() == name }) || !q.couldRead("", of) {
		return
	}
	q.explanation.State = Waiting
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: of.Kind + "NotFound", Object: diagnosis.Object{Kind: kind.Kind, Name: u.GetName()},
		Message: fmt.Sprintf("its label %s names %s %q, which does not exist", label, of.Kind, name), Advice: "correct the label",
	})
}

// expiredText is how programs say that a certificate is out of date.
var expiredText = regexp.MustCompile(`(?i).*(?:current time \S+ is after|certificate (?:has )?expired|expired certificate|CERT_HAS_EXPIRED|CertificateExpiredException|CertPathValidatorException: validity check failed).*`)

// reflects is the annotation of a copy that reflector writes: github.com/emberstack/kubernetes-reflector.
const reflects = "reflector.v1.k8s.emberstack.com/reflects"

// expired returns what should renew a certificate, if the end of the log says that it has expired. It is one of the
// pod, or of the pods behind the Service that it calls.
func (q *inquiry) expired() []reference {
	m := q.explanation.Log.lastMatch(expiredText)
	if m == nil {
		return nil
	}
	p := q.loggedPod()
	if p == nil {
		return nil
	}
	services := q.servicesIn(m[0])
	if len(services) == 0 { // a stack has the host in another line
		services = q.servicesIn(strings.Join(q.explanation.Log.whole, " "))
	}
	for _, s := range services {
		pods := q.listIn(s.Namespace, podKind)
		i := slices.IndexFunc(pods, func(o client.Object) bool {
			return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(o.GetLabels()))
		})
		if i < 0 {
			continue
		}
		if server, ok := pods[i].(*corev1.Pod); ok {
			return q.renewers(server)
		}
	}
	return q.renewers(p)
}

// renewers returns what should renew the certificates in the Secrets of a pod.
func (q *inquiry) renewers(p *corev1.Pod) []reference {
	var all []reference
	for _, v := range p.Spec.Volumes {
		if v.Secret == nil || len(all) >= maxReferences {
			continue
		}
		all = append(all, q.expiredCertificates(p.Namespace, v.Secret.SecretName)...)
		secret := metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kindSecret))
		err := q.objects.Get(q.ctx, client.ObjectKey{Namespace: p.Namespace, Name: v.Secret.SecretName}, &secret)
		if source := secret.Annotations[reflects]; err == nil && source != "" {
			all = append(all, q.failingWorkloads(fmt.Sprintf(", which copies Secret %q from %q,", v.Secret.SecretName, source), func(o client.Object, _ *corev1.PodSpec) bool {
				return o.GetName() == "reflector"
			})...)
		}
	}
	return all
}

// expiredCertificates returns the Certificates of cert-manager that write a Secret and have expired.
func (q *inquiry) expiredCertificates(namespace, secret string) []reference {
	var all []reference
	for _, o := range q.listIn(namespace, certificate) {
		name, _, _ := unstructured.NestedString(contentOf(o), "spec", "secretName")
		until, _, _ := unstructured.NestedString(contentOf(o), "status", "notAfter")
		if end, err := time.Parse(time.RFC3339, until); name == secret && err == nil && end.Before(q.clock.Now()) {
			all = append(all, newReference(certificate, namespace, o.GetName(), ", which should be renewed,"))
		}
	}
	return all
}

// skewed is how services say that the clock of a client is wrong.
var skewed = regexp.MustCompile(`(?i)RequestTimeTooSkewed|clock skew|difference between the request time and the (?:current|server) time|certificate has expired or is not yet valid: current time \S+ is before `)

// wrongClock returns the node of the pod whose log says that clocks differ, if the node has this problem.
func (q *inquiry) wrongClock() []reference {
	if q.explanation.Log.lastMatch(skewed) == nil {
		return nil
	}
	p := q.loggedPod()
	if p == nil || p.Spec.NodeName == "" {
		return nil
	}
	q.explanation.Cause.add(fmt.Sprintf("its log says that the clock of a server differs from that of its node, %q", p.Spec.NodeName), "ask the cluster's administrator to check the time of both")
	node := &corev1.Node{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Name: p.Spec.NodeName}, node); err != nil {
		q.unread("nodes", "get them", err)
		return nil
	}
	if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == ntpProblem && c.Status == corev1.ConditionTrue }) {
		return nil
	}
	return []reference{newReference(nodeKind, "", p.Spec.NodeName, ", whose clock it uses,")}
}

// countedText is how the diagnosis names a quota of the number of objects.
var countedText = regexp.MustCompile(`\b(?:count/)?([a-z]+(?:\.[a-z0-9.-]+)?): requested`)

// counted adds to the cause which object has created most of the objects that a quota counts. It leads nowhere.
func (q *inquiry) counted() []reference {
	m := countedText.FindStringSubmatch(q.problemText())
	if m == nil || q.explanation.Cause == nil {
		return nil
	}
	kind, err := q.client.RESTMapper().KindFor(schema.ParseGroupResource(m[1]).WithVersion(""))
	if err != nil {
		return nil
	}
	users := map[string]int{}
	most := ""
	all := q.listOf(kind.GroupKind())
	for _, o := range all {
		if owner := q.topOwner(o); owner != nil {
			key := fmt.Sprintf("%s %q", owner.Kind, owner.Name)
			if users[key]++; users[key] > users[most] || users[key] == users[most] && key < most {
				most = key
			}
		}
	}
	if users[most] > 1 && 2*users[most] >= len(all) {
		q.explanation.Cause.add(fmt.Sprintf("%d of them belong to %s", users[most], most), "")
	}
	return nil
}

// topOwner returns what controls an object, or the CronJob that controls its Job.
func (q *inquiry) topOwner(o client.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != jobKind.Kind {
		return owner
	}
	for _, j := range q.listOf(jobKind) {
		if above := metav1.GetControllerOfNoCopy(j); above != nil && j.GetUID() == owner.UID {
			return above
		}
	}
	return owner
}

// longhornVolume is the state of a volume of Longhorn, which has the name of the volume's handle: longhorn.io/docs.
var longhornVolume = schema.GroupKind{Group: "longhorn.io", Kind: "Volume"}

// longhorn returns the volumes of Longhorn that a pod waits for.
func (q *inquiry) longhorn() []reference {
	waits := q.blaming != nil && (q.blaming.Reason == diagnosis.ReasonFailedAttachVolume || q.blaming.Reason == diagnosis.ReasonFailedMount)
	if !waits || len(q.blaming.Blames) > 0 {
		return nil
	}
	text := q.problemText()
	var all []reference
	for _, o := range q.listIn("", longhornVolume) {
		isClaimed := slices.ContainsFunc(q.workload.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Spec.VolumeName == o.GetName() })
		if isClaimed && mentions(text, o.GetName()) {
			all = append(all, newReference(longhornVolume, o.GetNamespace(), o.GetName(), ", which is its volume,"))
		}
	}
	return all[:min(len(all), maxReferences)]
}
