package explain

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// twoNodes are nodes that run pods already.
const twoNodes = `
apiVersion: v1
kind: Node
metadata: {name: n-1}
---
apiVersion: v1
kind: Node
metadata: {name: n-2}
---`

// blockedRollout is a rollout whose new pod cannot be scheduled. podSpec is a part of that pod.
func blockedRollout(replicas int, strategy, podSpec, obstacle string) string {
	pod := func(name, rest string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + `, creationTimestamp: "2026-03-01T08:55:00Z", labels: {app: dns}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: dns-2, uid: r, controller: true}]}
` + rest + "\n---"
	}
	return twoNodes + fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: dns, namespace: shop, uid: d, generation: 2, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: {replicas: %d, strategy: %s, selector: {matchLabels: {app: dns}}, template: {metadata: {labels: {app: dns}}}}
status: {observedGeneration: 2, replicas: %d, updatedReplicas: 1, readyReplicas: %d}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: dns-2, namespace: shop, uid: r, labels: {app: dns}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: dns, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: dns}}, template: {metadata: {labels: {app: dns}}}}
status: {replicas: 1}
---`, replicas, strategy, replicas+1, replicas) +
		pod("dns-1-a", `spec: {nodeName: n-1, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}], containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "2026-03-01T07:00:00Z"}}}]}`) +
		pod("dns-2-x", podSpec+`
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, lastTransitionTime: "2026-03-01T08:55:00Z", message: "`+obstacle+`"}]}`)
}

const (
	ownAntiAffinity = `spec: {containers: [{name: app}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: dns}}, topologyKey: kubernetes.io/hostname}]}}}`
	ofOthers        = `spec: {containers: [{name: app}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: noisy}}, topologyKey: kubernetes.io/hostname}]}}}`
	ownPort         = `spec: {containers: [{name: app, ports: [{containerPort: 53, hostPort: 53}]}]}`
	noPort          = `spec: {containers: [{name: app}]}`
	antiAffinity    = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
	noFreePort      = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
)

// scaleUp is the Event of the cluster autoscaler about a node that it adds for the new pod.
const scaleUp = `
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Normal
reason: TriggeredScaleUp
message: 'pod triggered scale-up: [{asg 2->3 (max: 5)}]'
lastTimestamp: "2026-03-01T08:59:00Z"
involvedObject: {apiVersion: v1, kind: Pod, name: dns-2-x, uid: dns-2-x}
---
`

// quotaRollout is a rollout whose new pod exceeds a quota of pods.
func quotaRollout(strategy string) string { return quotaRolloutOf("pods", "1", "3", strategy) }

// quotaRolloutOf is a rollout whose new pod exceeds a quota of a resource.
func quotaRolloutOf(resource, requested, used, strategy string) string {
	exceeded := fmt.Sprintf("exceeded quota: team, requested: %[1]s=%s, used: %[1]s=%s, limited: %[1]s=%[3]s", resource, requested, used)
	return strings.Replace(blockedRollout(2, strategy, noPort, "x"), "readyReplicas: 2}", `readyReplicas: 2, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, lastTransitionTime: "2026-03-01T08:55:00Z", message: 'pods "dns-2-x" is forbidden: `+exceeded+`'}]}`, 1) + `
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: FailedCreate
message: 'Error creating: pods "dns-2-y" is forbidden: ` + exceeded + `'
lastTimestamp: "2026-03-01T08:59:00Z"
involvedObject: {apiVersion: apps/v1, kind: ReplicaSet, name: dns-2, namespace: shop, uid: r}
`
}

// volumeRollout is heldVolume with both nodes ready. deployment changes the Deployment, and old the pod that has the volume.
func volumeRollout(deployment, old *strings.Replacer) string {
	nodes, rest, _ := strings.Cut(heldVolume, "kind: Deployment")
	nodes = strings.Replace(nodes, `status: "Unknown", reason: NodeStatusUnknown, message: Kubelet stopped posting node status.`, `status: "True"`, 1)
	of, pods, _ := strings.Cut(rest, "\n---\n")
	pods = strings.Replace(pods, `, deletionTimestamp: "2026-03-01T08:55:00Z", finalizers: [x/x]`, "", 1)
	pods = strings.Replace(pods, `conditions: [{type: Ready, status: "False"}]`, `conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}]`, 1)
	return nodes + "kind: Deployment" + deployment.Replace(of) + "\n---\n" + old.Replace(pods)
}

// dependent is an object of Flux that waits for the next one.
func dependent(kind, namespace, name, on string) string {
	group := map[string]string{"Kustomization": "kustomize.toolkit.fluxcd.io/v1", "HelmRelease": "helm.toolkit.fluxcd.io/v2"}[kind]
	message, spec := "the chart is invalid", "{}"
	if on != "" {
		at, other, _ := strings.Cut(on, "/")
		message, spec = "dependency '"+on+"' is not ready", "{dependsOn: [{name: "+other+", namespace: "+at+"}]}"
	}
	return `
apiVersion: ` + group + `
kind: ` + kind + `
metadata: {name: ` + name + `, namespace: ` + namespace + `, uid: ` + namespace + "-" + name + `, creationTimestamp: "2026-03-01T07:00:00Z"}
spec: ` + spec + `
status: {conditions: [{type: Ready, status: "False", reason: DependencyNotReady, message: "` + message + `", lastTransitionTime: "2026-03-01T08:00:00Z"}]}
---
`
}

// deadlocked says that waiting never helps.
var deadlocked = regexp.MustCompile(`this is a deadlock|ends none before a new pod is ready|so that old pods end before new ones are created|waits for it in turn`)

// blocked is a cluster, and the object that is explained in it.
type blocked struct{ resource, objects string }

// rollouts returns rollouts of Deployment dns with several numbers of replicas. keeps means that they end no old pod before a new one is
// ready.
func rollouts(keeps bool, podSpec, obstacle, more string) []blocked {
	const seeds = 4
	var all []blocked
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		replicas := 2 + int(seed)
		percent := 1 + r.IntN(99)
		for (replicas*percent/100 == 0) != keeps {
			percent = 1 + r.IntN(99)
		}
		strategy := fmt.Sprintf(`{rollingUpdate: {maxUnavailable: "%d%%", maxSurge: %d}}`, percent, 1+r.IntN(2))
		all = append(all, blocked{"deployments.apps dns", blockedRollout(replicas, strategy, podSpec, obstacle) + more})
	}
	return all
}

// quotas returns rollouts whose new pod exceeds a quota of different resources.
func quotas(strategy string) []blocked {
	var all []blocked
	for resource, amounts := range map[string][2]string{
		"pods": {"1", "3"}, "count/pods": {"1", "3"}, "requests.cpu": {"500m", "1500m"}, "limits.cpu": {"1", "3"},
		"requests.memory": {"1Gi", "3Gi"}, "limits.memory": {"2Gi", "6Gi"}, "requests.nvidia.com/gpu": {"1", "3"},
	} {
		all = append(all, blocked{"deployments.apps dns", quotaRolloutOf(resource, amounts[0], amounts[1], strategy)})
	}
	return all
}

// policies returns blockedPolicy with each of the changes, which are pairs of an old and a new text, for one of the resources.
func policies(resource string, changes ...[]string) []blocked {
	var all []blocked
	for _, c := range changes {
		all = append(all, blocked{resource, strings.NewReplacer(c...).Replace(blockedPolicy("{}"))})
	}
	return all
}

// deadlocks returns what never passes, or what looks like it and passes.
func deadlocks(never bool) map[string][]blocked {
	const (
		keeps    = `{rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}`
		ends     = `{rollingUpdate: {maxUnavailable: 1, maxSurge: 1}}`
		policy   = "deployments.apps policy"
		rules    = `rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`
		selector = "namespaceSelector: {}"
		demo     = "deployments.apps demo"
		claims   = "Multi-Attach error for volume"
	)
	same := strings.NewReplacer()
	surging := strings.NewReplacer("replicas: 1, updatedReplicas: 1}", "replicas: 2, updatedReplicas: 1, readyReplicas: 1}")
	kustomization, release := "kustomizations.kustomize.toolkit.fluxcd.io a", "helmreleases.helm.toolkit.fluxcd.io a"
	if never {
		return map[string][]blocked{
			"anti-affinity":                   rollouts(true, ownAntiAffinity, antiAffinity, ""),
			"anti-affinity by expression":     rollouts(true, strings.Replace(ownAntiAffinity, "matchLabels: {app: dns}", "matchExpressions: [{key: app, operator: In, values: [dns, other]}]", 1), antiAffinity, ""),
			"host port":                       rollouts(true, ownPort, noFreePort, ""),
			"host port of a second container": rollouts(true, strings.Replace(ownPort, "[{name: app,", "[{name: other}, {name: app,", 1), noFreePort, ""),
			"quota":                           quotas(keeps),
			"quota, by percent":               quotas(`{rollingUpdate: {maxUnavailable: "25%", maxSurge: "25%"}}`),
			"webhook": policies(policy, nil,
				[]string{rules, `rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]`},
				[]string{rules, `rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ["*/*"]}]`},
				[]string{rules, `rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}, {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services, pods]}]`},
				[]string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"},
				[]string{"  failurePolicy: Fail\n", ""},
				[]string{selector, "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}"},
				[]string{selector, "namespaceSelector: {matchExpressions: [{key: control-plane, operator: DoesNotExist}]}"},
				[]string{selector, "objectSelector: {matchLabels: {app: policy}}"},
				[]string{selector, "objectSelector: {matchExpressions: [{key: skip, operator: NotIn, values: [policy]}]}"},
			),
			"webhook, another app":  policies("deployments.apps web", nil, []string{"  failurePolicy: Fail\n", ""}),
			"webhook, its Service":  policies("services policy-svc", nil),
			"webhook, its own page": policies("validatingwebhookconfigurations.admissionregistration.k8s.io pol-shop", nil),
			"volume of an old pod": {
				{demo, volumeRollout(surging, same)},
				{demo, volumeRollout(surging, strings.NewReplacer(claims, "Waiting for detach for volume"))},
				{demo, volumeRollout(strings.NewReplacer("replicas: 1, updatedReplicas: 1}", "replicas: 2, updatedReplicas: 1, readyReplicas: 1}", "spec: {", "spec: {strategy: "+keeps+", "), same)},
				{demo, volumeRollout(strings.NewReplacer("replicas: 1, updatedReplicas: 1}", "replicas: 2, updatedReplicas: 1, readyReplicas: 1}", "spec: {", `spec: {strategy: {rollingUpdate: {maxUnavailable: "25%", maxSurge: "25%"}}, `), same)},
			},
			"a cycle of dependencies": {
				{kustomization, dependent("Kustomization", "shop", "a", "shop/b") + dependent("Kustomization", "shop", "b", "shop/a")},
				{kustomization, dependent("Kustomization", "shop", "a", "shop/b") + dependent("Kustomization", "shop", "b", "shop/c") + dependent("Kustomization", "shop", "c", "shop/a")},
				{kustomization, dependent("Kustomization", "shop", "a", "infra/b") + dependent("Kustomization", "infra", "b", "shop/a")},
				{release, dependent("HelmRelease", "shop", "a", "shop/b") + dependent("HelmRelease", "shop", "b", "shop/a")},
				{release, dependent("HelmRelease", "shop", "a", "shop/b") + dependent("HelmRelease", "shop", "b", "infra/c") + dependent("HelmRelease", "infra", "c", "shop/a")},
			},
		}
	}
	return map[string][]blocked{
		"old pods end first":         rollouts(false, ownAntiAffinity, antiAffinity, ""),
		"old pods end first, a port": rollouts(false, ownPort, noFreePort, ""),
		"a node is added":            rollouts(true, ownAntiAffinity, antiAffinity, scaleUp),
		"pods of others":             rollouts(true, ofOthers, antiAffinity, ""),
		"too little CPU":             rollouts(true, ownPort, "0/2 nodes are available: 2 Insufficient cpu.", ""),
		"quota, old pods end":        quotas(ends),
		"webhook of other objects": policies(policy,
			[]string{"resources: [pods]", "resources: [services]"}, []string{"operations: [CREATE]", "operations: [DELETE]"},
			[]string{"resources: [pods]", "resources: [pods/status, pods/exec]"}, []string{`apiGroups: [""]`, "apiGroups: [apps]"},
		),
		"webhook that may fail": policies(policy, []string{"failurePolicy: Fail", "failurePolicy: Ignore"},
			[]string{"failurePolicy: Fail", "failurePolicy: Ignore", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}),
		"webhook that excludes its pods": policies(policy,
			[]string{selector, "objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [policy]}]}"},
			[]string{selector, "objectSelector: {matchLabels: {app: web}}"},
			[]string{selector, "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]}"},
			[]string{selector, "namespaceSelector: {matchLabels: {policy: enforced}}"},
			[]string{selector, "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]}", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"},
		),
		"volume of a pod that ends": {
			{demo, volumeRollout(same, strings.NewReplacer(`name: demo-1-old, namespace: shop, uid: p1, creationTimestamp: "2026-03-01T07:00:00Z"`, `name: demo-1-old, namespace: shop, uid: p1, creationTimestamp: "2026-03-01T07:00:00Z", deletionTimestamp: "2026-03-01T09:00:10Z"`))},
			{demo, volumeRollout(strings.NewReplacer("spec: {", "spec: {strategy: {type: Recreate}, "), same)},
			{demo, volumeRollout(strings.NewReplacer("replicas: 1, updatedReplicas: 1}", "replicas: 2, updatedReplicas: 1, readyReplicas: 1}", "spec: {", "spec: {strategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}, "), same)},
			{demo, volumeRollout(surging, strings.NewReplacer("demo-1-old", "backup-x", "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: demo-1, uid: r, controller: true}]", "annotations: {}"))},
		},
		"dependencies without a cycle": {
			{kustomization, dependent("Kustomization", "shop", "a", "shop/b") + dependent("Kustomization", "shop", "b", "")},
			{kustomization, dependent("Kustomization", "shop", "a", "shop/b") + dependent("Kustomization", "shop", "b", "shop/c") + dependent("Kustomization", "shop", "c", "")},
			{kustomization, dependent("Kustomization", "shop", "a", "infra/a") + dependent("Kustomization", "infra", "a", "")},
			{release, dependent("HelmRelease", "shop", "a", "shop/b") + dependent("HelmRelease", "shop", "b", "")},
		},
	}
}

// Each situation is a deadlock, or one that looks like it and passes.
func TestDeadlocksAreToldFromWhatPasses(t *testing.T) {
	const fewest = 40 // of each
	for _, never := range []bool{true, false} {
		inputs := map[blocked]bool{}
		for name, all := range deadlocks(never) {
			for i, b := range all {
				inputs[b] = true
				kind, object, _ := strings.Cut(b.resource, " ")
				got := written(t, fakeCluster(t, b.objects).explains(t, kind, object))
				if deadlocked.MatchString(got) != never {
					t.Errorf("%s, %d: want a deadlock: %t\n%s\n%s", name, i, never, got, b.objects)
				}
			}
		}
		if len(inputs) < fewest {
			t.Errorf("a deadlock: %t: %d situations differ, want at least %d", never, len(inputs), fewest)
		}
	}
}
