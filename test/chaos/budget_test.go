package chaos

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// TestFailingReceiversDoNotFillTheDisk lets a tenant write the largest messages for the
// largest number of receivers that accept nothing, beside another alarm.
func TestFailingReceiversDoNotFillTheDisk(t *testing.T) {
	const limit, slack = 32 << 20, 20 << 20 // the WAL is cut to 16 MiB
	s := newFixture(t, cluster.Shared(t), "victim")
	victim := s.receivers[0]
	hostile := s.Namespace(t, nil)
	s.createFailingReceivers(hostile)
	for i := range 10 {
		s.create(alarmToFailingReceivers(hostile, fmt.Sprint("hostile-", i)))
	}
	m := newManager(s, "--outbox-max-bytes=32Mi", "--log-format=text", "--allowed-receiver-addresses", "127.0.0.0/8")
	m.startReady()

	var expected []string
	regarding := s.largePod(hostile)
	for i := range 90 {
		event := newEvent(hostile, fmt.Sprint("large-", i))
		event.Note, event.Regarding = strings.Repeat("<", 1024), regarding
		s.create(event)
		if i%3 == 0 {
			expected = append(expected, s.burst(1)...)
		}
	}
	s.awaitAll(victim, expected)
	s.awaitOverBudget(hostile, 10)
	expected = append(expected, s.burst(50)...)
	s.awaitAll(victim, expected)
	s.summarize(0, expected)
	s.assertOnce()
	used := size(t, m.dataDir)
	if used > limit+slack {
		t.Errorf("the data directory has %d bytes, want at most %d", used, limit+slack)
	}
	t.Attr("disk", fmt.Sprint(used))
}

// failingReceivers is the number of receivers that an Alarm can name.
const failingReceivers = 16

// createFailingReceivers creates AlarmReceivers that accept nothing.
func (s *fixture) createFailingReceivers(namespace string) {
	s.t.Helper()
	server := newReceiver(s.t, "failing")
	server.Always(sink.Status(http.StatusServiceUnavailable, "not now"))
	for i := range failingReceivers {
		s.create(&v1alpha1.AlarmReceiver{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("failing-", i)},
			Spec:       v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(server.URL())}}},
		})
	}
}

// alarmToFailingReceivers returns an Alarm of all Events with the longest text.
func alarmToFailingReceivers(namespace, name string) *v1alpha1.Alarm {
	a := &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	a.Spec.Match = []v1alpha1.EventMatch{{Reasons: []string{reason}}}
	a.Spec.Message = v1alpha1.AlarmMessage{Text: strings.Repeat("<", 3000)}
	for i := range failingReceivers {
		a.Spec.Receivers = append(a.Spec.Receivers, v1alpha1.ReceiverReference{Name: fmt.Sprint("failing-", i)})
	}
	return a
}

// largePod creates a Pod with as many annotations as messages show.
func (s *fixture) largePod(namespace string) corev1.ObjectReference {
	s.t.Helper()
	annotations := map[string]string{}
	for i := range 8 {
		annotations[fmt.Sprint("a", i)] = strings.Repeat("<", 1000)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "large", Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}) // no controller creates it
	s.create(pod)
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID}
}

// awaitOverBudget waits until n Alarms report that messages were dropped.
func (s *fixture) awaitOverBudget(namespace string, n int) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (int, error) {
		var alarms v1alpha1.AlarmList
		err := s.Client.List(s.t.Context(), &alarms, client.InNamespace(namespace))
		reported := 0
		for i := range alarms.Items {
			status := &alarms.Items[i].Status
			degraded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
			if status.Dropped > 0 && degraded != nil && degraded.Reason == v1alpha1.ReasonOverBudget {
				reported++
			}
		}
		return reported, err
	}).WithTimeout(patience).Should(gomega.Equal(n), "number of Alarms that are OverBudget")
}

// size returns the sum of the sizes of the files in a directory.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}
