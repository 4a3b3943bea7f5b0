package localcluster_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

func TestASimulatedPodAnswersCommandsByItsAnnotation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := start(t, localcluster.Config{Components: localcluster.Everything(), Nodes: 1})
	client := clientFor(t, c.RESTConfig())
	awaitNode(t, client, "node-0")
	w := newNamespace(t, client)
	pod := w.createPod(t, "")
	g.Eventually(func() (bool, error) {
		now, err := w.pod(t.Context(), "it")()
		return err == nil && containerState(now).Running != nil, err
	}).Should(BeTrue())
	runner, err := podexec.New(c.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		annotation, container string
		limit                 time.Duration
		want                  podexec.Result
		fails                 string
	}{
		"success":              {annotation: `{"output": "ok\n"}`, want: podexec.Result{Output: "ok\n"}},
		"nothing to say":       {annotation: `{}`},
		"a failure":            {annotation: `{"exitCode": 3, "output": "no"}`, want: podexec.Result{ExitCode: 3, Output: "no"}},
		"a delay":              {annotation: `{"delaySeconds": 0.1, "output": "late"}`, want: podexec.Result{Output: "late"}},
		"longer than it may":   {annotation: `{"delaySeconds": 1.5}`, limit: time.Second, fails: podexec.ErrDeadline.Error()},
		"no annotation":        {fails: "pod NAMESPACE/it is simulated and runs no commands: set its annotation bongsu-local/exec"},
		"no JSON":              {annotation: "ok", fails: "annotation bongsu-local/exec of pod NAMESPACE/it: invalid character"},
		"an unknown field":     {annotation: `{"code": 1}`, fails: `unknown field "code"`},
		"no exit code":         {annotation: `{"exitCode": 256}`, fails: "exitCode must be from 0 to 255"},
		"a delay of days":      {annotation: `{"delaySeconds": 86400}`, fails: "delaySeconds from 0 to 3600"},
		"an unknown container": {annotation: `{}`, container: "web", fails: "web"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share the pod
			g := NewWithT(t)
			patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, localcluster.SimulateExec, tc.annotation)
			_, err := client.CoreV1().Pods(w.namespace).Patch(t.Context(), "it", types.MergePatchType, patch, metav1.PatchOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			target := podexec.Target{Namespace: w.namespace, Pod: "it", Container: "app", UID: pod.UID}
			if tc.container != "" {
				target.Container = tc.container
			}
			if tc.limit == 0 {
				tc.limit = time.Minute
			}
			got, err := runner.Run(t.Context(), target, []string{"/bin/check", "it"}, tc.limit)
			if tc.fails != "" {
				g.Expect(err).To(MatchError(ContainSubstring(strings.ReplaceAll(tc.fails, "NAMESPACE", w.namespace))))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tc.want))
		})
	}
	text, _ := client.CoreV1().Pods(w.namespace).GetLogs("it", &corev1.PodLogOptions{}).Do(t.Context()).Raw()
	g.Expect(string(text)).To(ContainSubstring("no logs found"), "KWOK answers other requests")
	onlyTheAPIServerMayConnect(t, c, client)
}

// A tenant has a certificate of the same authority.
func onlyTheAPIServerMayConnect(t *testing.T, c *localcluster.Cluster, client kubernetes.Interface) {
	t.Helper()
	g := NewWithT(t)
	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("https://127.0.0.1:%d/pods", node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	config, err := c.ClientConfigFor("ana", "system:masters")
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	g.Expect(err).NotTo(HaveOccurred())
	for name, certificates := range map[string][]tls.Certificate{"no certificate": nil, "that of a user": {pair}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		g.Expect(err).NotTo(HaveOccurred())
		anyServer := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, Certificates: certificates}
		response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: anyServer}}).Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		g.Expect(err).To(HaveOccurred(), name)
	}
}
