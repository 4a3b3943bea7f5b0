package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// volumeAffinity matches what the scheduler writes about nodes that cannot use a volume.
var volumeAffinity = compile(`volume node affinity|no available volume zone|PersistentVolume's node affinity`)

// NeedsVolumes reports whether nodes cannot take a pod because of its volumes. The diagnosis then
// says where they are, if [Workload.Volumes] contains them. The scheduler's Event can be known before
// the condition of the pod.
func (w *Workload) NeedsVolumes(p *corev1.Pod) bool {
	if p.Spec.NodeName != "" {
		return false
	}
	c := condition(p, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse && volumeAffinity.MatchString(c.Message) ||
		slices.ContainsFunc(w.Events, func(e Event) bool {
			return e.Regarding == Object{kindPod, p.Name} && e.Reason == "FailedScheduling" && volumeAffinity.MatchString(e.Note)
		})
}

// These texts follow the place of a volume.
const (
	noNodeThere   = "where the cluster has no node"
	cordonedThere = "which is cordoned"
)

// volumePlaces says where the volumes of the pod are, and which nodes are there.
func (s *podView) volumePlaces(nodes string) string {
	if !volumeAffinity.MatchString(nodes) {
		return ""
	}
	claims := ClaimsOf(s.pod)
	var notes []string
	for _, v := range s.Volumes {
		claim := v.Spec.ClaimRef
		if claim == nil || claim.Namespace != s.pod.Namespace || !slices.Contains(claims, claim.Name) || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
			continue
		}
		terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
		place := placeOf(terms)
		if place == "" {
			continue
		}
		note := fmt.Sprintf("claim %q has volume %q in %s", claim.Name, v.Name, place)
		if s.Nodes != nil {
			note += nodesIn(terms, s.Nodes.Places)
		}
		notes = append(notes, note)
	}
	slices.Sort(notes)
	return line(strings.Join(notes, "; "), maxQuoted)
}

// topologies are how messages name the keys of node labels.
var topologies = map[string]string{corev1.LabelTopologyZone: "zone", corev1.LabelTopologyRegion: "region", corev1.LabelHostname: "node"}

// placeOf describes the terms of a volume's node affinity, or returns "". It knows only the operator
// In, which provisioners use.
func placeOf(terms []corev1.NodeSelectorTerm) string {
	var places []string
	for _, term := range terms {
		var parts []string
		for _, e := range term.MatchExpressions {
			if e.Operator != corev1.NodeSelectorOpIn {
				return ""
			}
			parts = append(parts, cmp.Or(topologies[e.Key], e.Key)+" "+strings.Join(e.Values, " or "))
		}
		if len(parts) == 0 || len(term.MatchFields) > 0 {
			return ""
		}
		places = append(places, strings.Join(parts, " and "))
	}
	return strings.Join(places, ", or ")
}

// nodesIn names nodes that satisfy one of the terms, as a part of a sentence. It is empty if a term
// cannot be evaluated.
func nodesIn(terms []corev1.NodeSelectorTerm, all []NodePlace) string {
	const most = 3
	var there, cordoned []string
	for _, node := range all {
		isThere := false
		for _, term := range terms {
			ok, known := satisfies(node.Labels, term)
			if !known {
				return ""
			}
			isThere = isThere || ok
		}
		switch {
		case isThere && node.Cordoned:
			cordoned = append(cordoned, quote(node.Name))
		case isThere:
			there = append(there, quote(node.Name))
		}
	}
	name := func(nodes []string) string {
		slices.Sort(nodes)
		if len(nodes) == 1 {
			return "node " + nodes[0]
		}
		return "nodes " + strings.Join(nodes[:min(len(nodes), most)], ", ")
	}
	switch {
	case len(there) > 0:
		return ", where " + name(there) + " cannot take the pod"
	case len(cordoned) == 1:
		return ", where the only node is " + cordoned[0] + ", " + cordonedThere
	case len(cordoned) > 1:
		return ", where each node is cordoned, for example " + cordoned[0] + ", " + cordonedThere
	}
	return ", " + noNodeThere
}

// satisfies reports whether labels of a node satisfy a term that placeOf describes. A node without the
// label may get it later, when its storage driver runs: then nothing is known.
func satisfies(labels map[string]string, term corev1.NodeSelectorTerm) (ok, known bool) {
	ok = true
	for _, e := range term.MatchExpressions {
		value, labeled := labels[e.Key]
		if !labeled {
			return false, false
		}
		ok = ok && slices.Contains(e.Values, value)
	}
	return ok, true
}

// unmatchedClaims names the ResourceClaims of a pod for which the scheduler found no devices.
func (s *podView) unmatchedClaims(nodes string) string {
	if !strings.Contains(nodes, "cannot allocate all claims") {
		return ""
	}
	var names []string
	for _, c := range s.pod.Status.ResourceClaimStatuses {
		if c.ResourceClaimName != nil {
			names = append(names, quote(line(*c.ResourceClaimName, maxName)))
		}
	}
	for _, c := range s.pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, quote(line(*c.ResourceClaimName, maxName)))
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "no free device matches its ResourceClaims"
	case 1:
		return "no free device matches ResourceClaim " + names[0]
	}
	return "no free devices match all of ResourceClaims " + line(strings.Join(names, ", "), maxQuoted)
}

var unschedulableNodes = compile(`were unschedulable`)

// cordoned names the nodes that take no new pods, if the scheduler counts them and the place of a volume does
// not name them already.
func (s *podView) cordoned(nodes, places string) string {
	if s.Nodes == nil || !unschedulableNodes.MatchString(nodes) || strings.Contains(places, cordonedThere) {
		return ""
	}
	const most = 3
	var names []string
	for _, n := range s.Nodes.Places {
		if n.Cordoned {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], "others")
	}
	if len(names) == 0 {
		return ""
	}
	return line("cordoned: "+strings.Join(names, ", "), maxQuoted)
}
