package diagnosis

import (
	"cmp"
	"slices"
	"strings"
)

// excluding are the obstacles that exclude every node, so that those of some nodes do not matter.
var excluding = []rule{
	{name: "no-node-at-volume", problem: lasting,
		text:   compile(noNodeThere),
		advice: "ask the cluster's administrator for a node there, or restore the data to another volume"},
	{name: "node-at-volume-cordoned", problem: lasting,
		text:   compile(cordonedThere),
		advice: "wait until the node is uncordoned, or ask the cluster's administrator",
		late:   "ask the cluster's administrator to uncordon the node"},
	{name: "resource-on-no-node", problem: lasting,
		text:   absent,
		advice: "correct the name of the resource, or ask the cluster's administrator for nodes that offer it"},
	{name: "request-exceeds-largest-node", problem: lasting,
		text:   tooLarge,
		advice: "request less ${1}, or ask the cluster's administrator for larger nodes"},
}

// schedulingAdvice are the obstacles of some nodes.
var schedulingAdvice = []rule{
	{name: "insufficient-resource", problem: passing,
		text:   insufficient,
		advice: "request less ${1} in resources, or wait until more is available",
		late:   "request less ${1} in resources, or ask the cluster's administrator for more nodes"},
	{name: "node-leaving", problem: passing, namesTaint: true,
		text:   leavingNode,
		advice: "the cluster removes these nodes; wait until others can take the pod",
		late:   "the cluster removes these nodes; ask the cluster's administrator for others"},
	{name: "fargate-profile-mismatch", problem: lasting, namesTaint: true,
		text:   fargateNode,
		advice: "the Fargate profiles of the cluster do not select the pod; ask the cluster's administrator for a profile or for other nodes"},
	{name: "fargate-claim-not-bound", problem: lasting,
		text:   compile(`not supported on Fargate: .*PVC (\S+) not bound`),
		advice: `wait until claim "${1}" is bound; its Events say why it is not`,
		late:   `find out in its Events why claim "${1}" is not bound`},
	{name: "fargate-not-supported", problem: lasting,
		text:   compile(`not supported on Fargate`),
		advice: "remove what Fargate does not support, or run the pod on other nodes"},
	{name: "fargate-not-in-zone", problem: lasting,
		text:   compile(`Fargate is not supported in`),
		advice: "select other nodes, or ask the cluster's administrator for a Fargate profile in another zone"},
	{name: "node-uninitialized", problem: passing, namesTaint: true,
		text:   uninitialized,
		advice: "ask the cluster's administrator to check that the cloud-controller-manager runs and has access to the cloud: it removes the taint ${1} of new nodes"},
	{name: "node-agent-not-ready", problem: passing, namesTaint: true,
		text:   agentNotReady,
		advice: "ask the cluster's administrator to check the agent on the nodes, which removes the taint ${1} when it runs"},
	{name: "node-problem-taint", problem: passing, namesTaint: true,
		text:   nodeProblem,
		advice: "wait until the nodes are ready and not under pressure, or ask the cluster's administrator to repair them",
		late:   "ask the cluster's administrator to repair the nodes"},
	{name: "unnamed-taint", problem: passing,
		text:   compile(`untolerated taint\(s\)`),
		advice: "if nodes are not ready or under pressure, wait; if a taint reserves them, ask the cluster's administrator whether the pod may run there",
		late:   "if nodes are not ready or under pressure, ask the cluster's administrator to repair them; if a taint reserves them, ask whether the pod may run there"},
	{name: "taint", problem: passing,
		text:   compile(`untolerated taint \{|taints? that the pod didn't tolerate`),
		advice: "add tolerations for the nodes' taints, or let the pod run on other nodes"},
	{name: "resource-claims-not-allocated", problem: lasting,
		text:   compile(`cannot allocate all claims`),
		advice: "check the device classes and selectors of its ResourceClaims, or wait until a device is free",
		late:   "check the device classes and selectors of its ResourceClaims, or ask the cluster's administrator for more devices"},
	{name: "device-class-not-found", problem: lasting,
		text:   compile(`device class (\S+) does not exist`),
		advice: `use another DeviceClass than "${1}" in the ResourceClaim`},
	{name: "resource-claim-being-deleted", problem: lasting,
		text:   compile(`resourceclaim "([^"]+)" is being deleted`),
		advice: `wait until ResourceClaim "${1}" is deleted, and create it again`,
		late:   `find out why the deletion of ResourceClaim "${1}" does not end, and create it again`},
	{name: "resource-claim-not-found", problem: lasting,
		text:   compile(`resourceclaim\S* "([^"]+)" not found`),
		advice: `create ResourceClaim "${1}", or correct its name`},
	{name: "claim-not-created-yet", problem: lasting,
		text:   compile(`waiting for (?:dynamic resource|ephemeral volume) controller|ResourceClaim not created yet`),
		advice: administratorLater, late: administrator},
	{name: "resource-claim-in-progress", problem: lasting,
		text:   compile(`resource claim \S+ is in the process of being allocated|is currently being updated`),
		advice: "wait for the next attempt", late: administrator},
	{name: "resource-claim-feature-disabled", problem: lasting,
		text:   compile(`resource claim .* feature is disabled`),
		advice: "remove from the ResourceClaim what needs this feature, or ask the cluster's administrator to enable it"},
	{name: "resource-claim-selector-fails", problem: lasting,
		text:   compile(`claim (\S+): selector #\d+ on device`),
		advice: "correct the CEL selectors of ResourceClaim ${1}"},
	{name: "device-class-selector-fails", problem: lasting,
		text:   compile(`class (\S+): selector #\d+ on device`),
		advice: "ask the cluster's administrator to correct the CEL selectors of DeviceClass ${1}"},
	{name: "resource-claim-too-large", problem: lasting,
		text:   compile(`exceeds the claim limit`),
		advice: "request fewer devices in the ResourceClaim, or use several"},
	{name: "storage-class-not-found-by-scheduler", problem: lasting,
		text:   compile(`failed to find storage class "([^"]+)"`),
		advice: "use an existing StorageClass in the claim; the cluster's administrator knows which ones exist"},
	{name: "extender-fails", problem: lasting,
		text:   compile(`filter with extender at URL|^(?:, |; )*Post `),
		advice: "wait; if the problem persists, ask the cluster's administrator to check the extender of the scheduler",
		late:   "ask the cluster's administrator to check the extender of the scheduler"},
	{name: "gang-min-available", problem: lasting,
		text:   compile(`minAvailable is satisfied`),
		advice: "find out why the other pods of its group are not scheduled; it is tried again with them"},
	{name: "gang-siblings-missing", problem: lasting,
		text:   compile(`cannot find enough sibling pods`),
		advice: "create the other pods of its PodGroup, or lower minMember"},
	{name: "gang-failed-recently", problem: lasting,
		text:   compile(`(?i:podGroup) \S+ (?:failed recently|gets rejected)`),
		advice: "find out why the other pods of its group are not scheduled; it is tried again with them"},
	{name: "elastic-quota-exceeded", problem: lasting,
		text:   compile(`ElasticQuota \S+ is more than`),
		advice: "end other pods of the namespace, or ask the cluster's administrator for a larger ElasticQuota"},
	{name: "numa-not-aligned", problem: lasting,
		text:   compile(`cannot align pod|missing NUMA resources`),
		advice: "request less, or wait until a node has more",
		late:   "request less, or ask the cluster's administrator for more nodes"},
	{name: "insufficient-devices", problem: lasting,
		text:   compile(`Insufficient \w+ devices`),
		advice: "request fewer devices, or wait until one is free",
		late:   "request fewer devices, or ask the cluster's administrator for more"},
	{name: "node-load-too-high", problem: passing,
		text:   compile(`usage exceed threshold`),
		advice: "wait until the load of the nodes is lower",
		late:   "ask the cluster's administrator for more nodes"},
	{name: "no-reservation-matches", problem: lasting,
		text:   compile(`no reservations match`),
		advice: "correct the reservation affinity of the pod"},
	{name: "queue-quota-exceeded", problem: lasting,
		text:   compile(`queue quota has been exceed`),
		advice: "wait until other pods of the queue end, or ask the cluster's administrator for a larger quota of the queue",
		late:   "end other pods of the queue, or ask the cluster's administrator for a larger quota of the queue"},
	{name: "queue-resources-pending", problem: lasting,
		text:   compile(`pending for the requested resources`),
		advice: "request less in resources, or wait until more is available",
		late:   "request less in resources, or ask the cluster's administrator for more nodes"},
	{name: "queue-rejects", problem: lasting,
		text:   compile(`is rejected by the scheduler`),
		advice: "check the queue that the pod names, or ask the cluster's administrator"},
	{name: "scheduler-node-affinity", problem: lasting,
		text:   compile(`scheduler-enforced node affinity`),
		advice: "ask the cluster's administrator, whose configuration of the scheduler excludes these nodes"},
	{name: "node-affinity-terms-conflict", problem: lasting,
		text:   compile(`pod affinity terms conflict`),
		advice: "correct matchFields in the pod's nodeAffinity: they exclude each other"},
	{name: "resource-claim-other", problem: lasting,
		text:   compile(`resourceclaim|resource claim`),
		advice: "check the pod's ResourceClaims, or ask the cluster's administrator"},
	{name: "no-matching-volume", problem: lasting,
		text:   compile(`didn't find available persistent volumes`),
		advice: "use a storage class that provisions volumes, or ask the cluster's administrator for a matching PersistentVolume"},
	{name: "insufficient-storage", problem: lasting,
		text:   compile(`enough free storage`),
		advice: "request less storage, or wait until a node has more",
		late:   "request less storage, or ask the cluster's administrator for nodes with more"},
	{name: "node-name-differs", problem: lasting,
		text:   compile(`requested node name`),
		advice: "correct nodeName"},
	{name: "volume-lost", problem: lasting,
		text:   compile(`non-existent pv`),
		advice: "use another claim, or ask the cluster's administrator to restore the missing PersistentVolume"},
	{name: "node-selector-mismatch", problem: lasting,
		text:   compile(`node affinity/selector|didn't match node selector`),
		advice: "correct nodeSelector and affinity, or ask the cluster's administrator for the labels of the nodes"},
	{name: "existing-anti-affinity", problem: lasting,
		text:   compile(`existing pods anti-affinity`),
		advice: "the podAntiAffinity of running pods excludes it; wait until they end, or change their labels or its own",
		late:   "the podAntiAffinity of running pods excludes it; end them, or change their labels or its own"},
	{name: "anti-affinity", problem: lasting,
		text:   compile(`anti-affinity`),
		advice: "run fewer replicas than nodes, let a rollout end old pods first (maxUnavailable: 1), or relax its podAntiAffinity"},
	{name: "pod-affinity", problem: lasting,
		text:   compile(`pod affinity`),
		advice: "start the pods that its podAffinity requires, or relax it"},
	{name: "topology-label-missing", problem: lasting,
		text:   compile(`topology spread constraints \(missing required label\)`),
		advice: "use a topologyKey in topologySpreadConstraints that the nodes have as a label"},
	{name: "topology-spread", problem: lasting,
		text:   compile(`topology spread`),
		advice: "wait for free capacity in the other topology domains, or relax topologySpreadConstraints",
		late:   "relax topologySpreadConstraints, or ask the cluster's administrator for nodes in the other topology domains"},
	{name: "host-port-taken", problem: lasting,
		text:   compile(`free ports`),
		advice: "use another hostPort, or none"},
	{name: "too-many-pods", problem: passing,
		text:   compile(`Too many pods`),
		advice: "wait until other pods end",
		late:   "end other pods, or ask the cluster's administrator for more nodes"},
	{name: "node-cordoned", problem: passing,
		text:   compile(`were unschedulable|had unknown conditions`),
		advice: "wait until nodes are schedulable again",
		late:   "ask the cluster's administrator to uncordon nodes"},
	{name: "volume-affinity", problem: lasting,
		text:   volumeAffinity,
		advice: "no suitable node can use its volume; change the pod's placement, or use another volume"},
	{name: "volume-count-reached", problem: passing,
		text:   compile(`volume count`),
		advice: "wait until a node can attach another volume",
		late:   "use fewer volumes, or ask the cluster's administrator for more nodes"},
	{name: "csi-driver-missing-on-node", problem: passing,
		text:   compile(`CSI driver is not installed on the node`),
		advice: "wait until the storage driver runs on the nodes; if the problem persists, ask the cluster's administrator",
		late:   "ask the cluster's administrator to check the storage driver on the nodes"},
	{name: "gang-min-count", problem: lasting,
		text:   compile(`minCount pods from a gang`),
		advice: "wait until the other pods of its PodGroup exist; the group's minCount must not exceed their number",
		late:   "find out why the other pods of its PodGroup do not exist; the group's minCount must not exceed their number"},
	{name: "pod-group-not-found", problem: lasting,
		text:   compile(`pod group "([^"]+)" to appear`),
		advice: `create PodGroup "${1}", or correct its name`},
	{name: "node-features-missing", problem: lasting,
		text:   compile(`required features`),
		advice: "select nodes with a newer kubelet, or remove what needs newer features"},
	{name: "device-allocation-timeout", problem: lasting,
		text:   compile(`timed out trying to allocate devices`),
		advice: "wait for the next attempt; if the problem persists, simplify the pod's ResourceClaims",
		late:   "simplify the pod's ResourceClaims"},
	{name: "gang-tasks-unschedulable", problem: lasting,
		text:   compile(`tasks in gang unschedulable`),
		advice: "find out why the other pods of its group are not scheduled; it is tried again with them"},
	{name: "waits-for-preemption", problem: lasting,
		text:   compile(`waiting for the preemption`),
		advice: "wait until the pods that it replaces have ended",
		late:   "find out why the pods that it replaces do not end: check their finalizers and nodes"},
	{name: "device-binding-fails", problem: lasting,
		text:   compile(`device binding (?:timeout|failed)`),
		advice: "wait for the next attempt; if the problem persists, ask the cluster's administrator to check the driver of its ResourceClaims",
		late:   "ask the cluster's administrator to check the driver of its ResourceClaims"},
	{name: "gang-permit-timeout", problem: lasting,
		text:   compile(`rejected due to timeout after waiting \S+ at plugin (?:GangScheduling|Coscheduling)`),
		advice: "find out why the other pods of its group are not scheduled; it is tried again with them"},
	{name: "disk-conflict", problem: lasting,
		text:   compile(`had no available disk`),
		advice: "another pod on these nodes uses the same disk; wait until it ends, or use another volume",
		late:   "another pod on these nodes uses the same disk; stop it, or use another volume"},
	{name: "claim-read-write-once-pod", problem: lasting,
		text:   compile(`ReadWriteOncePod`),
		advice: "another pod uses its claim; stop that pod, or use another claim"},
}

var (
	// insufficient matches a resource. Other schedulers write more words after it.
	insufficient = compile(`Insufficient ([\w./-]*\w)(?:[,;:)]|\.(?: |$)| \(|$)`)
	// absent matches what exceedsLargestNode writes of a resource that no node offers.
	absent = compile(`\bno node offers ([\w./-]*\w)`)
	// tooLarge matches what exceedsLargestNode writes of a request that no node can satisfy.
	tooLarge = compile(`the largest node has \S+ (?:of )?([\w./-]*\w); the pod requests [\w.]+`)
	// uninitialized and agentNotReady match taints that a component removes from new nodes, see removers.
	uninitialized = compile(`untolerated taint \{(node\.cloudprovider\.kubernetes\.io/uninitialized)[^}]*\}`)
	agentNotReady = compile(`untolerated taint \{([^}:]*/agent-not-ready|cni\.istio\.io/not-ready)[^}]*\}`)
	// nodeProblem matches taints that Kubernetes sets on nodes with a problem, and others that
	// agents remove when they run. A toleration would be wrong.
	nodeProblem = compile(`untolerated taint \{(?:node\.(?:cloudprovider\.)?kubernetes\.io/|(?:startup|ignore)-taint\.cluster-autoscaler\.kubernetes\.io/|` +
		`karpenter\.sh/unregistered|[^}:]*/agent-not-ready)[^}]*\}`)
	// leavingNode matches taints of autoscalers on nodes that they remove.
	leavingNode = compile(`untolerated taint \{(?:ToBeDeletedByClusterAutoscaler|DeletionCandidateOfClusterAutoscaler|karpenter\.sh/disrupt|` +
		`aws-node-termination-handler/|cloud\.google\.com/impending-node-termination)[^}]*\}`)
	// fargateNode matches the taint of the nodes of AWS Fargate, which take only pods that a profile selects.
	fargateNode = compile(`untolerated taint \{eks\.amazonaws\.com/compute-type: fargate\}`)
	// controlPlane matches the nodes of the control plane, which take no pods of users.
	controlPlane = compile(`(?:^|, )\d+ node\(s\) had untolerated taint \{node-role\.kubernetes\.io/(?:control-plane|master)[^}]*\}`)
)

// sortObstacles sorts the scheduler's reasons without their node counts. The scheduler
// sorts them with the counts, so its order keeps changing.
func sortObstacles(nodes string) string {
	var obstacles []string
	for part := range strings.SplitSeq(nodes, ", ") {
		if last := len(obstacles) - 1; last >= 0 && withoutNodeCount(part) == part {
			obstacles[last] += ", " + part // the comma belongs to the text
			continue
		}
		obstacles = append(obstacles, part)
	}
	slices.SortFunc(obstacles, func(a, b string) int {
		return cmp.Or(cmp.Compare(withoutNodeCount(a), withoutNodeCount(b)), cmp.Compare(a, b))
	})
	return strings.Join(obstacles, ", ")
}

// withoutNodeCount strips the number of nodes.
func withoutNodeCount(part string) string { return strings.TrimLeft(part, "0123456789") }

// schedulingAdviceFor joins the advice for the first three obstacles, and what replaces it if waiting does not
// help. Nodes of the control plane are an obstacle only if there are no other nodes. The note explains the
// exceeded resources and where volumes are.
func schedulingAdviceFor(nodes, note string, exceeded []string) (advice, late string) {
	if others := strings.TrimLeft(controlPlane.ReplaceAllString(nodes, ""), ", "); others != "" {
		nodes = others
	} else if nodes != "" {
		return "the cluster has only nodes of the control plane; ask the cluster's administrator for others", ""
	}
	for _, name := range exceeded {
		nodes = strings.ReplaceAll(nodes, "Insufficient "+name, "")
	}
	text := note + ", " + nodes
	found := obstaclesIn(text, excluding)
	if len(found) == 0 {
		found = obstaclesIn(text, schedulingAdvice)
	}
	if len(found) == 0 {
		return "if the pod's spec is correct, ask the cluster's administrator", ""
	}
	var first, then []string
	waits := false
	for _, r := range found {
		first, then = append(first, r.advice), append(then, cmp.Or(r.late, r.advice))
		waits = waits || r.late != ""
	}
	if waits {
		late = strings.Join(then, "; ")
	}
	return strings.Join(first, "; "), late
}

// obstaclesIn returns the advice for the first three obstacles that a text contains.
func obstaclesIn(text string, obstacles []rule) []explanation {
	const most = 3
	hidden := words(text)
	var found []explanation
	for i := range obstacles {
		a, in := &obstacles[i], hidden
		if a.namesTaint {
			in = text
		}
		all := a.text.FindAllStringSubmatchIndex(in, -1)
		if all == nil {
			continue
		}
		a.applied()
		expand := func(template string) string { return string(a.text.ExpandString(nil, template, text, all[0])) }
		if found = append(found, explanation{advice: expand(a.advice), late: expand(a.late)}); len(found) == most {
			break
		}
		for _, at := range slices.Backward(all) { // so that no later, more general rule matches it
			text, hidden = text[:at[0]]+text[at[1]:], hidden[:at[0]]+hidden[at[1]:]
		}
	}
	return found
}

// allObstacles are those of the scheduler.
var allObstacles = slices.Concat(excluding, schedulingAdvice)

// lastingObstacles returns the obstacles in the sentence of a cause that are not passing. It returns
// the sentence if it contains no known obstacle.
func lastingObstacles(sentence string) string {
	known := false
	var remaining []string
	for _, a := range allObstacles {
		text := a.text.FindString(sentence)
		known = known || text != ""
		if text != "" && a.problem == lasting {
			remaining = append(remaining, text)
		}
	}
	if !known {
		return sentence
	}
	return strings.Join(remaining, ", ")
}
