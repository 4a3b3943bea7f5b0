package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// changes are ConfigMaps. Each is changed once.
type changes struct {
	*fixture
	objects []*corev1.ConfigMap
	next    int
}

func newChanges(s *fixture, n int) *changes {
	c := &changes{fixture: s}
	s.AllowChanges(s.t, "bongsu-changes-configmaps")
	for i := range n {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprint("app-", i)}, Data: map[string]string{"version": "old"}}
		s.create(object)
		c.objects = append(c.objects, object)
	}
	var references []v1alpha1.ClusterReceiverReference
	for _, r := range s.receivers {
		references = append(references, v1alpha1.ClusterReceiverReference{Name: s.namespace + "-" + r.name})
	}
	s.create(&v1alpha1.ClusterAlarm{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-changes"},
		Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{Changes: []v1alpha1.ChangeMatch{{
				Resource: v1alpha1.ChangeResource{Resource: "configmaps"}, Fields: []string{"data.version"},
			}}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Receivers:         references,
		},
	})
	return c
}

func (c *changes) awaitReady() {
	c.t.Helper()
	c.ExpectReady(c.t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-changes"}})
}

// change changes the next n objects, and returns the notes of these changes.
func (c *changes) change(n int) (notes []string) {
	c.t.Helper()
	for range n {
		object := c.objects[c.next]
		value := fmt.Sprint("new-", c.next)
		object.Data["version"] = value
		if err := c.Client.Update(c.t.Context(), object, client.FieldOwner("chaos")); err != nil {
			c.t.Fatal(err)
		}
		notes = append(notes, "data.version: old -> "+value+" (by chaos)")
		c.next++
	}
	return notes
}

func TestKillsLoseNoChange(t *testing.T) {
	const perKill = 40
	s := newFixture(t, cluster.Shared(t), "hook")
	c := newChanges(s, kills*(perKill+10))
	m := newManager(s)
	m.startReady()
	c.awaitReady()
	var expected []string
	for range kills {
		expected = append(expected, c.change(perKill)...)
		m.kill()
		expected = append(expected, c.change(10)...) // while no operator runs
		m.start()
	}
	s.awaitAll(s.receivers[0], expected)
	s.summarize(len(m.killed), expected)
	s.assertOnce(m.killed...)
}

// The checkpoint is written every 5 seconds. Messages since then can be repeated.
func TestKillsWithDiskLossLoseNoChange(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook", "down")
	hook, down := s.receivers[0], s.receivers[1]
	c := newChanges(s, 400)
	m := newManager(s)
	m.startReady()
	c.awaitReady()
	down.Always(sink.Status(500, "down"))
	expected := c.change(50)
	s.awaitAll(hook, expected)
	for range 3 {
		time.Sleep(6 * time.Second) // longer than the interval of the checkpoint
		expected = append(expected, c.change(50)...)
		m.kill()
		m.loseDisk()
		expected = append(expected, c.change(20)...)
		m.start()
		s.awaitAll(hook, expected)
	}
	down.Always(sink.Accept())
	s.awaitAll(down, expected)
	s.summarize(len(m.killed), expected)
	gomega.NewWithT(t).Expect(len(hook.repetitions())).To(gomega.BeNumerically("<=", 3*50), "only the changes of the last seconds before each kill are repeated")
}
