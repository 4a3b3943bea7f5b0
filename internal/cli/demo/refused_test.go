package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// The terminal gets every alarm, so that each counts as seen; Slack gets none.
func TestSlackThatRefusesEverythingIsAFailureOfTheDemo(t *testing.T) {
	c := cluster.Start(t)
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

	d.seen.patience = time.Millisecond
	NewWithT(t).Eventually(func() error {
		err = d.conclude(t.Context(), missing)
		return err
	}).Should(MatchError(And(ContainSubstring("ClusterAlarmReceiver slack: "), ContainSubstring("403"))))
	failure, ok := errors.AsType[*MissingError](err)
	if !ok || len(failure.Receivers) != 1 {
		t.Errorf("got %v, want that Slack alone answered 403", failure)
	}
	if strings.Contains(out.String(), "Every kind of alarm was seen") {
		t.Errorf("all is said to be well:\n%s", out.String())
	}
}

// createContainer tells of a container as a kubelet would.
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
