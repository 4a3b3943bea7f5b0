package steady

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	appsNamespace = "apps"
	// apps is the number of apps without health checks. Every tenth fails for one reason, and
	// every tenth for another.
	apps = 100
	// checked is a health check with a period of one second.
	checked = "healthCheck: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 2}\n"
)

// app is a spec, and the condition with its reason at the end.
type app struct{ spec, condition, reason string }

// failingApps and healthyApps are the kinds of apps.
var (
	failingApps = []app{
		{"size: 1\ntemplate: {spec: {hostNetwork: true}}", v1alpha1.ConditionReady, diagnosis.ReasonInvalidSpec},
		{"size: 2\n" + byHand, v1alpha1.ConditionReady, diagnosis.ReasonImagePullBackOff},
	}
	healthyApps = []app{
		{"size: 1\nports: [{name: http, containerPort: 8080}]", v1alpha1.ConditionReady, v1alpha1.ReasonReady},
		{"size: 2\ndeletionPolicy: Retain", v1alpha1.ConditionReady, v1alpha1.ReasonReady},
		{"size: 1\nbackup: {exec: {command: [save]}}", v1alpha1.ConditionReady, v1alpha1.ReasonReady},
		{"size: 2\nsuspend: true", v1alpha1.ConditionAvailable, v1alpha1.ReasonSuspended},
	}
)

// settledApps returns the apps without health checks by name.
func settledApps() map[string]app {
	all := map[string]app{}
	for i := range apps {
		a := healthyApps[i%len(healthyApps)]
		if i%10 < len(failingApps) {
			a = failingApps[i%10]
		}
		all[fmt.Sprintf("app-%03d", i)] = a
	}
	return all
}

// checkedApps are the apps with health checks. The pods of the first one are simulated, so
// that nothing answers its checks.
var checkedApps = map[string]app{
	"refuses": {"size: 2\n" + checked, v1alpha1.ConditionHealthy, v1alpha1.ReasonHealthCheckFailed},
	"fails":   {"size: 1\n" + checked + byHand, v1alpha1.ConditionHealthy, v1alpha1.ReasonHealthCheckFailed},
	"answers": {"size: 1\n" + checked + byHand, v1alpha1.ConditionHealthy, v1alpha1.ReasonHealthy},
}

func TestTheOperatorSendsNoRequestsForSettledAppsWithHealthChecks(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Whole(2))
	c.StartOperator(t)
	createNamespace(t, c, appsNamespace)
	all := settledApps()
	writeApps(t, c, all)
	for name, a := range all {
		if a.reason == diagnosis.ReasonImagePullBackOff {
			failToPull(t, c, name)
		}
	}
	awaitApps(t, c, all)

	// These apps come last. The status of failing apps is updated every five minutes, which must
	// not happen in the window.
	writeApps(t, c, checkedApps)
	checks := answer(t, c, "answers", http.StatusOK)
	answer(t, c, "fails", http.StatusInternalServerError)
	awaitApps(t, c, checkedApps)
	before := checks.Load()
	requests := watchIdle(t, c)
	count := checks.Load() - before
	if least := int64(window/time.Second) / 2; count < least {
		t.Errorf("a pod was checked %d times, want at least %d", count, least)
	}
	t.Attr("summary", fmt.Sprintf("%d apps, two kinds of them failing, and %d with health checks: %d requests in %v, and %d checks of one pod",
		len(all), len(checkedApps), requests, window, count))
}

func writeApps(t *testing.T, c *cluster.Cluster, all map[string]app) {
	t.Helper()
	var writers errgroup.Group
	writers.SetLimit(8)
	for name, a := range all {
		writers.Go(func() error {
			return c.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindAppService, appsNamespace, name, a.spec))
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
}

// awaitApps waits until all apps have the expected condition.
func awaitApps(t *testing.T, c *cluster.Cluster, all map[string]app) {
	t.Helper()
	left := func() int { return len(unsettledApps(t, c, all)) }
	if err := progress.UntilNoneIsLeft(patience, left); err != nil {
		t.Fatalf("apps without the expected condition: %v: %q", err, unsettledApps(t, c, all))
	}
}

// unsettledApps returns the apps without the expected reason in their condition.
func unsettledApps(t *testing.T, c *cluster.Cluster, all map[string]app) []string {
	t.Helper()
	var list v1alpha1.AppServiceList
	if err := c.Client.List(t.Context(), &list, client.InNamespace(appsNamespace)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range list.Items {
		if now := meta.FindStatusCondition(a.Status.Conditions, all[a.Name].condition); now != nil {
			got[a.Name] = now.Reason
		}
	}
	var unsettled []string
	for name, want := range all {
		if got[name] != want.reason {
			unsettled = append(unsettled, fmt.Sprintf("%s: got %s %q, want %q", name, want.condition, got[name], want.reason))
		}
	}
	return unsettled
}

// podsOf waits until all pods of an app are scheduled and returns them.
func podsOf(t *testing.T, c *cluster.Cluster, name string) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	gomega.NewWithT(t).Eventually(func() (bool, error) {
		var a v1alpha1.AppService
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: appsNamespace, Name: name}, &a); err != nil {
			return false, err
		}
		var list corev1.PodList
		err := c.Client.List(t.Context(), &list, client.InNamespace(appsNamespace), client.MatchingLabels{v1alpha1.LabelAppService: name})
		pods = nil
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				pods = append(pods, &list.Items[i])
			}
		}
		return len(pods) == int(a.Spec.Size), err
	}).WithTimeout(patience).Should(gomega.BeTrue(), "the pods of %s", name)
	return pods
}

func failToPull(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	for _, pod := range podsOf(t, c, name) {
		kubelet.Kubelet{Client: c.Client}.Waiting(t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/app:nope"`)
	}
}

// answer makes an app's pods run, with a server that always answers with this status code. It
// returns the counter of its requests.
func answer(t *testing.T, c *cluster.Cluster, name string, code int) *atomic.Int64 {
	t.Helper()
	requests := &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(code)
	}))
	t.Cleanup(server.Close)
	for _, pod := range podsOf(t, c, name) {
		ip := c.ServePod(t, server.Listener.Addr().String())
		patch := fmt.Appendf(nil, `{"status": {"podIP": %q, "podIPs": [{"ip": %q}]}}`, ip, ip)
		if err := c.Client.Status().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
		kubelet.Kubelet{Client: c.Client}.Running(t, pod, true)
	}
	return requests
}
