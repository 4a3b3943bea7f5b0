package steady

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	notebooks = 500
	// failing is the number of notebooks that fail, for four reasons.
	failing = 20
	// patience is the time without progress after which a test fails.
	patience = 3 * time.Minute
)

// byHand lets the test control the pods, instead of the simulated kubelet.
const byHand = "template: {metadata: {annotations: {bongsu-local/simulate: none}}}"

// kinds are the kinds of notebooks: the spec, and the reason in the status at the end. The last
// three do not fail.
var kinds = []struct{ spec, reason string }{
	{"template: {spec: {hostNetwork: true}}", diagnosis.ReasonInvalidSpec},
	{"schedulingGracePeriodSeconds: 0\ntemplate: {spec: {nodeSelector: {no: such}}}", diagnosis.ReasonFailedScheduling},
	{byHand, diagnosis.ReasonImagePullBackOff},
	{byHand, diagnosis.ReasonCrashLoopBackOff},
	{"storage: {size: 1Gi}\naccess: {type: Ingress, host: nb.example.org}", v1alpha1.ReasonReady},
	{"", v1alpha1.ReasonReady},
	{"suspend: true", v1alpha1.ReasonSuspended},
}

// kindOf returns the index of a notebook's kind.
func kindOf(i int) int {
	failingKinds := len(kinds) - 3
	if i < failing {
		return i % failingKinds
	}
	return failingKinds + i%3
}

func TestTheOperatorSendsNoRequestsForSettledNotebooks(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Whole(5))
	c.StartOperator(t)
	createNamespace(t, c, "notebooks")
	write(t, c, 0, failing)
	failPods(t, c) // before the scheduler has hundreds of pods
	write(t, c, failing, notebooks)
	if err := progress.UntilNoneIsLeft(patience, func() int { return len(unsettled(t, c)) }); err != nil {
		t.Fatalf("notebooks without the expected reason: %v: %q", err, unsettled(t, c))
	}
	t.Attr("summary", fmt.Sprintf("%d notebooks, %d of them failing: %d requests in %v", notebooks, failing, watchIdle(t, c), window))
}

// createNamespace creates a namespace and waits until pods can be created in it.
func createNamespace(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err := c.AwaitAccount(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// write creates the notebooks with numbers from first to last-1.
func write(t *testing.T, c *cluster.Cluster, first, last int) {
	t.Helper()
	var writers errgroup.Group
	writers.SetLimit(8)
	for i := first; i < last; i++ {
		writers.Go(func() error {
			return c.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindJupyter, "notebooks", notebook(i), kinds[kindOf(i)].spec))
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
}

func notebook(i int) string { return fmt.Sprintf("nb-%03d", i) }

// failPods makes pods fail in ways that the simulated kubelet does not support.
func failPods(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	pods := kubelet.Kubelet{Client: c.Client}
	for i := range failing {
		switch kinds[kindOf(i)].reason {
		case diagnosis.ReasonImagePullBackOff:
			pods.Waiting(t, pods.Await(t, "notebooks", notebook(i)+"-0"), "ImagePullBackOff", `Back-off pulling image "example.org/nb:nope"`)
		case diagnosis.ReasonCrashLoopBackOff:
			pods.Crashed(t, pods.Await(t, "notebooks", notebook(i)+"-0"), "Error", 1)
		}
	}
}

// unsettled returns the notebooks without the expected reason.
func unsettled(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	var all v1alpha1.JupyterList
	if err := c.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, j := range all.Items {
		var i int
		if _, err := fmt.Sscanf(j.Name, "nb-%03d", &i); err != nil {
			t.Fatal(err)
		}
		if got, want := cluster.Reason(&j), kinds[kindOf(i)].reason; got != want {
			left = append(left, fmt.Sprintf("%s: got %q, want %q", j.Name, got, want))
		}
	}
	return left
}
