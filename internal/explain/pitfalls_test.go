package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const deletedAt = `, deletionTimestamp: "2026-03-01T08:50:00Z", finalizers: [example.com/cleanup]`

// The finalizer of a deleted object is its problem, and not what it no longer needs.
func TestADeletedServiceOrIngressWaitsForItsFinalizers(t *testing.T) {
	const waits = ` has a problem: it is being deleted; its finalizers are example.com/cleanup

Cause: FinalizersRemaining in KIND web (last 10m ago)
  the deletion waits until these finalizers are removed: example.com/cleanup
  Advice: check that the controller that removes them is running; remove them yourself only if it no longer exists`
	checkExplained(t, "services", "web", map[string]tc{
		"a Service without pods": {
			objects: strings.Replace(webService, "namespace: shop", "namespace: shop"+deletedAt, 1),
			want:    "Service shop/web" + strings.ReplaceAll(waits, "KIND", "Service"),
		},
	})
	checkExplained(t, "ingresses.networking.k8s.io", "web", map[string]tc{
		"an Ingress without its Service": {
			objects: ingressTo("web", "number: 80", deletedAt),
			want:    "Ingress shop/web" + strings.ReplaceAll(waits, "KIND", "Ingress"),
		},
	})
}

// ingressTo returns an Ingress with one backend.
func ingressTo(service, port, metadata string) string {
	return `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop` + metadata + `}
spec: {defaultBackend: {service: {name: ` + service + `, port: {` + port + `}}}}
---
`
}

const stoppedWeb = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
`

// stateOfPatroni is a Service in which Patroni keeps its state.
const stateOfPatroni = `
apiVersion: v1
kind: Service
metadata: {name: db-config, namespace: shop}
spec: {clusterIP: None}
---
`

// updatedOnDelete is a DaemonSet whose template was changed.
const updatedOnDelete = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop, generation: 2}
spec: {updateStrategy: {type: OnDelete}, selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}}}
status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, numberReady: 3, updatedNumberScheduled: 1}
---
`

func TestWhatIsMeantToBeSoIsNoProblem(t *testing.T) {
	checkExplained(t, "services", "db-config", map[string]tc{
		"a Service that only holds annotations": {objects: stateOfPatroni, want: "Service shop/db-config shows no problem: it has no selector and no ports"},
	})
	checkExplained(t, "daemonsets.apps", "agent", map[string]tc{
		"pods of an old template with OnDelete": {objects: updatedOnDelete, want: "DaemonSet shop/agent runs fine: 3 of 3 pods ready; 2 pods keep the old template until they are deleted"},
		"one pod":                               {objects: strings.Replace(updatedOnDelete, "NumberScheduled: 1", "NumberScheduled: 2", 1), want: "DaemonSet shop/agent runs fine: 3 of 3 pods ready; 1 pod keeps the old template until it is deleted"},
	})
	checkExplained(t, "ingresses.networking.k8s.io", "web", map[string]tc{
		"a backend that is an annotation": {objects: ingressTo("ssl-redirect", "name: use-annotation", ""), want: "Ingress shop/web shows no problem: no controller has given it an address"},
		"a backend that is stopped": {objects: ingressTo("web", "number: 80", "") + webService + "\n---\n" + stoppedWeb, want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: NoEndpoints in Service web
  Service "web" has no pods: Deployment web, whose pods it selects, is scaled to 0
  Advice: start the pods again, or remove the backend`},
	})
	e := fakeCluster(t, ingressTo("web", "number: 80", "")+webService+"\n---\n"+stoppedWeb+stateOfPatroni+updatedOnDelete)
	if lines := linesOfOverview(overviewOf(t, e, "shop")); len(lines) > 0 {
		t.Errorf("problems: %v", lines)
	}
}

func TestAnIngressShowsTheWarningOfItsController(t *testing.T) {
	const warning = `
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
involvedObject: {kind: Ingress, name: web, namespace: shop}
type: Warning
reason: FailedBuildModel
message: couldn't auto-discover subnets
lastTimestamp: "2026-03-01T08:55:00Z"
---
`
	checkExplained(t, "ingresses.networking.k8s.io", "web", map[string]tc{
		"recent": {objects: ingressTo("web", "number: 80", "") + warning + webService + "\n---\n" + readyPod, want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: FailedBuildModel in Ingress web (last 5m ago)
  its last Warning is: couldn't auto-discover subnets`},
		"old": {
			objects: ingressTo("web", "number: 80", "") + strings.Replace(warning, "08:55", "08:05", 1) + webService + "\n---\n" + readyPod,
			want: `
Ingress shop/web has a problem: no controller has given it an address

Cause: FailedBuildModel in Ingress web (last 55m ago)
  its last Warning is: couldn't auto-discover subnets`,
		},
	})
}

func TestTheFinalizerOfATypeIsNotToBeRemoved(t *testing.T) {
	const crd = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop, deletionTimestamp: "2026-03-01T08:50:00Z", finalizers: [customresourcecleanup.apiextensions.k8s.io]}`
	checkExplained(t, "widgets.example.com", "w", map[string]tc{"a type": {objects: crd, want: `
Widget shop/w has a problem: it is being deleted; its finalizers are customresourcecleanup.apiextensions.k8s.io

Cause: FinalizersRemaining in Widget w (last 10m ago)
  the deletion waits until these finalizers are removed: customresourcecleanup.apiextensions.k8s.io
  Advice: the API server first deletes all objects of this type: look at those that remain, and at their finalizers; without this finalizer, they would stay in the database for ever`}})
}

func TestACronJobThatNeverSucceedsHasAProblem(t *testing.T) {
	cronJob := func(status string) string {
		return `
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop, uid: c}
spec: {schedule: "@hourly", failedJobsHistoryLimit: 0, jobTemplate: {spec: {template: {spec: {containers: []}}}}}
status: {` + status + `}
---
`
	}
	const wrongZone = `
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: shop}
type: Warning
reason: UnknownTimeZone
message: 'invalid timeZone: "Mars": unknown time zone Mars'
lastTimestamp: "2026-03-01T08:55:00Z"
involvedObject: {apiVersion: batch/v1, kind: CronJob, name: report, uid: c}
---
`
	const fine = "CronJob shop/report runs fine: it has no Jobs; the schedule is @hourly"
	const failed = `
CronJob shop/report does not run as it should: it has no Jobs; the schedule is @hourly

Cause: Error in CronJob report (last 60m ago)
  its last Job has not succeeded, and no longer exists
  Advice: set failedJobsHistoryLimit to 1 or more, so that the next one that fails can be examined`
	checkExplained(t, "cronjobs.batch", "report", map[string]tc{
		"it has not run":         {objects: cronJob(""), want: fine},
		"its last Job succeeded": {objects: cronJob(`lastScheduleTime: "2026-03-01T08:00:00Z", lastSuccessfulTime: "2026-03-01T08:00:20Z"`), want: fine},
		"its last Job runs":      {objects: cronJob(`lastScheduleTime: "2026-03-01T08:00:00Z", active: [{name: report-1}]`), want: fine},
		"its last Job may have been deleted after its success": {
			objects: strings.Replace(cronJob(`lastScheduleTime: "2026-03-01T08:00:00Z"`), "jobTemplate: {spec: {", "jobTemplate: {spec: {ttlSecondsAfterFinished: 0, ", 1), want: fine,
		},
		"no Job ever succeeded": {objects: cronJob(`lastScheduleTime: "2026-03-01T08:00:00Z"`), want: failed},
		"its last Job did not":  {objects: cronJob(`lastScheduleTime: "2026-03-01T08:00:00Z", lastSuccessfulTime: "2026-03-01T07:00:20Z"`), want: failed},
		"its time zone is unknown": {objects: cronJob("") + wrongZone, want: `
CronJob shop/report does not run as it should: it has no Jobs; the schedule is @hourly

Cause: UnknownTimeZone in CronJob report (last 5m ago)
  the CronJob starts no Jobs: invalid timeZone: "Mars": unknown time zone Mars
  Advice: correct spec.timeZone`},
	})
}

func TestABudgetThatCannotWorkSaysWhy(t *testing.T) {
	const other = `
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all, namespace: shop}
spec: {selector: {}, minAvailable: 1}
---
`
	allows := budget("minAvailable: 1", "expectedPods: 2, currentHealthy: 2, desiredHealthy: 1, disruptionsAllowed: 1")
	checkExplained(t, "poddisruptionbudgets.policy", "web", map[string]tc{
		"pods without a controller": {objects: budget("maxUnavailable: 1", "expectedPods: 0, currentHealthy: 1, desiredHealthy: 0, disruptionsAllowed: 0"), want: `
PodDisruptionBudget shop/web has a problem: no pod may be evicted now; it selects 1 pod without a controller

Cause: UnmanagedPods in PodDisruptionBudget web
  it selects pods that no controller manages, so that the number of expected pods is unknown, and none may be evicted
  Advice: set minAvailable to a number, or create the pods with a Deployment or another controller`},
		"two budgets": {objects: allows + other + readyPod, want: `
PodDisruptionBudget shop/web has a problem: 1 pod may be evicted now; 2 of 2 pods healthy, and 1 must be

Cause: MultiplePodDisruptionBudgets in PodDisruptionBudget web
  PodDisruptionBudget "all" also selects pod "web-1", so that it cannot be evicted
  Advice: change their selectors so that one of them selects the pod`},
		"two budgets without a pod in common": {
			objects: allows + other,
			want:    "PodDisruptionBudget shop/web shows no problem: 1 pod may be evicted now; 2 of 2 pods healthy, and 1 must be",
		},
	})
}

func TestTheOverviewShowsAllThatKeepsANamespace(t *testing.T) {
	e := fakeCluster(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop, deletionTimestamp: "2026-03-01T08:00:00Z", finalizers: [example.com/cleanup]}
spec: {finalizers: [kubernetes]}
status:
  phase: Terminating
  conditions:
  - {type: NamespaceDeletionDiscoveryFailure, status: "True", reason: DiscoveryFailed, message: "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"}
  - {type: NamespaceFinalizersRemaining, status: "True", reason: SomeFinalizersRemain, message: "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances"}
`)
	want := []string{"DiscoveryFailed: Namespace/shop", "SomeFinalizersRemain: Namespace/shop"}
	if diff := cmp.Diff(want, linesOfOverview(overviewOf(t, e, "shop"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestADeploymentRunsOnceItsPodsAreAvailable(t *testing.T) {
	deployment := func(available string) string {
		return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d}
spec: {replicas: 1, minReadySeconds: 30, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
status: {replicas: 1, updatedReplicas: 1, readyReplicas: 1` + available + `}`
	}
	checkExplained(t, "deployments.apps", "web", map[string]tc{
		"not yet": {objects: deployment(""), want: "Deployment shop/web is not running yet, and no problem is known: 1 of 1 pod ready, but only 0 for minReadySeconds (30 s)"},
		"by now":  {objects: deployment(", availableReplicas: 1"), want: "Deployment shop/web runs fine: 1 of 1 pod ready"},
	})
}

func TestAFailedJobThatKeepsNoPodsSaysHowToKeepThem(t *testing.T) {
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: shop, uid: j}
spec: {selector: {matchLabels: {job: import}}, template: {spec: {restartPolicy: OnFailure, containers: []}}}
status: {failed: 1, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit, lastTransitionTime: "2026-03-01T08:55:00Z"}]}`
	checkExplained(t, "jobs.batch", "import", map[string]tc{"OnFailure": {objects: job, want: `
Job shop/import does not run as it should: 0 active, 0 succeeded, 1 failed; it gave up (BackoffLimitExceeded)

Cause: Error in Job import (last 5m ago)
  the Job has failed: Job has reached the specified backoff limit
  Advice: its pods and their logs no longer exist; set restartPolicy to Never, which keeps them, and create the Job again`}})
}
