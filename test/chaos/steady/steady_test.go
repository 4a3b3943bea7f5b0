// Package steady tests that the operator sends no requests to a settled cluster. It is a
// separate package so that its waiting time runs in parallel with other tests.
package steady

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const (
	// window is the time without requests. The test needs real time.
	window = 60 * time.Second
	// settled is the time without requests before the window starts.
	settled = 10 * time.Second
	// calm is the time limit for that. The machine may be busy.
	calm = 2 * time.Minute
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestTheOperatorSendsNoRequestsToASettledCluster(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	good, parked := sink.New(t), sink.New(t)
	parked.Always(sink.Status(404, "gone"))
	populate(t, c, good.URL(), parked.URL())
	share(t, c)
	c.StartOperator(t, func(o *options.Options) { o.LeaderElect = true })
	happen(t, c)
	g := gomega.NewWithT(t)
	g.Eventually(good.Accepted).ShouldNot(gomega.BeEmpty())
	g.Eventually(parked.Requests).ShouldNot(gomega.BeEmpty())
	awaitShares(t, c)

	t.Attr("summary", fmt.Sprintf("%d requests in %v", watchIdle(t, c), window))
	writes := 0
	for _, r := range audit.Requests(t, c.AuditLog(), audit.Operator) {
		if isPause(r) {
			writes++
		}
	}
	if attempts := len(parked.Requests()); writes > attempts+2 { // and when it was configured
		t.Errorf("%d writes of the status of a failing receiver for %d attempts", writes, attempts)
	}
}

// isPause reports whether a request writes the status of the receiver that always fails. It
// shows when the next attempt is, and changes with each attempt.
func isPause(r audit.Request) bool {
	return r.Verb == "update" && r.Resource == "clusteralarmreceivers" && r.Subresource == "status" && r.Name == "parked"
}

// watchIdle waits until the operator is idle. It then fails for each request of the operator
// within the window, and returns their number.
func watchIdle(t *testing.T, c *cluster.Cluster) int {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() []audit.Request { return requests(t, c, time.Now().Add(-settled)) }).
		WithTimeout(calm).WithPolling(time.Second).Should(gomega.BeEmpty())
	begin := time.Now()
	time.Sleep(window)
	got := requests(t, c, begin)
	for _, r := range got {
		t.Errorf("got a request at %v, want none: %v", r.Received, r)
	}
	return len(got)
}

// populate creates alarms and receivers. Some work and some fail.
func populate(t *testing.T, c *cluster.Cluster, good, parked string) {
	t.Helper()
	webhook := func(url string) v1alpha1.AlarmReceiverSpec {
		return v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(url)}}}
	}
	receiver := func(name string, spec v1alpha1.AlarmReceiverSpec) client.Object {
		return &v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterAlarmReceiverSpec{AlarmReceiverSpec: spec}}
	}
	alarm := func(name string, match v1alpha1.EventMatch, receivers ...v1alpha1.ClusterReceiverReference) client.Object {
		return &v1alpha1.ClusterAlarm{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{match}}, Receivers: receivers,
		}}
	}
	everything := v1alpha1.EventMatch{Reasons: []string{"Happened"}}
	for _, o := range []client.Object{
		receiver("good", webhook(good)),
		receiver("parked", webhook(parked)),
		receiver("secret-missing", v1alpha1.AlarmReceiverSpec{Slack: &v1alpha1.SlackReceiver{
			WebhookURLSecretRef: &v1alpha1.SecretURLReference{SecretReference: v1alpha1.SecretReference{Namespace: "default", Name: "missing"}, Key: "url"},
		}}),
		alarm("good", everything, v1alpha1.ClusterReceiverReference{Name: "good"}),
		alarm("parked", everything, v1alpha1.ClusterReceiverReference{Name: "parked"}),
		alarm("waiting", everything, v1alpha1.ClusterReceiverReference{Name: "secret-missing"},
			v1alpha1.ClusterReceiverReference{Name: "missing"}),
		alarm("invalid", v1alpha1.EventMatch{Expression: "event.nonsense"}, v1alpha1.ClusterReceiverReference{Name: "good"}),
	} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func happen(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for i := range 10 {
		name := fmt.Sprintf("happened-%d", i)
		err := c.Client.Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, EventTime: metav1.NowMicro(),
			ReportingController: "bongsu.io/chaos", ReportingInstance: "chaos-0",
			Type: corev1.EventTypeWarning, Reason: "Happened", Action: "Happen", Note: name,
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// requests returns the operator's requests since a time, except for watches and its lease.
// The API server ends the watch of Events after 50 seconds at most. The next one is preceded by a
// list of one Event.
func requests(t *testing.T, c *cluster.Cluster, from time.Time) []audit.Request {
	t.Helper()
	all := audit.Requests(t, c.AuditLog(), audit.Operator)
	if len(all) == 0 {
		t.Fatal("the audit log contains no request of the operator")
	}
	return slices.DeleteFunc(all, func(r audit.Request) bool {
		replaced := r.Verb == "list" && r.Group == eventsv1.GroupName && r.Resource == "events"
		return r.Verb == "watch" || replaced || isPause(r) || r.Resource == "leases" || r.Received.Before(from)
	})
}
