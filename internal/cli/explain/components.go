package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// component is a part of the cluster whose absence has a text of its own.
type component struct {
	text *regexp.Regexp
	// name is a part of the name of its workload. ${1} is what the text matches.
	name, relation string
}

// components are named by the documentation of each.
var components = []component{
	{regexp.MustCompile(`\bnode\.cloudprovider\.kubernetes\.io/uninitialized\b`), "cloud-controller-manager", ", which removes the taint,"},
	{regexp.MustCompile(`\bnode\.cilium\.io/agent-not-ready\b`), "cilium", ", which removes the taint,"},
	{regexp.MustCompile(`\bcni\.istio\.io/not-ready\b`), "istio-cni", ", which removes the taint,"},
	{regexp.MustCompile(`\bno node offers (?:nvidia|amd|intel|gpu\.intel|habana)\.(?:com|ai)/`), "device-plugin", ", which offers devices of nodes,"},
	{regexp.MustCompile(`readiness gate "target-health\.elbv2\.k8s\.aws/`), "aws-load-balancer-controller", ", which sets the readiness gate,"},
	{regexp.MustCompile(`x509: certificate signed by unknown authority`), "cainjector", ", which writes the caBundle of webhooks,"},
}

// running returns the components that the text of the problem is about, and that do not run.
func (q *inquiry) running() []reference {
	if q.withoutDriver() {
		return nil
	}
	text := q.problemText()
	var all []reference
	for _, c := range components {
		if c.text.MatchString(text) {
			all = append(all, q.failingWorkloads(c.relation, func(o client.Object, _ *corev1.PodSpec) bool { return strings.Contains(o.GetName(), c.name) })...)
		}
	}
	return append(all, q.drivers()...)
}

// failingWorkloads returns the workloads of the cluster that do not have all their pods, or that are scaled
// to 0, if they are what is looked for.
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

// drivers returns the workloads of the storage drivers that the pods wait for. The DaemonSet of a driver
// contains its name, in a path of the kubelet. Its controller is in the same namespace, and has the same image.
func (q *inquiry) drivers() []reference {
	var names []string
	for _, c := range q.workload.Claims {
		if driver := c.Annotations[provisionerAnnotation]; driver != "" && c.Status.Phase == corev1.ClaimPending && !slices.Contains(names, driver) {
			names = append(names, driver)
		}
	}
	if m := driverInText.FindStringSubmatch(q.problemText()); m != nil {
		names = append(names, m[1])
	}
	var all []reference
	for _, driver := range names[:min(len(names), maxReferences)] {
		images := map[string]bool{} // by namespace and image
		for _, o := range q.listIn("", workloads[2]) {
			if spec, _ := podsOf(o); spec != nil && contains(spec, driver) {
				for i := range spec.Containers {
					if contains(&corev1.PodSpec{Containers: spec.Containers[i : i+1]}, driver) || i == 0 {
						images[o.GetNamespace()+" "+spec.Containers[i].Image] = true
					}
				}
			}
		}
		all = append(all, q.failingWorkloads(", which runs driver "+driver+",", func(o client.Object, spec *corev1.PodSpec) bool {
			return contains(spec, driver) || isDriver(o.GetName(), driver) ||
				slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return images[o.GetNamespace()+" "+c.Image] })
		})...)
	}
	return all
}

// isDriver reports whether a workload has the usual name of a driver: ebs-csi-controller for ebs.csi.aws.com.
func isDriver(workload, driver string) bool {
	what, rest, _ := strings.Cut(driver, ".")
	return strings.HasPrefix(rest, "csi.") && strings.Contains(workload, what) && strings.Contains(workload, "csi")
}

// withoutDriver adds to the cause that the node plugin of a storage driver does not tolerate the taints of a pod's
// node. It reports whether it did.
func (q *inquiry) withoutDriver() bool {
	m := driverInText.FindStringSubmatch(q.problemText())
	if m == nil || q.explanation.Cause == nil {
		return false
	}
	for _, p := range q.workload.Pods {
		node := &corev1.Node{}
		if p.Name != q.blaming.Object.Name || p.Spec.NodeName == "" || q.objects.Get(q.ctx, client.ObjectKey{Name: p.Spec.NodeName}, node) != nil {
			continue
		}
		for _, o := range q.listIn("", workloads[2]) {
			spec, _ := podsOf(o)
			if spec == nil || !contains(spec, m[1]) && !isDriver(o.GetName(), m[1]) {
				continue
			}
			for i := range node.Spec.Taints {
				if t := &node.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !diagnosis.Tolerates(spec, t) {
					x := &q.explanation
					x.Cause.Message = shortLine(fmt.Sprintf("%s: DaemonSet %q of namespace %q, which runs it, does not tolerate the taint %s of node %q", x.Cause.Message, o.GetName(), o.GetNamespace(), t.ToString(), node.Name))
					x.Cause.Advice, x.Cause.Passing = "ask the cluster's administrator to add the toleration to the DaemonSet", false
					return true
				}
			}
		}
	}
	return false
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
	at := slices.IndexFunc(classes, func(c networkingv1.IngressClass) bool {
		if i.Spec.IngressClassName != nil {
			return c.Name == *i.Spec.IngressClassName
		}
		return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	})
	if at < 0 || len(i.Status.LoadBalancer.Ingress) > 0 || q.logs == nil {
		return nil
	}
	controller := classes[at].Spec.Controller
	name := controllerNames[controller]
	if name == "" {
		name = controller[strings.LastIndex(controller, "/")+1:] + "-controller"
	}
	return q.failingWorkloads(", which serves class "+classes[at].Name+",", func(o client.Object, spec *corev1.PodSpec) bool {
		return strings.Contains(o.GetName(), name) || contains(spec, controller)
	})
}

// nodePool is how Karpenter adds nodes: karpenter.sh/docs/concepts/nodepools.
const nodePoolLabel = "karpenter.sh/nodepool"

// nodes returns the nodes with a taint of a condition that keeps the pods off, and the NodePools of Karpenter
// that could add nodes for them.
func (q *inquiry) nodes() []reference {
	if q.blaming == nil || q.blaming.Reason != diagnosis.ReasonFailedScheduling {
		return nil
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
	labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "labels")
	requirements, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "requirements")
	for key, value := range p.Spec.NodeSelector {
		required := slices.ContainsFunc(requirements, func(r any) bool { fields, _ := r.(map[string]any); return fields["key"] == key })
		if labels[key] != value && !required && (key != nodePoolLabel || value != pool.GetName()) {
			return false
		}
	}
	return true
}
