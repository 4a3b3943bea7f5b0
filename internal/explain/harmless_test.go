package explain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// before is a time before the time of the tests.
func before(d time.Duration) string { return testNow.Add(-d).Format(time.RFC3339) }

// between returns a random duration in whole seconds.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64((most-least)/time.Second)+1))*time.Second
}

// runningWith is a Deployment whose rollout ended a while ago, with a pod that is left over.
func runningWith(ended time.Duration, leftOver string) string {
	pod := func(name, created, state string) string {
		return `
---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + `, creationTimestamp: "` + created + `", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: r, controller: true}]}
` + state
	}
	return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 2, creationTimestamp: "` + before(48*time.Hour) + `"}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, conditions: [{type: Progressing, status: "True", reason: NewReplicaSetAvailable, lastUpdateTime: "` + before(ended) + `", lastTransitionTime: "` + before(48*time.Hour) + `"}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {replicas: 1, readyReplicas: 1}` + pod("kept", before(47*time.Hour), `spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}], containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: "`+before(47*time.Hour)+`"}}}]}`) +
		pod("left-over", before(ended), leftOver)
}

// harmless are situations that look like a failure and are none.
var harmless = map[string]func(r *rand.Rand) string{
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
	"scaled to zero": func(r *rand.Rand) string {
		kind := []string{"Deployment", "StatefulSet", "ReplicaSet"}[r.IntN(3)]
		ending := ""
		if r.IntN(2) == 0 { // the last pod still ends
			ending = `
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, uid: p, creationTimestamp: "` + before(48*time.Hour) + `", deletionTimestamp: "` + before(between(r, -30*time.Second, 30*time.Second)) + `", labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ` + kind + `, name: web, uid: d, controller: true}]}
spec: {nodeName: node-1, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {running: {startedAt: "` + before(48*time.Hour) + `"}}}]}`
		}
		return `
apiVersion: apps/v1
kind: ` + kind + `
metadata: {name: web, namespace: shop, uid: d, generation: 1, creationTimestamp: "` + before(between(r, 0, 72*time.Hour)) + `"}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {maxReplicas: 3, scaleTargetRef: {kind: ` + kind + `, name: web, apiVersion: apps/v1}}
status: {currentReplicas: 0, desiredReplicas: 0, conditions: [{type: ScalingActive, status: "False", reason: ScalingDisabled, message: scaling is disabled since the replica count of the target is zero}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: ` + fmt.Sprint(1+r.IntN(3)) + `, selector: {matchLabels: {app: web}}}` + ending
	},
	"a Job that has finished": func(r *rand.Rand) string {
		begun := between(r, time.Minute, 48*time.Hour)
		ended, failed := before(between(r, 0, begun-time.Second)), r.IntN(3)
		pod := func(name, phase string, code int, reason string) string {
			return `
---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + `, creationTimestamp: "` + before(begun) + `", labels: {job: import}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: import, uid: j, controller: true}]}
spec: {nodeName: node-1, restartPolicy: Never, containers: [{name: app}]}
status: {phase: ` + phase + `, conditions: [{type: Ready, status: "False", reason: PodCompleted}], containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {terminated: {exitCode: ` + fmt.Sprint(code) + `, reason: ` + reason + `, startedAt: "` + before(begun) + `", finishedAt: "` + ended + `"}}}]}`
		}
		job := `
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: shop, uid: j, creationTimestamp: "` + before(begun) + `"}
spec: {selector: {matchLabels: {job: import}}, template: {spec: {containers: []}}}
status: {succeeded: 1, failed: ` + fmt.Sprint(failed) + `, startTime: "` + before(begun) + `", completionTime: "` + ended + `", conditions: [{type: SuccessCriteriaMet, status: "True", reason: CompletionsReached}, {type: Complete, status: "True", reason: CompletionsReached}]}` +
			pod("import-x", "Succeeded", 0, "Completed")
		for i := range failed { // it succeeded at a later attempt
			job += pod(fmt.Sprint("import-", i), "Failed", 1, "Error")
		}
		return job
	},
	"a pod that has finished": func(r *rand.Rand) string {
		begun := between(r, time.Minute, 48*time.Hour)
		return `
apiVersion: v1
kind: Pod
metadata: {name: once, namespace: shop, uid: p, creationTimestamp: "` + before(begun) + `"}
spec: {nodeName: node-1, restartPolicy: OnFailure, containers: [{name: app}]}
status: {phase: Succeeded, conditions: [{type: Ready, status: "False", reason: PodCompleted}], containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: ` + fmt.Sprint(r.IntN(4)) + `, state: {terminated: {exitCode: 0, reason: Completed, startedAt: "` + before(begun) + `", finishedAt: "` + before(between(r, 0, begun-time.Second)) + `"}}}]}`
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
	"pods that are left over": func(r *rand.Rand) string {
		reason := []string{"NodeShutdown", "Evicted", "UnexpectedAdmissionError", "NodeAffinity", "OutOfcpu", "Terminated"}[r.IntN(6)]
		return runningWith(between(r, 11*time.Minute, 48*time.Hour), `spec: {nodeName: node-2, containers: [{name: app}]}
status: {phase: Failed, reason: `+reason+`, message: it was ended}`)
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

// checkHarmless checks that the overview of a cluster is complete and has no problem, and that no object has a cause. Only a
// pod that has failed has one: another pod does its work.
func checkHarmless(t *testing.T, e *fakeExplainer, what, objects string, parsed []client.Object) (ok bool) {
	t.Helper()
	o, err := e.Overview(t.Context(), "")
	if err != nil || len(o.Problems) > 0 || o.Incomplete() != nil {
		t.Errorf("%s: %v, %v\n%s\n%s", what, err, o.Incomplete(), written(t, o), objects)
		return false
	}
	for _, object := range parsed {
		gvk, err := e.client.GroupVersionKindFor(object)
		if err != nil {
			t.Fatal(err)
		}
		if p, isPod := object.(*corev1.Pod); isPod && p.Status.Phase == corev1.PodFailed {
			continue
		}
		if resource, ok := resourceOf(e, gvk); ok && gvk.Kind != "Event" {
			x, err := e.Explain(t.Context(), resource, object.GetNamespace(), object.GetName())
			if err != nil {
				t.Fatal(err)
			}
			if x.Cause != nil && !onlyOnThePage(x) {
				t.Errorf("%s: %s %s:\n%s\n%s", what, gvk.Kind, object.GetName(), written(t, x), objects)
				return false
			}
		}
	}
	return true
}

func TestNothingHarmlessIsReported(t *testing.T) {
	const seeds, fewest = 8, 80 // for each situation, and of all that differ
	inputs := map[string]bool{}
	for name, situation := range harmless {
		for seed := range uint64(seeds) {
			objects := shopNamespace + situation(rand.New(rand.NewPCG(seed, 0)))
			inputs[objects] = true
			e := fakeCluster(t, objects)
			if !checkHarmless(t, e, fmt.Sprintf("%s, seed %d", name, seed), objects, parse(t, e.client.Scheme(), objects)) {
				break
			}
		}
	}
	if len(inputs) < fewest {
		t.Errorf("%d of the situations differ, want at least %d", len(inputs), fewest)
	}
}
