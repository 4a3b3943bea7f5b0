package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/testing/node"
)

// messages are those that a receiver has accepted, of one alarm.
func (w *world) messages(t *testing.T, name string) []message.Message {
	t.Helper()
	var found []message.Message
	for _, r := range w.alarms.Accepted() {
		var m message.Message
		if err := json.Unmarshal(r.Body, &m); err != nil {
			t.Fatalf("the body of a message is no JSON: %v", err)
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

// sample applies a sample alarm as it is: it sends to the receiver "ops".
func (w *world) sample(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, string(text))
	w.await(t, "clusteralarm/"+name, "", condition("Ready"), "True")
}

// nodeJoins starts a second node, and has its kubelet die.
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
	w.joiner = w.AddNode(t, "joiner", nil, "--register-with-taints=e2e/empty=:NoSchedule")
	w.expectAlarm(t, "node-joined", And(
		HaveField("Title", "NodeReady: joiner joined e2e"),
		HaveField("Text", And(ContainSubstring("CPUs"), ContainSubstring("e2e has 2 nodes now"))),
	))
	w.joiner.KillKubelet()
}

// nodeDies waits until the controller manager finds that the kubelet is dead.
func (w *world) nodeDies(t *testing.T) {
	w.expectAlarm(t, "node-not-ready", regarding("joiner", HaveField("Note", ContainSubstring("NodeNotReady"))))
}

// regarding is a message of one Event, which regards an object of that name.
func regarding(name string, event types.GomegaMatcher) types.GomegaMatcher {
	return HaveField("Events", ContainElement(And(HaveField("Regarding.Name", name), event)))
}

// podsFail has pods fail for real, and demands that the true cause is told.
func (w *world) podsFail(t *testing.T) {
	w.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	pod := func(name, container string) {
		w.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers: [%s]
`, name, container))
	}
	pod("crash", fmt.Sprintf(`{name: app, image: %q, imagePullPolicy: Never, args: [crash]}`, node.ActorImage))
	pod("greedy", fmt.Sprintf(`{name: app, image: %q, imagePullPolicy: Never, args: [oom], resources: {limits: {memory: 48Mi}}}`, node.ActorImage))
	pod("typo", `{name: app, image: "127.0.0.1:1/nothing:v1"}`) // nobody listens there

	w.expectAlarm(t, "crash", regarding("crash", HaveField("Object.Cause", ContainSubstring("ended with exit code 3"))))
	w.expectAlarm(t, "crash", regarding("greedy", HaveField("Object.Cause",
		ContainSubstring("was killed because it used more memory than its limit of 48Mi"))))
	w.expectAlarm(t, "image-pull", regarding("typo", HaveField("Object.Cause", ContainSubstring("127.0.0.1:1/nothing:v1"))))
}
