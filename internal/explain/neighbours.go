package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// unscheduled returns the pod of the cause, if it waits for a node, or nil.
func (q *inquiry) unscheduled() *corev1.Pod {
	if q.blaming == nil {
		return nil
	}
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == q.blaming.Object.Name && p.Spec.NodeName == "" })
	if i < 0 {
		return nil
	}
	return q.workload.Pods[i]
}

// beside returns the workloads whose pods must run where the pod of the cause runs, as its podAffinity says, and
// that lack pods.
func (q *inquiry) beside() []reference {
	p := q.unscheduled()
	if p == nil || !strings.Contains(q.problemText(), "match pod affinity rules") || p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return nil
	}
	var all []reference
	for _, term := range p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.NamespaceSelector != nil || term.LabelSelector == nil || selects(term.LabelSelector, p.Labels) {
			continue // its namespaces are not known, or it is about the pod's own workload
		}
		namespaces := term.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{p.Namespace}
		}
		for _, namespace := range namespaces {
			if len(all) < maxReferences {
				all = append(all, q.withoutPods(namespace, term.LabelSelector)...)
			}
		}
	}
	return all
}

// withoutPods returns the workloads of a namespace whose pods a selector selects, and that have no ready one.
func (q *inquiry) withoutPods(namespace string, selector *metav1.LabelSelector) []reference {
	var all []reference
	for _, kind := range workloads[:3] {
		for _, o := range q.listIn(namespace, kind) {
			if readyPods(o) == 0 && selects(selector, templateLabels(o)) && len(all) < maxReferences {
				all = append(all, newReference(kind, namespace, o.GetName(), ", beside whose pods it must run,").needed())
			}
		}
	}
	return all
}

// readyPods returns the number of ready pods of a workload.
func readyPods(o client.Object) int32 {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Status.ReadyReplicas
	case *appsv1.StatefulSet:
		return o.Status.ReadyReplicas
	case *appsv1.DaemonSet:
		return o.Status.NumberReady
	}
	return 0
}

// templateLabels returns the labels of the pods of a workload.
func templateLabels(o client.Object) map[string]string {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Spec.Template.Labels
	case *appsv1.StatefulSet:
		return o.Spec.Template.Labels
	case *appsv1.DaemonSet:
		return o.Spec.Template.Labels
	}
	return nil
}

// Claims that another pod has for itself, or that are being deleted as soon as no pod uses them.
var (
	usedAlone     = regexp.MustCompile(`ReadWriteOncePod`)
	deletedClaim  = regexp.MustCompile(`claim "([a-z0-9.-]+)" that the pod mounts is being deleted`)
	preemptedByID = regexp.MustCompile(`Preempted by pod ([\w-]+) on node`)
)

// users returns the pods that keep the claim of the cause's pod from it. If they have no problem, the cause names
// them.
func (q *inquiry) users() []reference {
	text := q.problemText()
	deleted := deletedClaim.FindStringSubmatch(text)
	if q.explanation.Cause == nil || q.blaming == nil || deleted == nil && !usedAlone.MatchString(text) {
		return nil
	}
	claims := q.claimsForOne()
	if deleted != nil {
		claims = []string{deleted[1]}
	}
	var all []reference
	var names []string
	for _, o := range q.listOf(podKind) {
		p, ok := o.(*corev1.Pod)
		holds := ok && p.Spec.NodeName != "" && !ended(p) && slices.ContainsFunc(diagnosis.ClaimsOf(p), func(c string) bool { return slices.Contains(claims, c) })
		if holds && len(all) < maxReferences {
			all = append(all, newReference(podKind, q.namespace, p.Name, ", which uses the claim,"))
			names = append(names, fmt.Sprintf("%q", p.Name))
		}
	}
	if len(names) > 0 {
		advice := "end that pod, or use another claim"
		if deleted != nil {
			advice = "end that pod if the files are no longer needed: then, the claim is deleted"
		}
		q.explanation.Cause.add("it is used by pod "+strings.Join(names, ", "), advice)
	}
	return all
}

// claimsForOne returns the claims that only one pod may use.
func (q *inquiry) claimsForOne() []string {
	var names []string
	for _, c := range q.workload.Claims {
		if slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod) {
			names = append(names, c.Name)
		}
	}
	return names
}

// ended reports whether a pod uses nothing any more.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// preempted adds to the cause for which pod the scheduler ended the one before, as its Event says. It leads
// nowhere: that pod runs.
func (q *inquiry) preempted() []reference {
	p := q.unscheduled()
	if p == nil || q.explanation.Cause == nil {
		return nil
	}
	uid := q.preemptorOf(p)
	if uid == "" {
		return nil
	}
	by := "a pod of a higher priority"
	for _, o := range q.listIn("", podKind) {
		if other, ok := o.(*corev1.Pod); ok && string(other.UID) == uid {
			by = fmt.Sprintf("pod %q of namespace %q", other.Name, other.Namespace)
			if other.Spec.PriorityClassName != "" {
				by += fmt.Sprintf(", whose PriorityClass %q is higher", other.Spec.PriorityClassName)
			}
		}
	}
	q.explanation.Cause.add("the scheduler ended the pod before it (preempted) to make room for "+by, "request less, use a PriorityClass that is as high, or ask for more nodes")
	return nil
}

// replacedWithin is how long after a preemption a controller creates the next pod at the latest.
const replacedWithin = 2 * time.Minute

// suffixLength is that of the random end of a pod's name: apiserver/pkg/storage/names.
const suffixLength = 5

// isPodOf reports whether a pod with a name can be an earlier pod of the controller of another one.
func isPodOf(owner *metav1.OwnerReference, present, name string) bool {
	rest, found := strings.CutPrefix(name, owner.Name+"-")
	return name == present || owner.Kind != "StatefulSet" && found && len(rest) == suffixLength
}

// preemptorOf returns the UID of the pod for which the scheduler ended an earlier pod of the same controller, or "".
func (q *inquiry) preemptorOf(p *corev1.Pod) (uid string) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return ""
	}
	var list corev1.EventList
	q.list("events", &list, func() {
		for i := range list.Items {
			e := eventOf(&list.Items[i])
			m := preemptedByID.FindStringSubmatch(e.Note)
			// The controller creates the next pod at once.
			isLast := e.LastSeen.Sub(p.CreationTimestamp.Time).Abs() < replacedWithin
			if e.Reason == diagnosis.ReasonPreempted && m != nil && isLast && isPodOf(owner, p.Name, e.Regarding.Name) {
				uid = m[1]
			}
		}
	}, client.InNamespace(q.namespace), client.MatchingFields{"involvedObject.kind": kindPod})
	return uid
}

// credentials returns what should create the Secrets with which the pod of the cause pulls its image, if the registry
// denies access. The content can be out of date.
func (q *inquiry) credentials() []reference {
	c := q.blaming
	if c == nil || c.Means != diagnosis.MeansAccessDenied && c.Means != diagnosis.MeansNoCredentials && !strings.Contains(q.problemText(), "denies access") {
		return nil
	}
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == c.Object.Name })
	if i < 0 {
		return nil
	}
	var all []reference
	secrets := q.workload.Pods[i].Spec.ImagePullSecrets
	if len(secrets) != 1 { // it is not known which one the registry wants
		return nil
	}
	for _, r := range q.makersOf(kindSecret, q.namespace, secrets[0].Name) {
		r.relation = fmt.Sprintf(", which creates pull Secret %q,", secrets[0].Name)
		all = append(all, r)
	}
	return all[:min(len(all), maxReferences)]
}

// registry returns what serves images from within the cluster, if the registry of the cause does not answer.
func (q *inquiry) registry() []reference {
	c := q.blaming
	if c == nil || c.Reason != diagnosis.ReasonErrImagePull && c.Reason != diagnosis.ReasonImagePullBackOff || !noRegistry.MatchString(q.problemText()) {
		return nil
	}
	i := slices.IndexFunc(q.workload.Pods, func(p *corev1.Pod) bool { return p.Name == c.Object.Name })
	if i < 0 {
		return nil
	}
	spec := q.workload.Pods[i].Spec
	var all []reference
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		host, _, found := strings.Cut(container.Image, "/")
		host, _, _ = strings.Cut(host, ":")
		if !found || container.Name != c.Container || !strings.Contains(host, ".") {
			continue
		}
		const relation = ", which is the registry,"
		if s := q.serviceAt(host); s != nil {
			all = append(all, newReference(serviceKind, s.Namespace, s.Name, relation).needed())
		}
		all = append(all, q.ingressesOf(host, relation)...)
	}
	return all
}

// noRegistry is how the diagnosis says that a registry does not answer, or not as it should.
var noRegistry = regexp.MustCompile(`the registry cannot be reached|the registry, or a proxy before it, answers with an error|gives no valid answer`)

// ingressesOf returns the Ingresses for a host.
func (q *inquiry) ingressesOf(host, relation string) []reference {
	var all []reference
	for _, o := range q.listIn("", ingressKind) {
		if i, ok := o.(*networkingv1.Ingress); ok && len(all) < maxReferences &&
			slices.ContainsFunc(i.Spec.Rules, func(r networkingv1.IngressRule) bool { return r.Host == host }) {
			all = append(all, newReference(ingressKind, i.Namespace, i.Name, relation))
		}
	}
	return all
}
