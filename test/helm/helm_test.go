package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const chart = "../../charts/bongsu"

// helm builds Helm. It returns a function that runs it as an administrator and returns its
// output.
func helm(t *testing.T, c *cluster.Cluster) func(args ...string) string {
	t.Helper()
	dir, kubeconfig := t.TempDir(), cluster.Kubeconfig(t, c.RESTConfig())
	binary := filepath.Join(dir, "helm")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "helm.sh/helm/v4/cmd/helm").CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v\n%s", err, out)
	}
	return func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), binary, append([]string{"--kubeconfig", kubeconfig, "--namespace", "bongsu-system"}, args...)...)
		command.Env = append(command.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
		var errOut strings.Builder
		command.Stderr = &errOut
		out, err := command.Output()
		if err != nil {
			t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut.String())
		}
		return string(out)
	}
}

func TestHelmInstallsUpgradesAndRemovesTheChart(t *testing.T) {
	g := NewWithT(t)
	c := cluster.StartBare(t, cluster.Whole(2))
	run := helm(t, c)
	kubectl := c.Kubectl(t, c.RESTConfig())

	run("lint", "--strict", chart)
	h := newHistory(t, c)
	run("install", "bongsu", chart, "--create-namespace", "--wait", "--timeout", "4m", "--set", "controllers={alarm,jupyter}")
	h.expectPoliciesFirst(t, watch.Added)
	var pods corev1.PodList
	g.Expect(c.Client.List(t.Context(), &pods)).To(Succeed())
	g.Expect(pods.Items).To(HaveLen(2))

	h.forget(t)
	run("upgrade", "bongsu", chart, "--wait", "--timeout", "4m", "--set", "controllers={alarm,appservice}", "--set", "persistence.enabled=true", "--set", "protectedNamespaces={ops}")
	h.expectPoliciesFirst(t, watch.Modified)
	roles, err := kubectl("get", "clusterroles", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(roles).To(ContainSubstring("/bongsu-alarm\n"))
	g.Expect(roles).To(ContainSubstring("/bongsu-appservice\n"))
	g.Expect(roles).NotTo(MatchRegexp(`/bongsu-jupyter\n|/bongsu-appservice-`), "permissions of features that were not chosen")
	g.Expect(kubectl("get", "statefulsets,deployments", "-n", "bongsu-system", "-o", "name")).To(Equal("statefulset.apps/bongsu\n"))

	h.forget(t)
	run("rollback", "bongsu", "1", "--wait", "--timeout", "4m")
	h.expectPoliciesFirst(t, watch.Modified)

	h.forget(t)
	run("uninstall", "bongsu", "--wait", "--timeout", "4m")
	h.expectPoliciesLast(t)
	g.Expect(kubectl("get", "clusterroles", "-o", "name")).NotTo(MatchRegexp(`/bongsu\n|/bongsu-alarm\n`))
	g.Expect(kubectl("get", "validatingadmissionpolicies", "-o", "name")).NotTo(ContainSubstring("bongsu.io"))
	g.Expect(kubectl("get", "crds", "-o", "name")).To(ContainSubstring("/alarms.bongsu.io\n"), "CRDs and the objects of users must stay")

	// Others apply what Helm prints.
	printed := filepath.Join(t.TempDir(), "bongsu.yaml")
	g.Expect(os.WriteFile(printed, []byte(run("template", "bongsu", chart)), 0o600)).To(Succeed())
	h.forget(t)
	out, err := kubectl("apply", "--server-side", "--force-conflicts", "-f", printed)
	g.Expect(err).NotTo(HaveOccurred(), out)
	h.expectPoliciesFirst(t, watch.Added)
}
