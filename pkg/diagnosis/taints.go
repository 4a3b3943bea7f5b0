package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// unnamedTaints matches what the scheduler writes about taints since Kubernetes 1.34.
var unnamedTaints = compile(`\d+ node\(s\) had untolerated taint\(s\)`)

// nodeTaint is a taint, and how many nodes have it.
type nodeTaint struct {
	key, value string
	nodes      int
}

// untolerated returns the taints of the nodes that the pod does not tolerate, by key, if the
// scheduler does not name them.
func (s *podView) untolerated(nodes string) []nodeTaint {
	if s.Nodes == nil || !unnamedTaints.MatchString(nodes) {
		return nil
	}
	most := map[nodeTaint]int{} // a node can have the same taint with two effects
	for taint, count := range s.Nodes.Taints {
		if !Tolerates(&s.pod.Spec, &taint) {
			t := nodeTaint{key: taint.Key, value: taint.Value}
			most[t] = max(most[t], count)
		}
	}
	var taints []nodeTaint
	for t, count := range most {
		taints = append(taints, nodeTaint{line(t.key, maxName), line(t.value, maxName), count})
	}
	slices.SortFunc(taints, func(a, b nodeTaint) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) })
	return taints
}

// Tolerates reports whether the pods of a spec tolerate a taint. A toleration that compares numbers counts
// as one that does.
func Tolerates(p *corev1.PodSpec, taint *corev1.Taint) bool {
	return slices.ContainsFunc(p.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		return t.Operator != "" && t.Operator != corev1.TolerationOpEqual || t.Value == taint.Value
	})
}

// removers are what removes a taint of a node, by its key. No pod should tolerate these taints.
var removers = []struct{ key, component string }{
	{"node.cloudprovider.kubernetes.io/uninitialized", "the cloud-controller-manager"}, // cloud-provider/api/well_known_taints.go
	{"node.cilium.io/agent-not-ready", "the Cilium agent"},
	{"cni.istio.io/not-ready", "the CNI plugin of Istio"},
	{"ebs.csi.aws.com/agent-not-ready", "the EBS CSI driver"},
	{"efs.csi.aws.com/agent-not-ready", "the EFS CSI driver"},
	{"karpenter.sh/unregistered", "Karpenter"},
	{"node.kubernetes.io/out-of-service", "the administrator who added it"},
}

// remover returns what removes a taint, if that is known.
func remover(key string) (component string, known bool) {
	for _, r := range removers {
		if r.key == key {
			return r.component, true
		}
	}
	if strings.HasSuffix(key, "/agent-not-ready") {
		return "the agent that the taint names", true
	}
	return "", false
}

// NodeSettlesAfter is how long a new node can be not ready, or have a taint that a component removes.
const NodeSettlesAfter = 3 * time.Minute

// FromNodeTaints returns a cause for each taint that a component should have removed from the node by
// now. It is about the node: no pod that does not tolerate the taint can run on it.
func FromNodeTaints(n *corev1.Node, now time.Time) []Cause {
	var causes []Cause
	for _, taint := range n.Spec.Taints {
		component, known := remover(taint.Key)
		since := n.CreationTimestamp.Time
		if taint.TimeAdded != nil {
			since = taint.TimeAdded.Time
		}
		if !known || taint.Effect == corev1.TaintEffectPreferNoSchedule || now.Sub(since) < NodeSettlesAfter {
			continue
		}
		cause := Cause{
			Reason: ReasonNodeTainted, Object: Object{"Node", n.Name}, Node: n.Name, Time: since,
			Message: "no new pods can run on the node: it still has the taint " + taint.Key + ", which " + component + " removes",
			Advice:  removerAdvice(component),
		}
		cause.sanitize()
		causes = append(causes, cause)
	}
	return causes
}

func removerAdvice(component string) string {
	if component == removers[0].component {
		return "check that " + component + " runs, and has access to the cloud; no pod should tolerate the taint"
	}
	return "check that " + component + " runs, and its log; no pod should tolerate the taint"
}

// taintNote lists taints.
func taintNote(taints []nodeTaint) string {
	var names []string
	for _, t := range taints {
		name, of := t.key, " nodes"
		if t.value != "" {
			name += "=" + t.value
		}
		if t.nodes == 1 {
			of = " node"
		}
		names = append(names, name+" on "+strconv.Itoa(t.nodes)+of)
	}
	if len(names) == 0 {
		return ""
	}
	return "taints: " + line(strings.Join(names, ", "), maxQuoted)
}

// nameTaints writes taints as the scheduler did before Kubernetes 1.34.
func nameTaints(nodes string, taints []nodeTaint) string {
	if len(taints) == 0 {
		return nodes
	}
	var named []string
	for _, t := range taints {
		named = append(named, fmt.Sprintf("%d node(s) had untolerated taint {%s: %s}", t.nodes, t.key, t.value))
	}
	return unnamedTaints.ReplaceAllLiteralString(nodes, strings.Join(named, ", "))
}
