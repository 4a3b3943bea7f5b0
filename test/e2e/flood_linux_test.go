package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/testing/node"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// floodReason is that of all Events of floods.
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

// evictLeader has a drain take the replica that is at work, while Events come.
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

// upgrade rolls the operator over to another image, while Events come.
func (w *world) upgrade(t *testing.T) {
	w.survive(t, func(t *testing.T) {
		w.apply(t, w.bongsu(t, append([]string{"install"}, values(secondTag)...)...))
		w.kubectl(t, "rollout", "status", "deployment/bongsu", "-n", system, "--timeout=3m")
	})
	w.await(t, "pods", system, "{.items[*].spec.containers[*].image}",
		strings.Join([]string{operatorRepository + ":" + secondTag, operatorRepository + ":" + secondTag}, " "))
}

// leader is the pod that has the lease.
func (w *world) leader(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(w.get(t, "lease/bongsu", system, "{.spec.holderIdentity}"), "_")
	return name
}

// survive demands that no Event is lost while something happens to the operator.
func (w *world) survive(t *testing.T, disturb func(*testing.T)) {
	t.Helper()
	received := sink.NewAt(t, node.Address)
	w.apply(t, fmt.Sprintf(floodManifests, received.URL()))
	w.await(t, "clusteralarm/flood", "", condition("Ready"), "True")
	done := make(chan struct{})
	poured := make(chan []string)
	go func() { poured <- w.pour(t, done) }()
	disturb(t)
	close(done)
	expected := <-poured
	var report sink.Report
	err := progress.UntilNoneIsLeft(patience, func() int {
		report = received.Audit(expected, sink.ByEvent)
		return len(report.Lost)
	})
	if err != nil {
		t.Errorf("of %d Events: %v: %v", len(expected), report, err)
	}
	t.Logf("of %d Events: %v", len(expected), report)
}

// pour creates Events, some hundred before and after something is done, and returns
// what receivers call them.
func (w *world) pour(t *testing.T, done <-chan struct{}) (created []string) {
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
