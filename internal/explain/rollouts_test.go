package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pace is how long each pod of a rollout needs for its steps. The old pod ends. Then the new one does not exist yet, has no
// node, has no container, and is not ready.
type pace [5]time.Duration

func (p pace) sum() (sum time.Duration) {
	for _, d := range p {
		sum += d
	}
	return sum
}

var paces = map[string]pace{
	"quick": {30 * time.Second, 2 * time.Second, 2 * time.Second, 20 * time.Second, 36 * time.Second},
	"slow":  {70 * time.Second, 5 * time.Second, 5 * time.Second, 120 * time.Second, 100 * time.Second},
}

// rollout is a workload with three pods whose rollout began at the time of the tests. They are replaced one after
// the other.
type rollout struct {
	kind string
	pace pace
	// surges means that an old pod of a Deployment ends only after the new one is ready.
	surges bool
}

// The steps of a pod. The old one runs and ends. The new one has the steps between.
const (
	oldEnds = iota
	noPod
	newWaits
	newCreates
	newStarts
	newRuns
	oldRuns
)

// podStep is a pod at a step that began a time after the rollout.
type podStep struct {
	revision string
	step     int
	since    time.Duration
	created  time.Duration
}

// pods returns the old pod i, the new one, or both, a time after the rollout began.
func (r rollout) pods(i int, after time.Duration) (all []podStep) {
	ends := time.Duration(i) * r.pace.sum()
	begins := ends
	switch {
	case r.kind != "Deployment":
		begins += r.pace[oldEnds] + r.pace[noPod]
	case r.surges:
		ends += r.pace[newWaits] + r.pace[newCreates] + r.pace[newStarts]
	}
	switch {
	case after < ends:
		all = append(all, podStep{revision: "1", step: oldRuns, created: -47 * time.Hour})
	case after < ends+r.pace[oldEnds]:
		all = append(all, podStep{"1", oldEnds, ends, -47 * time.Hour})
	}
	if after < begins {
		return all
	}
	since := begins
	for step := newWaits; step <= newStarts; step++ {
		if after < since+r.pace[step] {
			return append(all, podStep{"2", step, since, begins})
		}
		since += r.pace[step]
	}
	return append(all, podStep{"2", newRuns, since, begins})
}

// at returns the objects a time after the rollout began. They change with the steps only.
func (r rollout) at(after time.Duration) string {
	const pods = 3
	var all strings.Builder
	ready, fresh, exist, last := 0, 0, 0, time.Duration(0)
	for i := range pods {
		for _, p := range r.pods(i, after) {
			all.WriteString(r.pod(i, p))
			last = max(last, p.since)
			if p.step == oldRuns || p.step == newRuns {
				ready++
			}
			if p.revision == "2" {
				fresh++
			}
			if p.step != oldEnds || r.kind != "Deployment" { // which does not count deleted pods
				exist++
			}
		}
	}
	const pod = "selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}"
	meta := `
apiVersion: apps/v1
kind: ` + r.kind + `
metadata:
  {name: web, namespace: shop, uid: w, generation: 2, creationTimestamp: "` + before(48*time.Hour) + `",
  managedFields: [{manager: kube-controller-manager, operation: Update, subresource: status, apiVersion: apps/v1, time: "` + before(-last) + `", fieldsType: FieldsV1, fieldsV1: {}}]}
`
	switch r.kind {
	case "StatefulSet":
		rest := "currentRevision: web-1, updateRevision: web-2"
		if fresh == pods && ready == pods {
			rest = "currentRevision: web-2, updateRevision: web-2"
		}
		return meta + fmt.Sprintf("spec: {replicas: %d, serviceName: web, %s}\nstatus: {observedGeneration: 2, replicas: %d, readyReplicas: %d, updatedReplicas: %d, %s}", pods, pod, exist, ready, fresh, rest) + all.String()
	case "DaemonSet":
		return meta + fmt.Sprintf("spec: {%s}\nstatus: {observedGeneration: 2, desiredNumberScheduled: %d, currentNumberScheduled: %d, numberReady: %d, numberAvailable: %[4]d, updatedNumberScheduled: %d, numberMisscheduled: 0}", pod, pods, exist, ready, fresh) + all.String()
	}
	set := func(revision string, n int) string {
		return fmt.Sprintf(`
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-%s, namespace: shop, uid: r%[1]s, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: w, controller: true}]}
spec: {replicas: %d, %s}
status: {replicas: %[2]d}`, revision, n, pod)
	}
	return meta + fmt.Sprintf(`spec: {replicas: %d, progressDeadlineSeconds: 600, %s}
status: {observedGeneration: 2, replicas: %d, readyReplicas: %d, updatedReplicas: %d, conditions: [{type: Progressing, status: "True", reason: ReplicaSetUpdated, lastUpdateTime: "%s", lastTransitionTime: "%s"}]}`,
		pods, pod, exist, ready, fresh, before(-last), before(48*time.Hour)) + set("1", exist-fresh) + set("2", fresh) + all.String()
}

// pod returns pod i at a step.
func (r rollout) pod(i int, p podStep) string {
	name, owner, uid := fmt.Sprintf("web-%d", i), r.kind, "w"
	if r.kind != "StatefulSet" {
		name = fmt.Sprintf("web-%s-%d", p.revision, i)
	}
	if r.kind == "Deployment" {
		owner, uid = "ReplicaSet", "r"+p.revision
	}
	created, since, deleted := before(-p.created), before(-p.since), ""
	if p.step == oldEnds {
		deleted = fmt.Sprintf(`, deletionTimestamp: "%s", deletionGracePeriodSeconds: %d`, before(-p.since-r.pace[oldEnds]), int(r.pace[oldEnds].Seconds()))
	}
	running := `, containerStatuses: [{name: app, image: a, imageID: "", ready: %t, restartCount: 0, state: {running: {startedAt: "` + since + `"}}}]`
	status := map[int]string{
		newWaits:   `phase: Pending`,
		newCreates: `phase: Pending, conditions: [{type: PodScheduled, status: "True"}, {type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: "` + created + `"}], containerStatuses: [{name: app, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]`,
		newStarts:  `phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: "` + created + `"}]` + fmt.Sprintf(running, false),
		oldEnds:    `phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: "` + since + `"}]` + fmt.Sprintf(running, false),
		oldRuns:    `phase: Running, conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}]` + fmt.Sprintf(running, true),
		newRuns:    `phase: Running, conditions: [{type: Ready, status: "True"}, {type: ContainersReady, status: "True"}]` + fmt.Sprintf(running, true),
	}[p.step]
	node := fmt.Sprintf("nodeName: node-%d, ", i)
	if p.step == newWaits {
		node = ""
	}
	return `
---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: shop, uid: ` + name + "-" + p.revision + `, creationTimestamp: "` + created + `"` + deleted + `, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ` + owner + `, name: web, uid: ` + uid + `, controller: true}]}
spec: {` + node + `containers: [{name: app}]}
status: {` + status + `}`
}

// Nothing is reported in any second of the first five minutes of a rollout.
func TestNoSecondOfARolloutIsReported(t *testing.T) {
	for name, p := range paces {
		for _, r := range []rollout{{"Deployment", p, false}, {"Deployment", p, true}, {"StatefulSet", p, false}, {"DaemonSet", p, false}} {
			objects := ""
			var e *fakeExplainer
			var parsed []client.Object
			for after := time.Duration(0); after < 5*time.Minute; after += time.Second {
				if now := shopNamespace + r.at(after); now != objects {
					e, objects = fakeCluster(t, now), now
					parsed = parse(t, e.client.Scheme(), now)
				}
				e.clock = clocktesting.NewFakePassiveClock(testNow.Add(after))
				if !checkHarmless(t, e, fmt.Sprintf("%s, %s, surges: %t, after %s", r.kind, name, r.surges, after), objects, parsed) {
					break
				}
			}
		}
	}
}
