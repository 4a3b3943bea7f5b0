package explain

import (
	"strings"
	"testing"
)

// reports is a CronJob whose last Job has ended well.
const reports = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop, uid: c}
spec: {schedule: "@hourly", jobTemplate: {spec: {template: {spec: {containers: []}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report-1, namespace: shop, uid: j, creationTimestamp: "2026-03-01T08:00:00Z", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: report, uid: c, controller: true}]}
spec: {selector: {matchLabels: {job: report-1}}, template: {spec: {containers: []}}}
status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}
---
`

// jobRefused is an Event of the CronJob with its last time.
func jobRefused(at string) string {
	return `
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: FailedCreate
message: 'Error creating job: jobs.batch "report-2" is forbidden: exceeded quota: team, requested: count/jobs.batch=1, used: count/jobs.batch=4, limited: count/jobs.batch=4'
lastTimestamp: "` + at + `"
involvedObject: {apiVersion: batch/v1, kind: CronJob, name: report, uid: c}
---
`
}

func TestACronJobThatCannotCreateItsJobNamesTheCause(t *testing.T) {
	const failing = `
CronJob shop/report does not run as it should: it cannot create its next Job; the last Job is report-1: 0 active, 1 succeeded, 0 failed

Cause: QuotaExceeded in CronJob report (last 5m ago)
  the Job cannot be created: ResourceQuota "team" is exceeded: count/jobs.batch: requested 1, used 4 of 4
  Advice: delete jobs.batch that you do not need, or ask for a larger quota`
	const completed = "CronJob shop/report has completed: the last Job is report-1: 0 active, 1 succeeded, 0 failed"
	checkExplained(t, "cronjobs.batch", "report", map[string]tc{
		"since the last Job":  {objects: reports + jobRefused("2026-03-01T08:55:00Z"), want: failing},
		"before the last Job": {objects: reports + jobRefused("2026-03-01T07:00:00Z"), want: completed},
		"Events not readable": {objects: reports + jobRefused("2026-03-01T08:55:00Z"), forbidden: []string{"Event"}, want: completed + "\n\ncould not read events: you may not list them"},
	})
}

func TestAJobThatGaveUpSaysSoBesideTheCauseOfItsPods(t *testing.T) {
	object := func(reason string) string {
		return `
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: shop, uid: j}
spec: {selector: {matchLabels: {job: import}}, template: {spec: {containers: []}}}
status: {failed: 1, conditions: [{type: Failed, status: "True", reason: ` + reason + `, message: Job has failed, lastTransitionTime: "2026-03-01T08:55:00Z"}]}
---
`
	}
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: import-x, namespace: shop, uid: p, labels: {job: import}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: import, uid: j, controller: true}]}
spec: {nodeName: node-1, restartPolicy: Never, containers: [{name: app}]}
status: {phase: Failed, containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {terminated: {reason: Error, exitCode: 3, finishedAt: "2026-03-01T08:54:00Z"}}}]}
`
	checkExplained(t, "jobs.batch", "import", map[string]tc{
		"with its pods": {objects: object("BackoffLimitExceeded") + pod, want: `
Job shop/import does not run as it should: 0 active, 0 succeeded, 1 failed; it gave up (BackoffLimitExceeded)

Cause: Error in Pod import-x, container app, exit code 3 (last 6m ago)
  container "app" ended with exit code 3
  Advice: check its log (kubectl logs -n shop import-x -c app)

The end of the log of Pod import-x, container app:
  | fake logs`},
		"without": {objects: object("DeadlineExceeded"), want: `
Job shop/import does not run as it should: 0 active, 0 succeeded, 1 failed; it gave up (DeadlineExceeded)

Cause: Error in Job import (last 5m ago)
  the Job has failed: Job has failed
  Advice: raise activeDeadlineSeconds, or reduce the work of the Job`},
	})
}

func TestASuspendedJobSaysWhatStartsIt(t *testing.T) {
	object := func(labels string) string {
		return `
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: shop, uid: j, labels: {` + labels + `}}
spec: {suspend: true, selector: {matchLabels: {job: import}}, template: {spec: {containers: []}}}
`
	}
	checkExplained(t, "jobs.batch", "import", map[string]tc{
		"its user": {objects: object(""), want: "Job shop/import is stopped: it is suspended; set spec.suspend to false to start it"},
		"Kueue": {objects: object("kueue.x-k8s.io/queue-name: batch"),
			want: `Job shop/import is stopped: it is suspended; it waits in queue "batch" of Kueue`},
	})
}

func TestAnInitContainerThatDoesNotEndShowsItsLog(t *testing.T) {
	checkExplained(t, "pods", "web", map[string]tc{"it runs": {objects: `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: p, creationTimestamp: "2026-03-01T05:00:00Z"}
spec: {nodeName: node-1, initContainers: [{name: prepare}], containers: [{name: app}]}
status:
  phase: Pending
  initContainerStatuses: [{name: prepare, image: a, imageID: "", ready: false, restartCount: 0, state: {running: {startedAt: "2026-03-01T06:00:00Z"}}}]
  containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: PodInitializing}}}]
`, want: `
Pod shop/web does not run as it should: 0 of 1 container ready

Cause: PodInitializing in Pod web, container prepare (for 3h)
  init container "prepare" has been running since 2026-03-01 06:00:00 UTC, and the other containers wait for its end
  Advice: check its log (kubectl logs -n shop web -c prepare)

The end of the log of Pod web, container prepare:
  | fake logs`}})
}

// paused is a Deployment whose rollout is paused. An old pod is ready.
func paused(status, annotations string) string {
	return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 2, annotations: {` + annotations + `}}
spec: {replicas: 1, paused: true, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 2, ` + status + `}
`
}

func TestAPausedDeploymentNamesItsPause(t *testing.T) {
	const revision = `deployment.kubernetes.io/revision: "1"`
	checkExplained(t, "deployments.apps", "web", map[string]tc{
		"with old pods": {objects: paused("replicas: 1, updatedReplicas: 0, readyReplicas: 1", revision), want: `
Deployment shop/web does not run as it should: 1 of 1 pod ready; the rollout has not ended: 0 pods updated, 1 old

Cause: DeploymentPaused in Deployment web
  the Deployment is paused, so its pods keep an older template
  Advice: run: kubectl rollout resume deployment/web -n shop`},
		"from the beginning": {objects: paused("", ""), want: `
Deployment shop/web does not run as it should: 0 of 1 pod ready

Cause: DeploymentPaused in Deployment web
  the Deployment is paused, so it creates no pods
  Advice: run: kubectl rollout resume deployment/web -n shop`},
		"pods not created": {objects: paused("", revision), want: "Deployment shop/web is not running yet, and no problem is known: 0 of 1 pod ready"},
		"up to date":       {objects: paused("replicas: 1, updatedReplicas: 1, readyReplicas: 1", revision), want: "Deployment shop/web runs fine: 1 of 1 pod ready"},
	})
}

func TestARolloutThatHangsCountsTheOldPods(t *testing.T) {
	object := func(kind, status string) string {
		return `
apiVersion: apps/v1
kind: ` + kind + `
metadata: {name: web, namespace: shop, uid: c, generation: 1}
spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {observedGeneration: 1, ` + status + `}`
	}
	checkExplained(t, "deployments.apps", "web", map[string]tc{
		"it hangs": {objects: object("Deployment", "replicas: 2, updatedReplicas: 1, readyReplicas: 1"),
			want: "Deployment shop/web is not running yet, and no problem is known: 1 of 1 pod ready; the rollout has not ended: 1 pod updated, 1 old"},
		"it has ended": {objects: object("Deployment", "replicas: 1, updatedReplicas: 1, readyReplicas: 0"),
			want: "Deployment shop/web is not running yet, and no problem is known: 0 of 1 pod ready"},
	})
	checkExplained(t, "daemonsets.apps", "web", map[string]tc{
		"it hangs": {objects: object("DaemonSet", "desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 1, numberReady: 3"),
			want: "DaemonSet shop/web is not running yet, and no problem is known: 3 of 3 pods ready; the rollout has not ended: 1 pod updated, 2 old"},
	})
	const rolling = "currentRevision: v1, updateRevision: v2, replicas: 1, readyReplicas: 1"
	partition := func(n string) string {
		return strings.Replace(object("StatefulSet", rolling), "spec: {", "spec: {updateStrategy: {rollingUpdate: {partition: "+n+"}}, ", 1)
	}
	const hangs = "StatefulSet shop/web is not running yet, and no problem is known: 1 of 1 pod ready; the rollout has not ended: 0 pods updated, 1 old"
	const runs = "StatefulSet shop/web runs fine: 1 of 1 pod ready"
	checkExplained(t, "statefulsets.apps", "web", map[string]tc{
		"it hangs":                        {objects: object("StatefulSet", rolling), want: hangs},
		"a partition leaves out no pod":   {objects: partition("0"), want: hangs},
		"a partition leaves the pods out": {objects: partition("1"), want: runs},
		"it has ended":                    {objects: object("StatefulSet", rolling+", updatedReplicas: 1"), want: runs},
	})
}

// A corrected template does not reach a pod that is not ready.
func TestAPodThatItsStatefulSetDoesNotReplaceIsToBeDeleted(t *testing.T) {
	const objects = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop, uid: c, generation: 3}
spec: {selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}
status: {observedGeneration: 3, currentRevision: db-1, updateRevision: db-3, replicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop, uid: p, labels: {app: db, controller-revision-hash: db-2}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: c, controller: true}]}
spec: {nodeName: node-1, containers: [{name: db, image: "example.org/Db"}]}
status: {phase: Pending, containerStatuses: [{name: db, image: "example.org/Db", imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: InvalidImageName, message: 'couldn''t parse image name'}}}]}
`
	checkExplained(t, "statefulsets.apps", "db", map[string]tc{"": {objects: objects, want: `
StatefulSet shop/db does not run as it should: 0 of 1 pod ready; the rollout has not ended: 0 pods updated, 1 old

Cause: InvalidImageName in Pod db-0, container db
  image "example.org/Db" of container "db" has an invalid name
  Advice: delete the pod (kubectl delete pod -n shop db-0): it has a former template, and its StatefulSet replaces it only once it is ready`}})
}

// ending is a pod whose deletion began an hour ago, on node "away".
func ending(name, owner, uid string) string {
	return `
---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: shop, uid: p, labels: {app: web}, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [x], ownerReferences: [{apiVersion: apps/v1, kind: ` + owner + `, name: web, uid: ` + uid + `, controller: true}]}
spec: {nodeName: away, containers: [{name: web}]}
`
}

func TestAControllerThatWaitsForADeletedPodNamesIt(t *testing.T) {
	object := func(kind, spec, status string) string {
		return `
apiVersion: apps/v1
kind: ` + kind + `
metadata: {name: web, namespace: shop, uid: c, generation: 1}
spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}, ` + spec + `}
status: {observedGeneration: 1, ` + status + `}`
	}
	const set = `
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: shop, uid: r, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: c, controller: true}]}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
`
	const late = `conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: x}]`
	cause := func(line, pod string) string {
		return line + `

Cause: FinalizersRemaining in Pod ` + pod + ` (last 60m ago)
  the deletion of the pod waits until these finalizers are removed: x
  Advice: check that the controller that removes them runs; remove them yourself only if it no longer exists`
	}
	checkExplained(t, "deployments.apps", "web", map[string]tc{
		"Recreate": {objects: object("Deployment", "strategy: {type: Recreate}", late) + set + ending("web-1", "ReplicaSet", "r"),
			want: cause("Deployment shop/web does not run as it should: 0 of 1 pod ready", "web-1")},
		"scaled to 0": {objects: object("Deployment", "replicas: 0", "") + set + ending("web-1", "ReplicaSet", "r"),
			want: cause("Deployment shop/web does not run as it should: it is scaled to 0 pods; pods that should have ended still exist", "web-1")},
		"a rolling update waits for none": {objects: object("Deployment", "", "") + set + ending("web-1", "ReplicaSet", "r"),
			want: "Deployment shop/web is not running yet, and no problem is known: 0 of 1 pod ready"},
	})
	checkExplained(t, "statefulsets.apps", "web", map[string]tc{
		"a StatefulSet": {objects: object("StatefulSet", "", "") + ending("web-0", "StatefulSet", "c"),
			want: cause("StatefulSet shop/web does not run as it should: 0 of 1 pod ready", "web-0")},
	})
	checkExplained(t, "daemonsets.apps", "web", map[string]tc{
		"a DaemonSet": {objects: object("DaemonSet", "", "desiredNumberScheduled: 1") + ending("web-x", "DaemonSet", "c"),
			want: cause("DaemonSet shop/web does not run as it should: 0 of 1 pod ready", "web-x")},
	})
}

func TestAClaimThatIsNotResizedNamesTheCause(t *testing.T) {
	claim := func(capacity, conditions string) string {
		return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c}
spec: {volumeName: pv-1, resources: {requests: {storage: 20Gi}}}
status: {phase: Bound, capacity: {storage: ` + capacity + `}, conditions: [` + conditions + `]}
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: VolumeResizeFailed
message: 'resize volume "pv-1" by resizer "csi.example.com" failed: rpc error: code = FailedPrecondition desc = the volume is published'
lastTimestamp: "2026-03-01T08:55:00Z"
involvedObject: {apiVersion: v1, kind: PersistentVolumeClaim, name: data, uid: `
	}
	checkExplained(t, "persistentvolumeclaims", "data", map[string]tc{
		"its resize fails": {objects: claim("10Gi", "") + "c}", want: `
PersistentVolumeClaim shop/data has a problem: it is bound to volume pv-1

Cause: VolumeResizeFailed in PersistentVolumeClaim data (last 5m ago)
  claim "data" cannot be resized from 10Gi to 20Gi: its storage driver resizes it only while no pod uses it
  Advice: stop the pods that mount it until it is resized`},
		"it has the size by now":         {objects: claim("20Gi", "") + "c}", want: "PersistentVolumeClaim shop/data shows no problem: it is bound to volume pv-1"},
		"the Event is of a former claim": {objects: claim("10Gi", "") + "b}", want: "PersistentVolumeClaim shop/data shows no problem: it is bound to volume pv-1, and is not yet resized from 10Gi to 20Gi"},
		"it waits for a pod": {objects: claim("10Gi", `{type: FileSystemResizePending, status: "True"}`) + "b}",
			want: "PersistentVolumeClaim shop/data shows no problem: it is bound to volume pv-1, and is resized from 10Gi to 20Gi when a pod mounts it: if one runs with it, restart that pod"},
	})
}
