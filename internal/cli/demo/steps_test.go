package demo

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestEverySampleAlarmIsRaisedByOneStep(t *testing.T) {
	objects, err := samples.Alarms()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, o := range objects {
		if o.GetKind() == "Alarm" || o.GetKind() == "ClusterAlarm" {
			want = append(want, o.GetName())
		}
	}
	for _, s := range steps {
		got = append(got, s.raises...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alarms of the samples (-) and of the demo (+):\n%s", diff)
	}
}

// The terminal accepts every alarm, so each counts as delivered. Slack accepts none.
func TestARejectingSlackReceiverFailsTheDemo(t *testing.T) {
	c := cluster.Start(t)
	c.AllowChanges(t, "bongsu-changes-builtin")
	c.StartOperator(t)
	slack := sink.New(t)
	slack.Always(sink.Status(403, "action_prohibited"))
	var out cluster.Buffer
	d, err := newDemo(c, Config{Out: &out, SlackWebhookURL: slack.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	createContainer(t, c)
	missing, err := d.seen.await(t.Context(), []string{"container-created"})
	if err != nil || len(missing) > 0 {
		t.Fatalf("not seen: %v; %v", missing, err)
	}

	d.seen.timeout = time.Millisecond
	NewWithT(t).Eventually(func() error {
		err = d.conclude(t.Context(), missing)
		return err
	}).Should(MatchError(And(ContainSubstring("ClusterAlarmReceiver slack: "), ContainSubstring("403"))))
	failure, ok := errors.AsType[*MissingError](err)
	if !ok || len(failure.Receivers) != 1 {
		t.Errorf("got %v, want only Slack with status 403", failure)
	}
	if strings.Contains(out.String(), "Every kind of alarm was seen") {
		t.Errorf("the demo reports success:\n%s", out.String())
	}
}

// createContainer creates the Event of a created container, like a kubelet.
func createContainer(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "created"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: metav1.NamespaceDefault, Name: "web-0"},
		Type:           corev1.EventTypeNormal, Reason: "Created", Message: "Created container", Count: 1,
	}
	if err := c.Client.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}
