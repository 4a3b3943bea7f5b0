package install_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const (
	namespace = "bongsu-system"
	timeout   = 3 * time.Minute
)

func render(t *testing.T, settings ...string) chart.Manifests {
	t.Helper()
	values, err := chart.Values(nil, settings)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// upgrade does the same as `bongsu install --apply` and returns its output.
func upgrade(t *testing.T, c *cluster.Cluster, objects chart.Manifests) string {
	t.Helper()
	var output strings.Builder
	installer, err := install.New(c.RESTConfig(), func(line string) { output.WriteString(line + "\n") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := installer.Upgrade(ctx, namespace, objects); err != nil {
		t.Fatalf("%v; output:\n%s", err, &output)
	}
	return output.String()
}

// versions returns the resourceVersions of the objects in the cluster, which change with
// each write. For objects with a status, it returns the generation instead.
func versions(t *testing.T, c *cluster.Cluster, objects chart.Manifests) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, o := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
			t.Fatal(err)
		}
		all[install.Describe(o)] = live.GetResourceVersion()
		if _, found := live.Object["status"]; found {
			all[install.Describe(o)] = live.GetGeneration()
		}
	}
	return all
}

// The printed manifests need no retry and no server-side apply.
func TestKubectlInstallsThePrintedManifestsInOneRun(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t, cluster.Whole(2))
	var printed bytes.Buffer
	g.Expect(chart.WriteYAML(&printed, render(t))).To(Succeed())
	file := filepath.Join(t.TempDir(), "bongsu.yaml")
	g.Expect(os.WriteFile(file, printed.Bytes(), 0o600)).To(Succeed())

	out, err := c.Kubectl(t, c.RESTConfig())("apply", "-f", file)
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).NotTo(ContainSubstring("Warning"), "the pods must comply with the restricted Pod Security Standard")
	g.Eventually(func() []corev1.Pod { return running(t, c) }).WithTimeout(timeout).Should(HaveLen(2))

	output := upgrade(t, c, render(t))
	g.Expect(output).To(ContainSubstring("ready: 2 of 2"))
}

func running(t *testing.T, c *cluster.Cluster) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := c.Client.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var all []corev1.Pod
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodRunning {
			all = append(all, p)
		}
	}
	return all
}

func TestUpgradesWriteAndRemoveOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t, cluster.Whole(2))
	g.Expect(upgrade(t, c, render(t))).To(And(ContainSubstring("created"), ContainSubstring("ready: 2 of 2")))
	before := versions(t, c, render(t))
	output := upgrade(t, c, render(t))
	g.Expect(output).NotTo(MatchRegexp(`\d (created|changed)|removed`))
	g.Expect(versions(t, c, render(t))).To(Equal(before))

	// Others may use the same label.
	foreign := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "bongsu-auditors", Labels: map[string]string{install.LabelPartOf: install.PartOf},
	}}
	g.Expect(c.Client.Create(t.Context(), foreign)).To(Succeed())
	output = upgrade(t, c, render(t, "controllers={alarm}", "persistence.enabled=true", "replicas=1"))
	g.Expect(output).To(And(
		ContainSubstring("removed ClusterRole bongsu-secretshare"),
		ContainSubstring("removed Deployment bongsu-system/bongsu"),
		Not(ContainSubstring("removed ClusterRole bongsu-alarm")),
	))
	var roles rbacv1.ClusterRoleList
	g.Expect(c.Client.List(t.Context(), &roles, client.MatchingLabels{install.LabelPartOf: install.PartOf})).To(Succeed())
	var names []string
	for _, role := range roles.Items {
		names = append(names, role.Name)
	}
	g.Expect(names).To(ConsistOf("bongsu", "bongsu-alarm", "bongsu-edit", "bongsu-view", "bongsu-auditors"))
}

func TestAnInstallationThatDoesNotBecomeReadyNamesTheCause(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t, cluster.Whole(1))
	installer, err := install.New(c.RESTConfig(), func(string) {})
	g.Expect(err).NotTo(HaveOccurred())
	objects := render(t, "nodeSelector.disk=ssd")
	g.Expect(installer.Apply(t.Context(), objects)).To(Succeed())

	ctx, cancel := context.WithCancel(t.Context())
	installer, err = install.New(c.RESTConfig(), func(line string) {
		if strings.Contains(line, "node") {
			cancel() // the cause has been reported
		}
	})
	g.Expect(err).NotTo(HaveOccurred())
	time.AfterFunc(timeout, cancel)
	err = installer.AwaitReady(ctx, objects)
	g.Expect(err).To(MatchError(install.ErrNotReady))
	g.Expect(err.Error()).To(And(ContainSubstring("0 of 2"), ContainSubstring("node")))
}
