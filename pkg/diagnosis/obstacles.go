package diagnosis

import (
	"cmp"
	"slices"
	"strings"
)

// obstacle maps a reason of the scheduler, or a note about one, to advice.
type obstacle struct {
	text   *pattern
	advice string
	kind   obstacleKind
}

// obstacleKind is whether an obstacle comes and goes with the state of nodes and of other pods.
type obstacleKind bool

const (
	passing obstacleKind = true
	lasting obstacleKind = false
)

// excluding are the obstacles that exclude every node, so that those of some nodes do not matter.
var excluding = []obstacle{
	{compile(noNodeThere), "ask the cluster's administrator for a node there, or restore the data to another volume", lasting},
	{compile(cordonedThere), "wait until the node is uncordoned, or ask the cluster's administrator", lasting},
	{absent, "correct the name of the resource, or ask the cluster's administrator for nodes that offer it", lasting},
	{tooLarge, "request less ${1}, or ask the cluster's administrator for larger nodes", lasting},
}

// schedulingAdvice are the obstacles of some nodes.
var schedulingAdvice = []obstacle{
	{insufficient, "request less ${1} in resources, or wait until more is available", passing},
	{leavingNode, "the cluster removes these nodes; wait until others can take the pod", passing},
	{fargateNode, "the Fargate profiles of the cluster do not select the pod; ask the cluster's administrator for a profile or for other nodes", lasting},
	{compile(`not supported on Fargate: .*PVC (\S+) not bound`), `wait until claim "${1}" is bound; its Events say why it is not`, lasting},
	{compile(`not supported on Fargate`), "remove what Fargate does not support, or run the pod on other nodes", lasting},
	{compile(`Fargate is not supported in`), "select other nodes, or ask the cluster's administrator for a Fargate profile in another zone", lasting},
	{uninitialized, "ask the cluster's administrator to check that the cloud-controller-manager runs and has access to the cloud: it removes the taint ${1} of new nodes", passing},
	{agentNotReady, "ask the cluster's administrator to check the agent on the nodes, which removes the taint ${1} when it runs", passing},
	{nodeProblem, "wait until the nodes are ready and not under pressure, or ask the cluster's administrator to repair them", passing},
	{compile(`untolerated taint\(s\)`), "if nodes are not ready or under pressure, wait; if a taint reserves them, ask the cluster's administrator whether the pod may run there", passing},
	{compile(`untolerated taint \{|taints? that the pod didn't tolerate`), "add tolerations for the nodes' taints, or let the pod run on other nodes", passing},
	{compile(`cannot allocate all claims`), "check the device classes and selectors of its ResourceClaims, or wait until a device is free", lasting},
	{compile(`device class (\S+) does not exist`), `use another DeviceClass than "${1}" in the ResourceClaim`, lasting},
	{compile(`resourceclaim "([^"]+)" is being deleted`), `wait until ResourceClaim "${1}" is deleted, and create it again`, lasting},
	{compile(`resourceclaim\S* "([^"]+)" not found`), `create ResourceClaim "${1}", or correct its name`, lasting},
	{compile(`waiting for (?:dynamic resource|ephemeral volume) controller|ResourceClaim not created yet`), administratorLater, lasting},
	{compile(`resource claim \S+ is in the process of being allocated|is currently being updated`), "wait for the next attempt", lasting},
	{compile(`resource claim .* feature is disabled`), "remove from the ResourceClaim what needs this feature, or ask the cluster's administrator to enable it", lasting},
	{compile(`claim (\S+): selector #\d+ on device`), "correct the CEL selectors of ResourceClaim ${1}", lasting},
	{compile(`class (\S+): selector #\d+ on device`), "ask the cluster's administrator to correct the CEL selectors of DeviceClass ${1}", lasting},
	{compile(`exceeds the claim limit`), "request fewer devices in the ResourceClaim, or use several", lasting},
	{compile(`failed to find storage class "([^"]+)"`), "use an existing StorageClass in the claim; the cluster's administrator knows which ones exist", lasting},
	{compile(`filter with extender at URL|^(?:, |; )*Post `), "wait; if the problem persists, ask the cluster's administrator to check the extender of the scheduler", lasting},
	{compile(`minAvailable is satisfied`), "find out why the other pods of its group are not scheduled; it is tried again with them", lasting},
	{compile(`cannot find enough sibling pods`), "create the other pods of its PodGroup, or lower minMember", lasting},
	{compile(`(?i:podGroup) \S+ (?:failed recently|gets rejected)`), "find out why the other pods of its group are not scheduled; it is tried again with them", lasting},
	{compile(`ElasticQuota \S+ is more than`), "end other pods of the namespace, or ask the cluster's administrator for a larger ElasticQuota", lasting},
	{compile(`cannot align pod|missing NUMA resources`), "request less, or wait until a node has more", lasting},
	{compile(`Insufficient \w+ devices`), "request fewer devices, or wait until one is free", lasting},
	{compile(`usage exceed threshold`), "wait until the load of the nodes is lower", passing},
	{compile(`no reservations match`), "correct the reservation affinity of the pod", lasting},
	{compile(`queue quota has been exceed`), "wait until other pods of the queue end, or ask the cluster's administrator for a larger quota of the queue", lasting},
	{compile(`pending for the requested resources`), "request less in resources, or wait until more is available", lasting},
	{compile(`is rejected by the scheduler`), "check the queue that the pod names, or ask the cluster's administrator", lasting},
	{compile(`scheduler-enforced node affinity`), "ask the cluster's administrator, whose configuration of the scheduler excludes these nodes", lasting},
	{compile(`pod affinity terms conflict`), "correct matchFields in the pod's nodeAffinity: they exclude each other", lasting},
	{compile(`resourceclaim|resource claim`), "check the pod's ResourceClaims, or ask the cluster's administrator", lasting},
	{compile(`didn't find available persistent volumes`), "use a storage class that provisions volumes, or ask the cluster's administrator for a matching PersistentVolume", lasting},
	{compile(`enough free storage`), "request less storage, or wait until a node has more", lasting},
	{compile(`requested node name`), "correct nodeName", lasting},
	{compile(`non-existent pv`), "use another claim, or ask the cluster's administrator to restore the missing PersistentVolume", lasting},
	{compile(`node affinity/selector|didn't match node selector`), "correct nodeSelector and affinity, or ask the cluster's administrator for the labels of the nodes", lasting},
	{compile(`existing pods anti-affinity`), "the podAntiAffinity of running pods excludes it; wait until they end, or change their labels or its own", lasting},
	{compile(`anti-affinity`), "run fewer replicas, or relax its podAntiAffinity", lasting},
	{compile(`pod affinity`), "start the pods that its podAffinity requires, or relax it", lasting},
	{compile(`topology spread constraints \(missing required label\)`), "use a topologyKey in topologySpreadConstraints that the nodes have as a label", lasting},
	{compile(`topology spread`), "wait for free capacity in the other topology domains, or relax topologySpreadConstraints", lasting},
	{compile(`free ports`), "use another hostPort, or none", lasting},
	{compile(`Too many pods`), "wait until other pods end", passing},
	{compile(`were unschedulable|had unknown conditions`), "wait until nodes are schedulable again", passing},
	{volumeAffinity, "no suitable node can use its volume; change the pod's placement, or use another volume", lasting},
	{compile(`volume count`), "wait until a node can attach another volume", passing},
	{compile(`CSI driver is not installed on the node`), "wait until the storage driver runs on the nodes; if the problem persists, ask the cluster's administrator", passing},
	{compile(`minCount pods from a gang`), "wait until the other pods of its PodGroup exist; the group's minCount must not exceed their number", lasting},
	{compile(`pod group "([^"]+)" to appear`), `create PodGroup "${1}", or correct its name`, lasting},
	{compile(`required features`), "select nodes with a newer kubelet, or remove what needs newer features", lasting},
	{compile(`timed out trying to allocate devices`), "wait for the next attempt; if the problem persists, simplify the pod's ResourceClaims", lasting},
	{compile(`tasks in gang unschedulable`), "find out why the other pods of its group are not scheduled; it is tried again with them", lasting},
	{compile(`waiting for the preemption`), "wait until the pods that it replaces have ended", lasting},
	{compile(`device binding (?:timeout|failed)`), "wait for the next attempt; if the problem persists, ask the cluster's administrator to check the driver of its ResourceClaims", lasting},
	{compile(`rejected due to timeout after waiting \S+ at plugin (?:GangScheduling|Coscheduling)`), "find out why the other pods of its group are not scheduled; it is tried again with them", lasting},
	{compile(`had no available disk`), "another pod on these nodes uses the same disk; wait until it ends, or use another volume", lasting},
	{compile(`ReadWriteOncePod`), "another pod uses its claim; stop that pod, or use another claim", lasting},
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
	// ofTaints match taints that only Kubernetes, clouds and autoscalers set, by their names.
	ofTaints = []*pattern{leavingNode, uninitialized, agentNotReady, nodeProblem, fargateNode}
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

// schedulingAdviceFor joins the advice for the first three obstacles. Nodes of the control plane are an
// obstacle only if there are no other nodes. The note explains the exceeded resources and where volumes
// are.
func schedulingAdviceFor(nodes, note string, exceeded []string) string {
	if others := strings.TrimLeft(controlPlane.ReplaceAllString(nodes, ""), ", "); others != "" {
		nodes = others
	} else if nodes != "" {
		return "the cluster has only nodes of the control plane; ask the cluster's administrator for others"
	}
	for _, name := range exceeded {
		nodes = strings.ReplaceAll(nodes, "Insufficient "+name, "")
	}
	text := note + ", " + nodes
	advice := adviceIn(text, excluding)
	if len(advice) == 0 {
		advice = adviceIn(text, schedulingAdvice)
	}
	return strings.Join(advice, "; ")
}

// adviceIn returns the advice for those of the obstacles that a text contains.
func adviceIn(text string, obstacles []obstacle) []string {
	const most = 3
	hidden := words(text)
	var advice []string
	for _, a := range obstacles {
		in := hidden
		if slices.Contains(ofTaints, a.text) {
			in = text
		}
		all := a.text.FindAllStringSubmatchIndex(in, -1)
		if all == nil {
			continue
		}
		if advice = append(advice, string(a.text.ExpandString(nil, a.advice, text, all[0]))); len(advice) == most {
			break
		}
		for _, at := range slices.Backward(all) { // so that no later, more general rule matches it
			text, hidden = text[:at[0]]+text[at[1]:], hidden[:at[0]]+hidden[at[1]:]
		}
	}
	return advice
}

// lastingObstacles returns the obstacles in the sentence of a cause that are not passing. It returns
// the sentence if it contains no known obstacle.
func lastingObstacles(sentence string) string {
	known := false
	var remaining []string
	for _, a := range slices.Concat(excluding, schedulingAdvice) {
		text := a.text.FindString(sentence)
		known = known || text != ""
		if text != "" && a.kind == lasting {
			remaining = append(remaining, text)
		}
	}
	if !known {
		return sentence
	}
	return strings.Join(remaining, ", ")
}
