package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// stateObjects are ConfigMaps in a good state, and an alarm on the bad ones.
type stateObjects struct {
	*fixture
	objects []*corev1.ConfigMap
}

const stateSeconds = 5

func newStateObjects(s *fixture, n int) *stateObjects {
	o := &stateObjects{fixture: s}
	s.AllowChanges(s.t, "bongsu-changes-configmaps")
	for i := range n {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprint("app-", i)}, Data: map[string]string{"phase": "Good"}}
		s.create(object)
		o.objects = append(o.objects, object)
	}
	var references []v1alpha1.ClusterReceiverReference
	for _, r := range s.receivers {
		references = append(references, v1alpha1.ClusterReceiverReference{Name: s.namespace + "-" + r.name})
	}
	s.create(&v1alpha1.ClusterAlarm{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-states"},
		Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{States: []v1alpha1.StateMatch{{
				Resource: v1alpha1.ChangeResource{Resource: "configmaps"}, Expression: `object.data.phase == "Bad"`, ForSeconds: stateSeconds,
			}}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Receivers:         references,
		},
	})
	return o
}

// set sets the phase of some objects.
func (o *stateObjects) set(from, to int, phase string) {
	o.t.Helper()
	for _, object := range o.objects[from:to] {
		object.Data["phase"] = phase
		if err := o.Client.Update(o.t.Context(), object); err != nil {
			o.t.Fatal(err)
		}
	}
}

// got returns how many messages about each object a receiver accepted: begins, or ends.
func (o *stateObjects) got(r *receiver, ends bool) map[string]int {
	got := map[string]int{}
	for _, request := range r.Requests() {
		for _, m := range sink.Messages(request) {
			if request.Accepted && m.Group != nil && m.Group.Resolved == ends && len(m.Events) > 0 {
				got[m.Events[len(m.Events)-1].Regarding.Name]++
			}
		}
	}
	return got
}

// await waits until there is a message about each of the first n objects.
func (o *stateObjects) await(r *receiver, n int, ends bool) {
	o.t.Helper()
	gomega.NewWithT(o.t).Eventually(func() int { return len(o.got(r, ends)) }).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(gomega.Equal(n))
}

// atMost fails if more messages were repeated.
func (o *stateObjects) atMost(r *receiver, repeated int) {
	o.t.Helper()
	for _, ends := range []bool{false, true} {
		again := 0
		for _, n := range o.got(r, ends) {
			again += n - 1
		}
		if again > repeated {
			o.t.Errorf("%d messages were repeated, ends: %v", again, ends)
		}
	}
}

func TestKillsNeitherLoseNorRepeatStates(t *testing.T) {
	const perKill, kills = 5, 3
	s := newFixture(t, cluster.Shared(t), "hook")
	o := newStateObjects(s, perKill*(kills+1))
	m := newManager(s)
	m.startReady()
	o.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-states"}})
	for i := range kills {
		o.set(i*perKill, (i+1)*perKill, "Bad")
		m.kill() // most states are pending, and some reports are on their way
		m.start()
		o.await(s.receivers[0], (i+1)*perKill, false)
	}
	m.kill()
	o.set(0, perKill, "Good") // while no operator runs
	m.start()
	o.await(s.receivers[0], perKill, true)
	o.atMost(s.receivers[0], len(m.killed))
}

func TestKillsWithDiskLossRepeatNoReportedState(t *testing.T) {
	const n = 10
	s := newFixture(t, cluster.Shared(t), "hook")
	o := newStateObjects(s, n)
	m := newManager(s)
	m.startReady()
	o.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-states"}})
	o.set(0, n, "Bad")
	o.await(s.receivers[0], n, false)
	time.Sleep(6 * time.Second) // longer than the interval of the checkpoint
	m.kill()
	m.loseDisk()
	o.set(0, n/2, "Good")
	m.start()
	o.await(s.receivers[0], n/2, true)
	o.atMost(s.receivers[0], 0)
}
