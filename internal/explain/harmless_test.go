package explain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// before is a time before the time of the tests.
func before(d time.Duration) string { return testNow.Add(-d).Format(time.RFC3339) }

// between returns a random duration in whole seconds.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64((most-least)/time.Second)+1))*time.Second
}

// rolloutAt is a Deployment whose rollout began a while ago. It has an old pod that is ready, and a new one.
func rolloutAt(begun time.Duration, newPod string) string {
	pod := func(name, created, state string) string {
		return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + `, creationTimestamp: "` + created + `", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r, controller: true}]}
` + state + `
---`
	}
	return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 2, creationTimestamp: "` + before(48*time.Hour) + `"}
spec: {replicas: 1, progressDeadlineSeconds: 600, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, readyReplicas: 1, conditions: [{type: Progressing, status: "True", reason: ReplicaSetUpdated, lastUpdateTime: "` + before(begun) + `", lastTransitionTime: "` + before(48*time.Hour) + `"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {replicas: 1}
---` + pod("old", before(47*time.Hour), `spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}], containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "`+before(47*time.Hour)+`"}}}]}`) +
		pod("new", before(begun), newPod)
}

// harmless are situations that look like a failure and are none.
var harmless = map[string]func(r *rand.Rand) string{
	"a rollout that creates its pod": func(r *rand.Rand) string {
		return rolloutAt(between(r, 0, 5*time.Minute-time.Second), `spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Pending, containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]}`)
	},
	"a rollout whose pod is not ready yet": func(r *rand.Rand) string {
		begun := between(r, 10*time.Second, 5*time.Minute-time.Second)
		return rolloutAt(begun, `spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "False", lastTransitionTime: "`+before(begun)+`"}], containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {running: {startedAt: "`+before(begun-time.Second)+`"}}}]}`)
	},
	"a slow start": func(r *rand.Rand) string {
		failures := 6 + r.IntN(60)
		s := slowStart(before(between(r, 0, time.Duration(10*failures-1)*time.Second)))
		return strings.Replace(s, "failureThreshold: 60", fmt.Sprint("failureThreshold: ", failures), 1)
	},
	"a certificate that is renewed": func(r *rand.Rand) string {
		return `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: shop, namespace: shop, uid: c, creationTimestamp: "` + before(60*24*time.Hour) + `"}
spec: {secretName: shop}
status: {conditions: [{type: Ready, status: "True", reason: Ready}, {type: Issuing, status: "True", reason: Renewing, lastTransitionTime: "` + before(between(r, 0, time.Hour)) + `"}]}`
	},
	"scaled to zero": func(*rand.Rand) string {
		return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}`
	},
	"suspended": func(r *rand.Rand) string {
		return `
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: shop, uid: j, creationTimestamp: "` + before(between(r, 0, 48*time.Hour)) + `"}
spec: {suspend: true, selector: {matchLabels: {job: import}}, template: {spec: {containers: []}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop, uid: c}
spec: {schedule: "@hourly", suspend: true, jobTemplate: {spec: {template: {spec: {containers: []}}}}}`
	},
	"a Job of a CronJob that has just been created": func(r *rand.Rand) string {
		created := before(between(r, 0, time.Minute))
		return `
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop, uid: c, creationTimestamp: "` + before(48*time.Hour) + `"}
spec: {schedule: "@hourly", jobTemplate: {spec: {template: {spec: {containers: []}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report-1, namespace: shop, uid: j, creationTimestamp: "` + created + `", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: report, uid: c, controller: true}]}
spec: {selector: {matchLabels: {job: report-1}}, template: {spec: {containers: []}}}
status: {active: 1, startTime: "` + created + `"}`
	},
	"pods that are left over": func(*rand.Rand) string {
		return strings.Replace(rolloutAt(time.Hour, `spec: {nodeName: node-2, containers: [{name: app}]}
status: {phase: Failed, reason: NodeShutdown, message: Pod was terminated in response to imminent node shutdown.}`), "replicas: 2, updatedReplicas: 1, readyReplicas: 1", "replicas: 1, updatedReplicas: 1, readyReplicas: 1", 1)
	},
	"a node that joins": func(r *rand.Rand) string {
		return `
apiVersion: v1
kind: Node
metadata: {name: n-1, creationTimestamp: "` + before(between(r, 0, 3*time.Minute-time.Second)) + `"}
spec: {taints: [{key: node.cloudprovider.kubernetes.io/uninitialized, value: "true", effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}]}
status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady, message: container runtime network not ready}, {type: NetworkUnavailable, status: "True", reason: NoRouteCreated}]}`
	},
	"a load balancer that is new": func(r *rand.Rand) string {
		return `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, creationTimestamp: "` + before(between(r, 0, 5*time.Minute-time.Second)) + `"}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 80}]}
---
` + readyPod
	},
	"a claim that waits for its pod": func(r *rand.Rand) string {
		return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c, creationTimestamp: "` + before(between(r, 0, 48*time.Hour)) + `"}
status: {phase: Pending}`
	},
	"a Job that waits for quota": func(r *rand.Rand) string {
		return queuedJob(`{type: QuotaReserved, status: "False", reason: Pending, message: "insufficient unused quota", lastTransitionTime: "` + before(between(r, 0, 48*time.Hour)) + `"}`)
	},
}

func TestNothingHarmlessIsReported(t *testing.T) {
	const seeds = 8 // for each situation
	for name, situation := range harmless {
		for seed := range uint64(seeds) {
			objects := shopNamespace + situation(rand.New(rand.NewPCG(seed, 0)))
			o, err := fakeCluster(t, objects).Overview(t.Context(), "")
			if err != nil || len(o.Problems) > 0 {
				t.Errorf("%s, seed %d: %v\n%s\n%s", name, seed, err, written(t, o), objects)
				break
			}
		}
	}
}
