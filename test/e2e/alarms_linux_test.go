package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/testing/node"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// messages returns the messages of an alarm that the receiver has accepted.
func (w *world) messages(t *testing.T, name string) []message.Message {
	t.Helper()
	var found []message.Message
	for _, r := range w.alarms.Accepted() {
		var m message.Message
		if err := json.Unmarshal(r.Body, &m); err != nil {
			t.Fatalf("the body of a message is not JSON: %v", err)
		}
		if m.Alarm.Name == name {
			found = append(found, m)
		}
	}
	return found
}

// expectAlarm waits for a message of an alarm.
func (w *world) expectAlarm(t *testing.T, name string, msg types.GomegaMatcher) {
	t.Helper()
	NewWithT(t).Eventually(func() []message.Message { return w.messages(t, name) }).Should(ContainElement(msg))
}

// sample applies a sample alarm unchanged. It uses the receiver "ops".
func (w *world) sample(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, string(text))
	w.await(t, "clusteralarm/"+filepath.Base(name), "", condition("Ready"), "True")
}

// nodeJoins adds a second node, and then kills its kubelet.
func (w *world) nodeJoins(t *testing.T) {
	w.apply(t, fmt.Sprintf(`
apiVersion: bongsu.io/v1alpha1
kind: ClusterAlarmReceiver
metadata: {name: ops}
spec:
  webhook: {url: %q}
`, w.alarms.URL()))
	for _, name := range []string{"node-joined", "node-not-ready", "crash", "image-pull"} {
		w.sample(t, name)
	}
	w.joiner = w.AddNodeWithoutPlugins(t, "joiner", "--register-with-taints=e2e/empty=:NoSchedule")
	w.expectAlarm(t, "node-joined", And(
		HaveField("Title", "NodeReady: joiner joined e2e"),
		HaveField("Text", And(ContainSubstring("CPUs"), ContainSubstring("e2e has 2 nodes now"))),
	))
	w.loseNode(t)
}

// loseNode runs two pods on the second node, kills its kubelet, and deletes the pods.
func (w *world) loseNode(t *testing.T) {
	w.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	onJoiner := "nodeName: joiner, tolerations: [{operator: Exists}], "
	w.pod(t, "offline", onJoiner, ofTestImage)
	w.pod(t, "stays", onJoiner+"hostNetwork: true, ", ofTestImage)
	w.await(t, "pod/stays", "shop", condition("Ready"), "True")
	w.expectCause(t, "offline", "FailedCreatePodSandBox", "the program of network plugin", "is missing on the node")
	w.joiner.KillKubelet()
	w.kubectl(t, "delete", "pod", "offline", "stays", "-n", "shop", "--wait=false")
}

// ofTestImage are the fields of a container with the test image.
const ofTestImage = `image: "` + node.TestImage + `", imagePullPolicy: Never`

// pod creates a pod in namespace shop. The fields of the spec end with a comma.
func (w *world) pod(t *testing.T, name, spec, container string) {
	t.Helper()
	w.apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop}, spec: {terminationGracePeriodSeconds: 1, %s containers: [{name: app, %s}]}}`,
		name, spec, container))
}

// expectCause waits until `bongsu explain` shows the cause of a pod in namespace shop.
func (w *world) expectCause(t *testing.T, pod, reason string, words ...string) {
	t.Helper()
	want := []types.GomegaMatcher{ContainSubstring("Cause: " + reason + " in Pod " + pod)}
	for _, word := range words {
		want = append(want, ContainSubstring(word))
	}
	NewWithT(t).Eventually(func() string {
		return w.bongsu(t, "explain", "pod/"+pod, "-n", "shop", "--kubeconfig", w.Kubeconfig())
	}).WithPolling(time.Second).Should(And(want...))
}

// nodeDies waits for the alarm that the second node is not ready, and for the cause of pods
// whose deletion does not end.
func (w *world) nodeDies(t *testing.T) {
	w.expectAlarm(t, "node-not-ready", regarding("joiner", HaveField("Note", ContainSubstring("NodeNotReady"))))
	w.expectCause(t, "stays", "NodeLost", `node "joiner"`, "does not respond")
	w.kubectl(t, "delete", "pod", "offline", "stays", "-n", "shop", "--force")
	w.expectCause(t, "kept", "FinalizersRemaining", "e2e.example.com/keep")
	w.kubectl(t, "patch", "pod", "kept", "-n", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// regarding matches a message with an Event that regards an object of this name.
func regarding(name string, event types.GomegaMatcher) types.GomegaMatcher {
	return HaveField("Events", ContainElement(And(HaveField("Regarding.Name", name), event)))
}

// podsFail creates pods that fail, and checks that the messages and the CLI show the cause.
func (w *world) podsFail(t *testing.T) {
	w.pod(t, "kept", "", ofTestImage)
	w.kubectl(t, "patch", "pod", "kept", "-n", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":["e2e.example.com/keep"]}}`)
	w.kubectl(t, "delete", "pod", "kept", "-n", "shop", "--wait=false")
	w.pod(t, "crash", "", ofTestImage+", args: [crash]")
	w.pod(t, "greedy", "", ofTestImage+", args: [oom], resources: {limits: {memory: 48Mi}}")
	w.pod(t, "greedy-pod", "resources: {limits: {memory: 48Mi}}, ", ofTestImage+", args: [oom]")
	w.pod(t, "typo", "", `image: "127.0.0.1:1/nothing:v1"`) // nothing listens there
	w.pod(t, "deaf", "", ofTestImage+", livenessProbe: {tcpSocket: {port: 1}, periodSeconds: 1, failureThreshold: 1}")
	w.apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: text, namespace: shop}, data: {run: no program}}")
	w.pod(t, "text", "volumes: [{name: text, configMap: {name: text, defaultMode: 0555}}], ",
		ofTestImage+", command: [/text/run], volumeMounts: [{name: text, mountPath: /text}]")

	w.expectAlarm(t, "crash", regarding("crash", HaveField("Object.Cause", ContainSubstring("ended with exit code 3"))))
	w.expectAlarm(t, "crash", regarding("greedy", HaveField("Object.Cause",
		ContainSubstring("was killed because it used more memory than its limit of 48Mi"))))
	w.expectAlarm(t, "image-pull", regarding("typo", HaveField("Object.Cause", ContainSubstring("127.0.0.1:1/nothing:v1"))))
	w.expectCause(t, "greedy-pod", "OOMKilled", "the pod used more memory than its limit of 48Mi", "spec.resources.limits.memory")
	w.expectCause(t, "deaf", "CrashLoopBackOff", "after its liveness probe failed (", "connection refused")
	w.expectCause(t, "text", "CrashLoopBackOff", "another CPU architecture")
}

// rolloutHangs rolls out an image that does not exist, and then corrects it. The message is
// resolved.
func (w *world) rolloutHangs(t *testing.T) {
	w.sample(t, "states/rollout-stuck")
	manifest := fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: oven, namespace: shop}
spec:
  progressDeadlineSeconds: 10
  selector: {matchLabels: {app: oven}}
  template:
    metadata: {labels: {app: oven}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: %q, imagePullPolicy: IfNotPresent}]
`, memcachedImage)
	w.apply(t, manifest)
	w.kubectl(t, "rollout", "status", "deployment/oven", "-n", "shop", "--timeout=3m")
	w.apply(t, strings.ReplaceAll(manifest, memcachedImage, "127.0.0.1:1/oven:v2")) // nothing listens there
	hangs := func(resolved bool) types.GomegaMatcher {
		return And(
			HaveField("Title", HaveSuffix("The rollout of shop/oven hangs")),
			HaveField("Group.Resolved", resolved), HaveField("Events", ContainElement(HaveField("Regarding.Name", "oven"))),
		)
	}
	w.expectAlarm(t, "rollout-stuck", hangs(false))
	NewWithT(t).Expect(w.messages(t, "rollout-stuck")).NotTo(ContainElement(hangs(true)))
	w.apply(t, manifest)
	w.expectAlarm(t, "rollout-stuck", hangs(true))
	w.kubectl(t, "delete", "deployment/oven", "-n", "shop")
}

// floodReason is the reason of all Events of a flood.
const floodReason = "Flood"

const floodManifests = `
{apiVersion: v1, kind: Namespace, metadata: {name: flood}}
---
apiVersion: bongsu.io/v1alpha1
kind: ClusterAlarmReceiver
metadata: {name: flood}
spec:
  webhook: {url: %q}
---
apiVersion: bongsu.io/v1alpha1
kind: ClusterAlarm
metadata: {name: flood}
spec:
  match: [{reasons: [Flood]}]
  receivers: [{name: flood}]
`

// evictLeader evicts the leader during a flood, as a drain does.
func (w *world) evictLeader(t *testing.T) {
	w.survive(t, func(t *testing.T) {
		leader := w.leader(t)
		err := w.client.SubResource("eviction").Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leader}}, &policyv1.Eviction{})
		if err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Eventually(func() string { return w.leader(t) }).ShouldNot(Or(Equal(leader), BeEmpty()))
	})
	w.kubectl(t, "rollout", "status", "deployment/bongsu", "-n", system, "--timeout=3m")
}

// upgrade changes the operator's image during a flood.
func (w *world) upgrade(t *testing.T) {
	w.survive(t, func(t *testing.T) {
		w.apply(t, w.bongsu(t, append([]string{"install"}, values(secondTag)...)...))
		w.kubectl(t, "rollout", "status", "deployment/bongsu", "-n", system, "--timeout=3m")
	})
	w.await(t, "pods", system, "{.items[*].spec.containers[*].image}",
		strings.Join([]string{operatorRepository + ":" + secondTag, operatorRepository + ":" + secondTag}, " "))
}

// leader returns the name of the pod that holds the lease.
func (w *world) leader(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(w.get(t, "lease/bongsu", system, "{.spec.holderIdentity}"), "_")
	return name
}

// survive checks that no Event is lost while disturb runs.
func (w *world) survive(t *testing.T, disturb func(*testing.T)) {
	t.Helper()
	received := sink.NewAt(t, node.Address)
	w.apply(t, fmt.Sprintf(floodManifests, received.URL()))
	w.await(t, "clusteralarm/flood", "", condition("Ready"), "True")
	done := make(chan struct{})
	flooded := make(chan []string)
	go func() { flooded <- w.flood(t, done) }()
	disturb(t)
	close(done)
	expected := <-flooded
	var report sink.Report
	err := progress.UntilNoneIsLeft(patience, func() int {
		report = received.Audit(expected, sink.ByEvent)
		return len(report.Lost)
	})
	if err != nil {
		t.Errorf("%d Events: %v, want none lost: %v", len(expected), report, err)
	}
	t.Logf("%d Events: %v", len(expected), report)
}

// flood creates Events until 200 more were created after done is closed. It returns the
// names by which receivers identify them.
func (w *world) flood(t *testing.T, done <-chan struct{}) (created []string) {
	const pause = 5 * time.Millisecond
	for left := 200; left > 0; time.Sleep(pause) {
		select {
		case <-done:
			left--
		default:
		}
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "flood", GenerateName: "flood-"},
			EventTime:  metav1.NowMicro(), ReportingController: "bongsu.io/e2e", ReportingInstance: "e2e",
			Type: corev1.EventTypeNormal, Reason: floodReason, Action: "Flood", Note: "one of many",
			Regarding: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: "flood", Name: fmt.Sprintf("%d-%d", time.Now().UnixNano(), len(created)),
			},
		}
		if err := w.client.Create(t.Context(), event); t.Context().Err() != nil {
			return created // the test is over
		} else if err != nil {
			t.Errorf("create an Event: %v", err)
			return created
		}
		created = append(created, fmt.Sprintf("flood/%s %s", event.Regarding.Name, floodReason))
	}
	return created
}
