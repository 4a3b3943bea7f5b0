package explain

import (
	"strings"
	"testing"
)

// replaced is a StatefulSet that has existed for weeks, and that has one pod less since a time.
func replaced(statusChanged, pods string) string {
	return shopNamespace + `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  namespace: shop
  uid: s
  generation: 2
  creationTimestamp: "2026-02-01T09:00:00Z"
  managedFields: [{manager: kube-controller-manager, operation: Update, subresource: status, apiVersion: apps/v1, time: "` + statusChanged + `", fieldsType: FieldsV1, fieldsV1: {}}]
spec: {replicas: 2, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}
status: {observedGeneration: 2, replicas: 2, readyReplicas: 1, currentRevision: db-1, updateRevision: db-2}
` + pods
}

const memberPod = `---
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop, uid: p0, labels: {app: db}, creationTimestamp: "2026-02-01T09:00:00Z",
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s, controller: true}]}
spec: {nodeName: node-1, restartPolicy: Always, containers: [{name: app}]}
status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-02-01T09:01:00Z"}],
  containerStatuses: [{name: app, image: a, imageID: "", ready: true, restartCount: 1, state: {running: {startedAt: "2026-02-20T09:00:00Z"}},
    lastState: {terminated: {exitCode: 1, reason: Error, startedAt: "2026-02-01T09:00:00Z", finishedAt: "2026-02-20T09:00:00Z"}}}]}
`

func TestAPodThatIsReplacedIsNotLate(t *testing.T) {
	ending := strings.NewReplacer("db-0", "db-1", "uid: p0", `uid: p1, deletionTimestamp: "2026-03-01T09:00:20Z", deletionGracePeriodSeconds: 30`).Replace(memberPod)
	for name, objects := range map[string]string{
		"it ends":          replaced("2026-03-01T08:00:00Z", memberPod+ending),
		"it has ended":     replaced("2026-03-01T08:59:40Z", memberPod),
		"a long shutdown":  replaced("2026-03-01T08:00:00Z", memberPod+strings.Replace(ending, "09:00:20", "09:30:00", 1)),
		"it ended at once": replaced("2026-03-01T08:59:59Z", ""),
	} {
		c := fakeCluster(t, objects)
		x := c.explains(t, "statefulsets.apps", "db")
		if x.State != Waiting || x.Cause != nil || x.LateAfter == nil || x.LastCrash != nil {
			t.Errorf("%s: %s, %+v, late after %v, last crash %+v", name, x.State, x.Cause, x.LateAfter, x.LastCrash)
		}
		if text := written(t, x); !strings.Contains(text, "\n  This is usual for ") {
			t.Errorf("%s: %s", name, text)
		}
		if o := overviewOf(t, c, "shop"); len(o.Problems) != 0 {
			t.Errorf("%s: %s", name, written(t, o))
		}
	}
}

func TestAPodThatIsNotReplacedIsLate(t *testing.T) {
	c := fakeCluster(t, replaced("2026-03-01T08:40:00Z", memberPod))
	for name, cause := range map[string]*Cause{"alone": c.explains(t, "statefulsets.apps", "db").Cause, "overview": overviewOf(t, c, "shop").Problems[0].Cause} {
		if cause == nil || cause.Reason != reasonNotReady || !strings.Contains(cause.Message, "for 20m") {
			t.Errorf("%s: %+v", name, cause)
		}
	}
}

// TestWhatNoControllerProcessesIsLate shows objects that no controller has processed for twenty minutes.
func TestWhatNoControllerProcessesIsLate(t *testing.T) {
	const changed = `managedFields: [{manager: kubectl, operation: Update, apiVersion: v1, time: "2026-03-01T08:40:00Z", fieldsType: FieldsV1, fieldsV1: {}}]`
	const stated = `managedFields: [{manager: widgets, operation: Update, subresource: status, apiVersion: example.com/v1, time: "2026-03-01T08:40:00Z", fieldsType: FieldsV1, fieldsV1: {}}]`
	for _, tc := range []struct{ resource, name, object string }{
		{"widgets.example.com", "pending", `
apiVersion: example.com/v1
kind: Widget
metadata: {name: pending, namespace: shop, uid: w, creationTimestamp: "2026-02-01T09:00:00Z", ` + stated + `}
status: {phase: Pending}`},
		{"widgets.example.com", "behind", `
apiVersion: example.com/v1
kind: Widget
metadata: {name: behind, namespace: shop, uid: w, generation: 3, creationTimestamp: "2026-02-01T09:00:00Z", ` + changed + `}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}`},
		{"horizontalpodautoscalers.autoscaling", "web", `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop, uid: h, creationTimestamp: "2026-03-01T08:40:00Z"}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}`},
		{"poddisruptionbudgets.policy", "web", `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop, uid: b, generation: 2, creationTimestamp: "2026-02-01T09:00:00Z", ` + changed + `}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
status: {observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2}`},
		{"jupyters.bongsu.io", "ana", `
apiVersion: bongsu.io/v1alpha1
kind: Jupyter
metadata: {name: ana, namespace: shop, uid: j, generation: 1, creationTimestamp: "2026-03-01T08:00:00Z", ` + stated + `}
spec: {image: "jupyter:1"}
status: {observedGeneration: 1, conditions: [{type: Ready, status: Unknown, reason: Starting, message: "", lastTransitionTime: "2026-03-01T08:40:00Z"}]}`},
	} {
		x := fakeCluster(t, shopNamespace+tc.object).explains(t, tc.resource, tc.name)
		if x.State != Failing || x.Cause == nil || x.Cause.Reason != reasonNotReady {
			t.Errorf("%s/%s: %s: %s: %+v", tc.resource, tc.name, x.State, x.Summary, x.Cause)
		}
	}
}

func TestAWaitShowsTheLastWarning(t *testing.T) {
	x := fakeCluster(t, replaced("2026-03-01T08:59:40Z", memberPod+`---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: shop}
type: Warning
reason: QuorumAtRisk
message: a second member must not leave
lastTimestamp: "2026-03-01T08:59:50Z"
involvedObject: {kind: Pod, name: db-0, uid: p0}
`)).explains(t, "statefulsets.apps", "db")
	if x.LateAfter == nil || !strings.HasSuffix(x.Summary, "; the last Warning is QuorumAtRisk: a second member must not leave") {
		t.Errorf("%s: %s", x.State, x.Summary)
	}
}

func TestAJobWithAFormerTemplate(t *testing.T) {
	const was = `{name: report, image: "report:2", args: [--daily], env: [{name: DAY, value: monday}], resources: {limits: {memory: 1Gi}}}`
	for change, want := range map[string]string{
		"report:2->report:3": "its image was",
		"--daily->--weekly":  `command or args of container "report" have changed since`,
		"monday->tuesday":    `variable DAY of container "report" has changed since`,
		"1Gi->2Gi":           `the limit of memory of container "report" has changed since`,
		"daily->daily":       "",
	} {
		from, to, _ := strings.Cut(change, "->")
		x := fakeCluster(t, shopNamespace+`
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop, uid: c}
spec: {schedule: "* * * * *", concurrencyPolicy: Forbid, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [`+strings.Replace(was, from, to, 1)+`]}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report-1, namespace: shop, uid: j, creationTimestamp: "2026-03-01T08:00:00Z", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: report, uid: c, controller: true}]}
spec: {selector: {matchLabels: {job-name: report-1}}, template: {metadata: {labels: {job-name: report-1}}, spec: {restartPolicy: Never, containers: [`+was+`]}}}
status: {active: 1, startTime: "2026-03-01T08:00:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: report-1-x, namespace: shop, uid: p, labels: {job-name: report-1}, creationTimestamp: "2026-03-01T08:00:00Z", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: report-1, uid: j, controller: true}]}
spec: {nodeName: node-1, restartPolicy: Never, containers: [`+was+`]}
status: {phase: Pending, containerStatuses: [{name: report, image: "report:2", imageID: "", state: {waiting: {reason: ImagePullBackOff, message: not found}}}]}
`).explains(t, "cronjobs.batch", "report")
		if x.Cause == nil || strings.Contains(x.Cause.Advice, "delete the Job") != (want != "") || !strings.Contains(x.Cause.Advice, want) || strings.Contains(x.Cause.Advice, "tuesday") {
			t.Errorf("%s: %+v", change, x.Cause)
		}
	}
}

func TestADrainThatDoesNotEndIsInTheOverview(t *testing.T) {
	for cordoned, want := range map[string]int{"2026-03-01T08:59:00Z": 0, "2026-03-01T08:40:00Z": 1} {
		c := fakeCluster(t, `
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule, timeAdded: "`+cordoned+`"}]}
status: {conditions: [{type: Ready, status: "True"}]}
---
`+shopNamespace+memberPod[4:]+`---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: shop, name: db}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}
`)
		if o := overviewOf(t, c, ""); len(o.Problems) != want {
			t.Errorf("cordoned at %s: %s", cordoned, written(t, o))
		}
		if x := c.explains(t, "nodes", "node-1"); x.Cause == nil {
			t.Errorf("cordoned at %s: no cause", cordoned)
		}
	}
}
