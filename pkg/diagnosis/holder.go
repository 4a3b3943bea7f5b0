package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Holders are the names of the pods that hold a volume which the pod of the cause needs, as the text of a
// component says. Pass those that exist to [Cause.Hold].
func (c *Cause) Holders() []string {
	var names []string
	for _, b := range c.Blames {
		if b.Kind == kindPod {
			names = append(names, b.Name)
		}
	}
	return names
}

// Hold completes the cause of pods by why another pod, which holds their volume, has not ended: its node does
// not respond, for example. It does nothing if that pod has no problem, or mounts none of their claims,
// because users can write the Event that names it. nodes is as of [NodeStates].
func (c *Cause) Hold(pods []*corev1.Pod, holder *corev1.Pod, nodes map[string]NodeState, now time.Time) {
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return ShareClaim(p, holder) }) {
		return
	}
	why, _ := StuckPod(holder, nil, nodes, now)
	if why == nil {
		why = Diagnose(Workload{Pods: []*corev1.Pod{holder}, NodeStates: nodes, Now: now}).Cause
	}
	if why == nil {
		return
	}
	c.Message += ": pod " + quote(line(holder.Name, maxName)) + " has a problem: " + why.Message
	c.Advice, c.Transient, c.Node = why.Advice, why.Transient, why.Node
	c.sanitize()
}

// ShareClaim reports whether two different pods of a namespace mount the same claim.
func ShareClaim(a, b *corev1.Pod) bool {
	return a.UID != b.UID && a.Namespace == b.Namespace &&
		slices.ContainsFunc(ClaimsOf(a), func(claim string) bool { return slices.Contains(ClaimsOf(b), claim) })
}
