package samples_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// That each alarm fires is tried by internal/cli/demo, where pods come and go.
func TestSampleAlarmsAreInForceAsTheyAre(t *testing.T) {
	c, _ := cluster.SharedOperator(t)
	objects, err := samples.Alarms()
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	log, err := samples.ReceiverOf("log")
	g.Expect(err).NotTo(HaveOccurred())
	apply(t, c, append(log, objects...))

	for _, o := range objects {
		key := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}
		switch o.GetKind() {
		case "Alarm":
			c.ExpectReady(t, &v1alpha1.Alarm{ObjectMeta: key})
		case "ClusterAlarm":
			c.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: key})
		}
	}
}

func TestEachSampleReceiverDelivers(t *testing.T) {
	c, operator := cluster.SharedOperator(t)
	alarm := cluster.Manifest(t, "ClusterAlarm", "", "all", "match: [{reasons: [Tried]}]\nreceivers: [{name: "+samples.Receiver+"}]")
	apply(t, c, []*unstructured.Unstructured{alarm})
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), alarm) })
	server := sink.New(t)

	for name, received := range map[string]func() string{
		"log":          operator.Out.String,
		"slack":        func() string { return bodies(server) },
		"teams":        func() string { return bodies(server) },
		"discord":      func() string { return bodies(server) },
		"telegram":     func() string { return bodies(server) },
		"pagerduty":    func() string { return bodies(server) },
		"alertmanager": func() string { return bodies(server) },
		"webhook":      func() string { return bodies(server) },
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := samples.ReceiverOf(name)
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			_ = c.Client.Delete(t.Context(), cluster.Manifest(t, "ClusterAlarmReceiver", "", samples.Receiver, ""))
			apply(t, c, redirect(t, objects, server.URL()))
			c.ExpectReady(t, &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: samples.Receiver}})
			c.ExpectReady(t, &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: "all"}})
			happen(t, c, name)
			g.Eventually(received).WithTimeout(time.Minute).Should(ContainSubstring("tried " + name))
		})
	}
}

func apply(t *testing.T, c *cluster.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	if err := install.Apply(t.Context(), c.Client, objects...); err != nil {
		t.Fatal(err)
	}
}

// That they deliver is tried by their packages, on a mail server and on a stand-in for
// Slack's API.
func TestTheSamplesOfEmailAndOfABotAreReady(t *testing.T) {
	c, _ := cluster.SharedOperator(t)
	for _, name := range []string{"email", "slack-bot"} {
		objects, err := samples.ReceiverOf(name)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_ = c.Client.Delete(t.Context(), cluster.Manifest(t, "ClusterAlarmReceiver", "", samples.Receiver, ""))
		apply(t, c, objects)
		c.ExpectReady(t, &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: samples.Receiver}})
	}
}

// redirect changes only what the reader is told to change: the URL, or where a
// vendor's API is.
func redirect(t *testing.T, objects []*unstructured.Unstructured, url string) []*unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		for _, path := range [][]string{{"spec", "webhook", "url"}, {"spec", "alertmanager", "url"}, {"stringData", "url"}} {
			if _, found, _ := unstructured.NestedString(o.Object, path...); found {
				set(t, o, url, path...)
			}
		}
		for _, sink := range []string{"telegram", "pagerDuty"} {
			if _, found, _ := unstructured.NestedMap(o.Object, "spec", sink); found {
				set(t, o, url, "spec", sink, "apiURL")
			}
		}
	}
	return objects
}

func set(t *testing.T, o *unstructured.Unstructured, value string, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func happen(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tried-" + name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: metav1.NamespaceDefault, Name: "web-0"},
		Type:           corev1.EventTypeNormal, Reason: "Tried", Message: "tried " + name, Count: 1,
	}
	if err := c.Client.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}

func bodies(s *sink.Sink) string {
	var all string
	for _, r := range s.Accepted() {
		all += string(r.Body)
	}
	return all
}
