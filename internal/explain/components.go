package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// component is a part of the cluster whose absence has a text of its own.
type component struct {
	// text matches the text. If it has a group, that is a part of the workload's name.
	text *regexp.Regexp
	// name matches the name of its workload, and kind is the type of that.
	name *regexp.Regexp
	kind schema.GroupKind
	// relation is that of a [reference].
	relation string
}

// components have the usual names, by the documentation of each.
var components = []component{
	{regexp.MustCompile(`\bnode\.cloudprovider\.kubernetes\.io/uninitialized\b`), regexp.MustCompile(`cloud-controller-manager`), schema.GroupKind{}, ", which removes the taint,"},
	{regexp.MustCompile(`\bnode\.cilium\.io/agent-not-ready\b`), regexp.MustCompile(`^cilium$`), workloads[2], ", which removes the taint,"},
	{regexp.MustCompile(`\bcni\.istio\.io/not-ready\b`), regexp.MustCompile(`^istio-cni`), workloads[2], ", which removes the taint,"},
	{regexp.MustCompile(`\bno node offers nvidia\.com/`), regexp.MustCompile(`nvidia.*driver`), workloads[2], ", which installs the driver,"},
	{regexp.MustCompile(`before the CNI plugin of Istio was ready`), regexp.MustCompile(`^istio-cni`), workloads[2], ", which is the plugin,"},
	{regexp.MustCompile(`\bno node offers nvidia\.com/`), regexp.MustCompile(`nvidia.*device-plugin`), workloads[2], ", which offers GPUs,"},
	{regexp.MustCompile(`does not have the runtime "kata`), regexp.MustCompile(`kata-deploy`), workloads[2], ", which installs it,"},
	{regexp.MustCompile(`\bno node offers amd\.com/`), regexp.MustCompile(`amd.*device-plugin`), workloads[2], ", which offers GPUs,"},
	{providerInText, regexp.MustCompile(`csi.*provider|provider.*csi`), workloads[2], ", which is the provider,"},
	{regexp.MustCompile(`\bno free device matches ResourceClaim|cannot allocate all claims`), regexp.MustCompile(`\bdra-|-kubelet-plugin$`), workloads[2], ", which offers devices,"},
	{networkOfNode, regexp.MustCompile(`^(?:calico-node|canal|cilium|kube-flannel\S*|weave-net|antrea-agent|aws-node|kindnet|kube-ovn-cni)$`), workloads[2], ", which is the network plugin,"},
	{regexp.MustCompile(`Ingress has not yet been reconciled`), regexp.MustCompile(`^net-(?:kourier|istio|contour|gateway-api)-controller$`), workloads[0], ", which reconciles it,"},
	{regexp.MustCompile(`readiness gate "target-health\.elbv2\.k8s\.aws/`), regexp.MustCompile(`aws-load-balancer-controller`), workloads[0], ", which sets the readiness gate,"},
	{regexp.MustCompile(`failed calling webhook .*x509: certificate signed by unknown authority`), regexp.MustCompile(`cainjector`), workloads[0], ", which writes the authorities of webhooks,"},
}

// running returns the components that the text of the problem is about, and that do not run.
func (q *inquiry) running() []reference {
	if q.withoutDriver() {
		return nil
	}
	text := q.problemText()
	var all []reference
	for _, c := range components {
		m := c.text.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		all = append(all, q.failingWorkloads(c.relation, func(o client.Object, _ *corev1.PodSpec) bool {
			named := len(m) == 1 || strings.Contains(o.GetName(), m[1])
			return named && c.name.MatchString(o.GetName()) && q.isKind(o, c.kind)
		})...)
	}
	for _, driver := range q.driverNames() {
		all = append(all, q.driver(driver)...)
	}
	return all
}

// isKind reports whether an object is of a type. Without a kind, all are.
func (q *inquiry) isKind(o client.Object, kind schema.GroupKind) bool {
	is, err := q.client.GroupVersionKindFor(o)
	return kind.Kind == "" || err == nil && is.GroupKind() == kind
}

// failingWorkloads returns the workloads of the cluster that lack pods or are scaled to 0, if they are what is
// looked for.
func (q *inquiry) failingWorkloads(relation string, is func(client.Object, *corev1.PodSpec) bool) []reference {
	var all []reference
	for _, kind := range workloads[:3] {
		for _, o := range q.listIn("", kind) {
			spec, complete := podsOf(o)
			if spec != nil && !complete && len(all) < maxReferences && is(o, spec) {
				all = append(all, reference{kind: kind, namespace: o.GetNamespace(), name: o.GetName(), relation: relation, mustRun: true})
			}
		}
	}
	return all
}

// podsOf returns the template of a workload, and whether it has pods and all are ready.
func podsOf(o client.Object) (spec *corev1.PodSpec, complete bool) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, o.Status.ReadyReplicas >= max(replicas(o.Spec.Replicas), 1)
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, o.Status.ReadyReplicas >= max(replicas(o.Spec.Replicas), 1)
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, o.Status.NumberReady >= o.Status.DesiredNumberScheduled
	}
	return nil, false
}

// provisionerAnnotation is the driver that should create the volume of a claim:
// pkg/controller/volume/persistentvolume/pv_controller.go.
const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

var driverInText = regexp.MustCompile(`\bstorage driver ([a-z0-9][a-z0-9.-]*[a-z0-9]) does not run`)

// providerOfVolume is how the diagnosis names the driver that should create a volume.
var providerOfVolume = regexp.MustCompile(`a volume that driver ([a-z0-9][a-z0-9.-]*[a-z0-9]) should create`)

// waitsForVolume are the reasons of a problem that can lie in a storage driver.
var waitsForVolume = []string{
	diagnosis.ReasonClaimPending, diagnosis.ReasonProvisioningFailed, diagnosis.ReasonFailedScheduling, diagnosis.ReasonFailedAttachVolume, diagnosis.ReasonFailedMount,
}

// driverNames returns the storage drivers that the pods wait for.
func (q *inquiry) driverNames() []string {
	var names []string
	if q.blaming == nil || !slices.Contains(waitsForVolume, q.blaming.Reason) {
		return nil
	}
	for _, c := range q.workload.Claims {
		if driver := c.Annotations[provisionerAnnotation]; driver != "" && c.Status.Phase == corev1.ClaimPending && !slices.Contains(names, driver) {
			names = append(names, driver)
		}
	}
	for _, text := range []*regexp.Regexp{driverInText, providerOfVolume} {
		if m := text.FindStringSubmatch(q.problemText()); m != nil && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names[:min(len(names), maxReferences)]
}

// driver returns the workloads of a storage driver that do not run. The DaemonSet of a driver contains its
// name, in a path of the kubelet. Its controller is in the same namespace, and has the same image.
func (q *inquiry) driver(name string) []reference {
	images := map[string]bool{} // by namespace and image
	for _, o := range q.listIn("", workloads[2]) {
		spec, _ := podsOf(o)
		if spec == nil || !contains(spec, name) {
			continue
		}
		for i := range spec.Containers {
			if i == 0 || contains(&corev1.PodSpec{Containers: spec.Containers[i : i+1]}, name) {
				images[o.GetNamespace()+" "+spec.Containers[i].Image] = true
			}
		}
	}
	return q.failingWorkloads(", which runs driver "+name+",", func(o client.Object, spec *corev1.PodSpec) bool {
		return contains(spec, name) || isDriver(o.GetName(), name) ||
			slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return images[o.GetNamespace()+" "+c.Image] })
	})
}

// isDriver reports whether a workload has the usual name of a driver: ebs-csi-controller for ebs.csi.aws.com.
func isDriver(workload, driver string) bool {
	parts := strings.Split(driver, ".")
	what := parts[max(0, len(parts)-2)] // driver.longhorn.io
	switch i := slices.Index(parts, "csi"); {
	case i > 0: // ebs.csi.aws.com, rook-ceph.rbd.csi.ceph.com
		what = parts[i-1]
	case i == 0 && len(parts) > 1: // csi.trident.netapp.io
		return strings.Contains(workload, parts[1])
	}
	return strings.Contains(workload, what) && strings.Contains(workload, "csi")
}

// withoutDriver adds to the cause why the DaemonSet of a storage driver has no pod on the node: a taint, or
// its nodeSelector. It reports whether it did. The same holds for a provider of Secrets. Otherwise, it adds
// the name of the node.
func (q *inquiry) withoutDriver() bool {
	is := q.agentInText()
	if is == nil || q.blaming == nil || q.explanation.Cause == nil {
		return false
	}
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == q.blaming.Object.Name })
	if i < 0 || q.workload.Pods[i].Spec.NodeName == "" {
		return false
	}
	node := &corev1.Node{}
	if err := q.objects.Get(q.ctx, client.ObjectKey{Name: q.workload.Pods[i].Spec.NodeName}, node); err != nil {
		q.unread("nodes", "get them", err)
		return false
	}
	if o, why, advice := q.keptOff(node, is); o != nil {
		q.explanation.Cause.add(fmt.Sprintf("DaemonSet %q of namespace %q, which runs it, %s node %q", o.GetName(), o.GetNamespace(), why, node.Name), "ask the cluster's administrator to "+advice)
		return true
	}
	if q.within == nil && !strings.Contains(q.explanation.Cause.Message, node.Name) {
		c := q.explanation.Cause
		c.Message = shortLine(c.Message + fmt.Sprintf(" (%q)", node.Name))
	}
	return false
}

// keptOff returns a DaemonSet that has no pod on a node because of a taint or its nodeSelector, and what to do. A driver can
// have a DaemonSet for each operating system. That of another system is not the reason.
func (q *inquiry) keptOff(node *corev1.Node, is func(client.Object, *corev1.PodSpec) bool) (o client.Object, why, advice string) {
	var others []client.Object
	for _, o := range q.listIn("", workloads[2]) {
		spec, _ := podsOf(o)
		if spec == nil || !is(o, spec) {
			continue
		}
		if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(node.Labels)) {
			others = append(others, o)
			continue
		}
		t := untolerated(spec, node)
		if t == nil {
			return nil, "", "" // it is for the node
		}
		return o, fmt.Sprintf("does not tolerate the taint %s of", t.ToString()), "add the toleration to the DaemonSet"
	}
	if len(others) != 1 {
		return nil, "", ""
	}
	spec, _ := podsOf(others[0])
	return others[0], "selects nodes with the labels " + labels.Set(spec.NodeSelector).String() + ", which are not on",
		"add the labels to the node, or to correct nodeSelector of the DaemonSet"
}

// providerInText is how the diagnosis says that a provider of the Secrets Store CSI driver does not run.
var providerInText = regexp.MustCompile(`\bprovider "([\w-]+)" of the external secret store does not run`)

// agentInText returns which DaemonSet should run on the node of the pod, as the text of the problem says. It returns nil
// if it says nothing of this.
func (q *inquiry) agentInText() func(client.Object, *corev1.PodSpec) bool {
	text := q.problemText()
	if m := driverInText.FindStringSubmatch(text); m != nil {
		return func(o client.Object, spec *corev1.PodSpec) bool {
			return contains(spec, m[1]) || isDriver(o.GetName(), m[1])
		}
	}
	if m := providerInText.FindStringSubmatch(text); m != nil {
		return func(o client.Object, _ *corev1.PodSpec) bool {
			return strings.Contains(o.GetName(), m[1]) && strings.Contains(o.GetName(), "provider")
		}
	}
	return nil
}

// untolerated returns a taint that keeps the pods of a template off a node, or nil.
func untolerated(spec *corev1.PodSpec, node *corev1.Node) *corev1.Taint {
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !diagnosis.Tolerates(spec, t) {
			return t
		}
	}
	return nil
}

// contains reports whether a template contains a name, in what its containers run or in a path of the node.
func contains(spec *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil && strings.Contains(v.HostPath.Path, name) }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(arg string) bool { return strings.Contains(arg, name) }) ||
				slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return strings.Contains(e.Value, name) })
		})
}

// controllerNames are the names of controllers of Ingresses whose workloads do not contain the name of
// their IngressClass's controller.
var controllerNames = map[string]string{"ingress.k8s.aws/alb": "aws-load-balancer-controller", "traefik.io/ingress-controller": "traefik"}

// ingressController returns the workload that should serve an Ingress without an address, if it does not run.
func (q *inquiry) ingressController(i *networkingv1.Ingress, classes []networkingv1.IngressClass) []reference {
	class := classOf(i, classes)
	if class == nil {
		return nil
	}
	return q.failingWorkloads(", which serves class "+class.Name+",", func(o client.Object, spec *corev1.PodSpec) bool {
		return isControllerOf(class, o.GetName()) || contains(spec, class.Spec.Controller)
	})
}

// classOf returns the class of an Ingress without an address, or nil.
func classOf(i *networkingv1.Ingress, classes []networkingv1.IngressClass) *networkingv1.IngressClass {
	at := slices.IndexFunc(classes, func(c networkingv1.IngressClass) bool {
		if i.Spec.IngressClassName != nil {
			return c.Name == *i.Spec.IngressClassName
		}
		return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	})
	if at < 0 || len(i.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	return &classes[at]
}

// isControllerOf reports whether a workload or a Service has the usual name of the controller of a class.
func isControllerOf(class *networkingv1.IngressClass, name string) bool {
	controller := class.Spec.Controller
	usual := controllerNames[controller]
	if usual == "" {
		usual = controller[strings.LastIndex(controller, "/")+1:] + "-controller"
	}
	return strings.Contains(name, usual)
}

// ingressAddress returns the Service whose address a controller gives to an Ingress, if it has none itself.
func (q *inquiry) ingressAddress(i *networkingv1.Ingress, classes []networkingv1.IngressClass) []reference {
	class := classOf(i, classes)
	if class == nil {
		return nil
	}
	var all []reference
	for _, o := range q.listIn("", serviceKind) {
		s, ok := o.(*corev1.Service)
		if !ok || s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 || len(all) >= maxReferences {
			continue
		}
		if isControllerOf(class, s.Name) || q.selectsController(s, class) {
			all = append(all, newReference(serviceKind, s.Namespace, s.Name, ", which serves class "+class.Name+","))
		}
	}
	return all
}

// selectsController reports whether a Service selects the pods of a workload that has the name of a class's controller in its
// template.
func (q *inquiry) selectsController(s *corev1.Service, class *networkingv1.IngressClass) bool {
	return len(s.Spec.Selector) > 0 && slices.ContainsFunc(workloads[:3], func(kind schema.GroupKind) bool {
		return slices.ContainsFunc(q.listIn("", kind), func(o client.Object) bool {
			spec, _ := podsOf(o)
			return o.GetNamespace() == s.Namespace && spec != nil && contains(spec, class.Spec.Controller) &&
				selects(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, templateLabels(o))
		})
	})
}

// nodePool is how Karpenter adds nodes: karpenter.sh/docs/concepts/nodepools.
const nodePoolLabel = "karpenter.sh/nodepool"

// cordonedText is how the diagnosis names cordoned nodes.
var cordonedText = regexp.MustCompile(`\(cordoned: ([a-z0-9.-]+)`)

// cordoned returns the first node that takes no pod because it is cordoned: its drain can wait for something.
func (q *inquiry) cordoned() []reference {
	if q.blaming == nil || q.blaming.Reason != diagnosis.ReasonFailedScheduling {
		return nil
	}
	m := cordonedText.FindStringSubmatch(q.blaming.Message)
	if m == nil {
		return nil
	}
	return []reference{newReference(nodeKind, "", m[1], ", which is cordoned,")}
}

// nodes returns the nodes whose conditions keep the pods off, by a taint. It also returns the NodePools of
// Karpenter that could add nodes.
func (q *inquiry) nodes() []reference {
	if q.blaming == nil || q.blaming.Reason != diagnosis.ReasonFailedScheduling {
		return q.nodeBelow()
	}
	var all []reference
	for _, o := range q.listIn("", nodePoolKind) {
		if len(all) < maxReferences && slices.ContainsFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && mayServe(o, p) }) {
			all = append(all, reference{kind: nodePoolKind, name: o.GetName(), relation: ", which could add nodes,"})
		}
	}
	if !strings.Contains(q.blaming.Message, "node.kubernetes.io/") {
		return all
	}
	for _, o := range q.listIn("", nodeKind) {
		n, ok := o.(*corev1.Node)
		if !ok || len(all) >= maxReferences {
			continue
		}
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return conditionTaint(t.Key) && strings.Contains(q.blaming.Message, t.Key) }) {
			all = append(all, reference{kind: nodeKind, name: n.Name, relation: ", which has the taint,"})
		}
	}
	return all
}

// conditionTaint reports whether the node controller derives a taint from a condition.
func conditionTaint(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") && key != corev1.TaintNodeUnschedulable
}

// mayServe reports whether the labels of a NodePool's nodes are those that a pod selects.
func mayServe(pool client.Object, p *corev1.Pod) bool {
	u, ok := pool.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	nodeLabels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "labels")
	requirements, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "requirements")
	for key, value := range p.Spec.NodeSelector {
		required := slices.ContainsFunc(requirements, func(r any) bool { fields, _ := r.(map[string]any); return fields["key"] == key })
		if nodeLabels[key] != value && !required && (key != nodePoolLabel || value != pool.GetName()) {
			return false
		}
	}
	return true
}

// brokenNode matches what only the node of a pod can be the reason for.
var brokenNode = regexp.MustCompile(`^node "[^"]+" of the pod is not ready|the node cannot set up the pod: .*read-only file system`)

// nodeBelow returns the node on which the pod of the cause runs, if its node is the reason.
func (q *inquiry) nodeBelow() []reference {
	if q.blaming == nil || !brokenNode.MatchString(q.blaming.Message) {
		return nil
	}
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == q.blaming.Object.Name })
	if i < 0 {
		return nil
	}
	return []reference{newReference(nodeKind, "", q.workload.Pods[i].Spec.NodeName, ", on which it runs,")}
}
