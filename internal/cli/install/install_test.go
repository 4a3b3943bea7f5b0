package install_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
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

// Otherwise users could write objects that no policy has checked.
func TestPoliciesAreEnforcedBeforeTheKindsAreServed(t *testing.T) {
	size.NotInTest(t, "it installs in a cluster of its own, as two other tests do")
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t)
	values, err := chart.Values(nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := chart.Render("ops", values)
	g.Expect(err).NotTo(HaveOccurred())
	alarm := cluster.Manifest(t, "Alarm", "default", "mine", "match: [{}]\nreceivers: [{name: mine}]")
	author := c.User(t, "default", cluster.Rule("bongsu.io", "alarms", "create"))
	user, err := cluster.ClientFor(author)
	g.Expect(err).NotTo(HaveOccurred())
	var steps []string
	installer, err := install.New(c.RESTConfig(), func(line string) { steps = append(steps, strings.Split(line, ":")[0]) })
	g.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- installer.Apply(t.Context(), objects) }()
	g.Eventually(func(g Gomega) {
		err := user.Create(t.Context(), alarm.DeepCopy())
		if err == nil {
			t.Fatal("the object was not checked")
		}
		g.Expect(err).To(MatchError(ContainSubstring("you must be allowed to list events.events.k8s.io")))
	}).WithTimeout(2 * time.Minute).Should(Succeed())
	g.Expect(<-ended).To(Succeed())
	g.Expect(steps).To(Equal([]string{"namespace", "policies", "kinds", "permissions", "workload"}))
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
	output = upgrade(t, c, render(t, "controllers={alarm,alarm-secrets}", "persistence.enabled=true", "replicas=1"))
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
	g.Expect(names).To(ConsistOf("bongsu", "bongsu-alarm", "bongsu-alarm-secrets", "bongsu-receiver-secrets", "bongsu-changes", "bongsu-changes-builtin", "bongsu-edit", "bongsu-metrics", "bongsu-view", "bongsu-auditors"))
}

// Otherwise a flood of requests by a tenant would delay or reject the operator's requests.
func TestTheOperatorHasAPriorityLevelOfItsOwn(t *testing.T) {
	size.NotInTest(t, "it installs in a cluster of its own, as two other tests do")
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t)
	installer, err := install.New(c.RESTConfig(), func(string) {})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(installer.Apply(t.Context(), render(t))).To(Succeed())
	level := &flowcontrolv1.PriorityLevelConfiguration{}
	g.Expect(c.Client.Get(t.Context(), client.ObjectKey{Name: "bongsu"}, level)).To(Succeed())
	levelOf := func(config *rest.Config) func() string {
		clients, err := rest.HTTPClientFor(config)
		g.Expect(err).NotTo(HaveOccurred())
		return func() string {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/bongsu.io/v1alpha1/alarms?limit=1", http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := clients.Do(request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			return response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
		}
	}
	g.Eventually(levelOf(c.OperatorConfig(t))).WithTimeout(time.Minute).Should(Equal(string(level.UID)))
	g.Expect(levelOf(c.User(t, "", cluster.Rule("bongsu.io", "alarms", "list")))()).NotTo(Or(BeEmpty(), Equal(string(level.UID))))
	g.Expect(installer.Prune(t.Context(), namespace, render(t, "flowControl.enabled=false"))).To(Succeed())
	g.Expect(c.Client.Get(t.Context(), client.ObjectKeyFromObject(level), level)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

// Server-side apply alone would keep what another field manager has added.
func TestAnUpgradeRemovesWhatOthersAddedToPolicies(t *testing.T) {
	size.NotInTest(t, "it installs in a cluster of its own, as two other tests do")
	t.Parallel()
	g := NewWithT(t)
	c := cluster.StartBare(t)
	manifests := slices.DeleteFunc(render(t), func(o *unstructured.Unstructured) bool {
		return o.GetName() != "alarms.bongsu.io" || !strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy")
	})
	g.Expect(manifests).To(HaveLen(2))
	apply := func() (lines string) {
		installer, err := install.New(c.RESTConfig(), func(line string) { lines += line })
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(installer.Apply(t.Context(), manifests)).To(Succeed())
		return lines
	}
	specs := func() (all []any) {
		for _, o := range manifests {
			live := o.DeepCopy()
			g.Expect(c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), live)).To(Succeed())
			all = append(all, live.Object["spec"])
		}
		return all
	}
	g.Expect(apply()).To(ContainSubstring("2 created"))
	before := specs()

	for kind, spec := range map[string]string{
		"ValidatingAdmissionPolicy":        `{matchConditions: [{name: never, expression: "false"}], variables: [{name: more, expression: "1"}]}`,
		"ValidatingAdmissionPolicyBinding": "{matchResources: {namespaceSelector: {matchLabels: {env: prod}}}}",
	} {
		exception, err := config.Decode(strings.NewReader("apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: alarms.bongsu.io}\nspec: " + spec))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(exception[0]), client.FieldOwner("other"))).To(Succeed())
	}
	g.Expect(specs()).NotTo(Equal(before))
	g.Expect(apply()).To(ContainSubstring("2 changed"))
	g.Expect(specs()).To(Equal(before))
	g.Expect(apply()).To(ContainSubstring("2 unchanged"))
}

func TestAnInstallationThatDoesNotBecomeReadyNamesTheCause(t *testing.T) {
	size.NotInTest(t, "it installs in a cluster of its own, as two other tests do")
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
