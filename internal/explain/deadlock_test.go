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

// quotaRollout is a rollout whose new pod exceeds a quota.
func quotaRollout(strategy string) string {
	return strings.Replace(blockedRollout(2, strategy, noPort, "x"), "readyReplicas: 2}", `readyReplicas: 2, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, lastTransitionTime: "2026-03-01T08:55:00Z", message: 'pods "dns-2-x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3'}]}`, 1) + `
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: FailedCreate
message: 'Error creating: pods "dns-2-y" is forbidden: exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3'
lastTimestamp: "2026-03-01T08:59:00Z"
involvedObject: {apiVersion: apps/v1, kind: ReplicaSet, name: dns-2, namespace: shop, uid: r}
`
}

// deadlocked says that waiting never helps.
var deadlocked = regexp.MustCompile(`this is a deadlock|ends none before a new pod is ready`)

// Each situation is a deadlock, or one that looks like it and passes.
func TestDeadlocksAreToldFromWhatPasses(t *testing.T) {
	percent := func(r *rand.Rand, replicas int, keeps bool) string {
		for {
			p := 1 + r.IntN(99)
			if (replicas*p/100 == 0) == keeps {
				return fmt.Sprintf(`{rollingUpdate: {maxUnavailable: "%d%%", maxSurge: 1}}`, p)
			}
		}
	}
	webhook := func(from, to string) string {
		return strings.Replace(blockedPolicy("{}"), from, to, 1)
	}
	const rules = "rules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]"
	type situation func(r *rand.Rand) (objects, resource string)
	rollout := func(f func(r *rand.Rand, replicas int) string) situation {
		return func(r *rand.Rand) (string, string) { return f(r, 2+r.IntN(5)), "deployments.apps dns" }
	}
	of := func(resource string, objects ...string) situation {
		return func(r *rand.Rand) (string, string) { return objects[r.IntN(len(objects))], resource }
	}
	situations := map[bool]map[string]situation{
		true: {
			"anti-affinity": rollout(func(r *rand.Rand, n int) string {
				return blockedRollout(n, percent(r, n, true), ownAntiAffinity, antiAffinity)
			}),
			"host port":             rollout(func(r *rand.Rand, n int) string { return blockedRollout(n, percent(r, n, true), ownPort, noFreePort) }),
			"quota":                 of("deployments.apps dns", quotaRollout("{rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}"), quotaRollout(`{rollingUpdate: {maxUnavailable: "25%", maxSurge: "25%"}}`)),
			"webhook of all pods":   of("deployments.apps policy", webhook("", ""), webhook(rules, `rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]`)),
			"webhook, another app":  of("deployments.apps web", webhook("", "")),
			"webhook, its own page": of("validatingwebhookconfigurations.admissionregistration.k8s.io pol-shop", webhook("", "")),
		},
		false: {
			"old pods end first": rollout(func(r *rand.Rand, n int) string {
				return blockedRollout(n, percent(r, n, false), ownAntiAffinity, antiAffinity)
			}),
			"a node is added": rollout(func(r *rand.Rand, n int) string {
				return blockedRollout(n, percent(r, n, true), ownAntiAffinity, antiAffinity) + scaleUp
			}),
			"pods of others": rollout(func(r *rand.Rand, n int) string {
				return blockedRollout(n, percent(r, n, true), ofOthers, antiAffinity)
			}),
			"too little CPU": rollout(func(r *rand.Rand, n int) string {
				return blockedRollout(n, percent(r, n, true), ownPort, "0/2 nodes are available: 2 Insufficient cpu.")
			}),
			"quota, old pods end":      of("deployments.apps dns", quotaRollout("{rollingUpdate: {maxUnavailable: 1, maxSurge: 1}}")),
			"webhook of other objects": of("deployments.apps policy", webhook("resources: [pods]", "resources: [services]"), webhook("operations: [CREATE]", "operations: [DELETE]")),
			"webhook that may fail":    of("deployments.apps policy", webhook("failurePolicy: Fail", "failurePolicy: Ignore")),
			"webhook that excludes itself": of("deployments.apps policy", webhook("namespaceSelector: {}", "objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [policy]}]}"),
				blockedPolicy("{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [shop]}]}")),
		},
	}
	const seeds = 6 // for each situation
	for want, all := range situations {
		for name, s := range all {
			for seed := range uint64(seeds) {
				objects, resource := s(rand.New(rand.NewPCG(seed, 0)))
				kind, object, _ := strings.Cut(resource, " ")
				got := written(t, fakeCluster(t, objects).explains(t, kind, object))
				if deadlocked.MatchString(got) != want {
					t.Errorf("%s, seed %d: want a deadlock: %t\n%s\n%s", name, seed, want, got, objects)
					break
				}
			}
		}
	}
}
