package check_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/check"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// run returns the results that are not OK, by check.
func run(t *testing.T, cfg *rest.Config, clk clock.PassiveClock) map[string]preflight.Result {
	t.Helper()
	checker, err := check.New(cfg, clk, "bongsu-system")
	if err != nil {
		t.Fatal(err)
	}
	results, err := checker.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	problems := map[string]preflight.Result{}
	for _, f := range results {
		if f.Level != preflight.OK {
			problems[f.Check] = f
		}
	}
	return problems
}

func level(l preflight.Level, says string) types.GomegaMatcher {
	return And(HaveField("Level", l), HaveField("Message", ContainSubstring(says)))
}

func TestAHealthyInstallationHasNoProblems(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	g.Expect(run(t, c.RESTConfig(), clock.RealClock{})).To(BeEmpty())
}

func TestEachProblemOfAnInstallationIsNamed(t *testing.T) {
	c := cluster.Shared(t)
	repair(t, c)
	for name, tc := range map[string]struct {
		damage func(*testing.T)
		check  string
		want   types.GomegaMatcher
	}{
		"a policy is missing": {
			func(t *testing.T) { remove(t, c, "ValidatingAdmissionPolicy", "alarms.bongsu.io") },
			"admission policies", level(preflight.Fail, "missing: ValidatingAdmissionPolicy alarms.bongsu.io"),
		},
		"a binding is missing": {
			func(t *testing.T) { remove(t, c, "ValidatingAdmissionPolicyBinding", "jupyters.bongsu.io") },
			"admission policies", level(preflight.Fail, "missing: ValidatingAdmissionPolicyBinding jupyters.bongsu.io"),
		},
		"a binding is limited to some namespaces": {
			func(t *testing.T) {
				change(t, c, "ValidatingAdmissionPolicyBinding", "alarms.bongsu.io", `{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"env":"prod"}}}}}`)
			},
			"admission policies", level(preflight.Fail, "outdated or changed: ValidatingAdmissionPolicyBinding alarms.bongsu.io"),
		},
		"a policy was weakened": {
			func(t *testing.T) {
				change(t, c, "ValidatingAdmissionPolicy", "alarms.bongsu.io", `{"spec":{"failurePolicy":"Ignore"}}`)
			},
			"admission policies", level(preflight.Fail, "outdated or changed: ValidatingAdmissionPolicy alarms.bongsu.io"),
		},
		"a kind is outdated": {
			func(t *testing.T) {
				patchSpec(t, c, "jupyters.bongsu.io", `[{"op":"remove","path":"`+specSchema+`/image"}]`)
			},
			"kinds", level(preflight.Fail, "outdated or changed: CustomResourceDefinition jupyters.bongsu.io"),
		},
		"a kind is of a later version": {
			func(t *testing.T) {
				patchSpec(t, c, "alarms.bongsu.io", `[{"op":"add","path":"`+specSchema+`/later","value":{"type":"string"}}]`)
			},
			"kinds", level(preflight.Fail, "outdated or changed: CustomResourceDefinition alarms.bongsu.io"),
		},
		"a role binding is missing": {
			func(t *testing.T) { remove(t, c, "ClusterRoleBinding", "bongsu-secretshare") },
			"operator permissions", level(preflight.Fail, "bongsu-system:bongsu may not"),
		},
		"a receiver fails": {
			func(t *testing.T) { failingReceiver(t, c) },
			"receivers", level(preflight.Warn, "AlarmReceiver default/broken is not Ready: SecretNotFound: it does not exist"),
		},
		"no replica leads": {
			func(t *testing.T) { lease(t, c, time.Now().Add(-time.Hour)) },
			"leader", level(preflight.Fail, "no replica has led"),
		},
		"no replica is ready": {
			func(t *testing.T) { ready(t, c, 0) },
			"workload", level(preflight.Fail, "none of 2"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.damage(t)
			t.Cleanup(func() { repair(t, c) })
			g.Eventually(func() map[string]preflight.Result { return run(t, c.RESTConfig(), clock.RealClock{}) }).
				Should(And(HaveLen(1), HaveKeyWithValue(tc.check, tc.want)))
		})
	}
}

// TestSurplusPermissionsAreNamed: manifests with fewer features leave the roles of an earlier
// installation. Others grant roles, too, also before an installation and after its removal.
func TestSurplusPermissionsAreNamed(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	surplus := func() string {
		result := run(t, c.RESTConfig(), clock.RealClock{})["surplus permissions"]
		return result.Message
	}
	args := func(controllers string, more ...string) {
		list := `"--controllers=` + controllers + `"`
		for _, arg := range more {
			list += `,"` + arg + `"`
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: "bongsu"}}
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":[%s]}]`, list)
		g.Expect(c.Client.Patch(t.Context(), d, client.RawPatch("application/json-patch+json", patch))).To(Succeed())
	}
	all := strings.Join(feature.Names(feature.All()), ",")
	t.Cleanup(func() {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: "bongsu"}}
		g.Expect(c.Client.Delete(context.Background(), d)).To(Succeed())
	})

	args("alarm,alarm-secrets,secretshare,jupyter,appservice,appservice-proxy")
	g.Expect(surplus()).To(ContainSubstring("ServiceAccount bongsu-system/bongsu has permissions that it does not need, by ClusterRoleBinding bongsu-appservice-exec (create pods/exec, get pods/exec): delete"))
	args("secretshare,jupyter,appservice,appservice-exec,appservice-proxy")
	g.Expect(surplus()).To(And(ContainSubstring("ClusterRoleBinding bongsu-alarm ("), Not(ContainSubstring("ClusterRoleBinding bongsu-secretshare"))))

	namespace := c.Namespace(t, nil)
	args(all, "--share-namespaces="+namespace)
	g.Expect(surplus()).To(ContainSubstring("ClusterRoleBinding bongsu-secretshare-secrets ("))
	args(all)
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "bongsu-system", Name: "bongsu"}
	bind := func(role string) *rbacv1.RoleBinding {
		o := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}, Subjects: []rbacv1.Subject{account},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		g.Expect(c.Client.Create(t.Context(), o)).To(Succeed())
		return o
	}
	bind("bongsu-receiver-secrets")
	g.Expect(surplus()).To(BeEmpty(), "docs/install.md says to bind it")
	o := bind("cluster-admin")
	g.Expect(surplus()).To(ContainSubstring("RoleBinding " + namespace + "/cluster-admin ("))
	g.Expect(c.Client.Delete(t.Context(), o)).To(Succeed())

	everywhere := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "for-the-operator"}, Subjects: []rbacv1.Subject{account},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bongsu-alarm"},
	}
	g.Expect(c.Client.Create(t.Context(), everywhere)).To(Succeed())
	t.Cleanup(func() { g.Expect(c.Client.Delete(context.Background(), everywhere)).To(Succeed()) })
	g.Expect(surplus()).To(BeEmpty(), "it grants only what is needed")
}

func TestUnusedRolesAreNamed(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	t.Cleanup(func() { repair(t, c) })
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: "bongsu"}}
	t.Cleanup(func() { g.Expect(c.Client.Delete(context.Background(), d)).To(Succeed()) })
	patch := []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":["--controllers=alarm,alarm-secrets,secretshare,jupyter,appservice,appservice-proxy"]}]`)
	g.Expect(c.Client.Patch(t.Context(), d, client.RawPatch("application/json-patch+json", patch))).To(Succeed())
	remove(t, c, "ClusterRoleBinding", "bongsu-appservice-exec")
	g.Expect(run(t, c.RESTConfig(), clock.RealClock{})).To(HaveKeyWithValue("surplus permissions",
		level(preflight.Warn, "roles of features that are not chosen: ClusterRole bongsu-appservice-exec; delete them")))
}

func TestAnOperatorOfBongsuLocalIsNoProblem(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	for _, o := range []client.Object{&appsv1.Deployment{}, &coordinationv1.Lease{}} {
		o.SetNamespace("bongsu-system")
		o.SetName("bongsu")
		g.Expect(c.Client.Delete(t.Context(), o)).To(Succeed())
	}
	g.Expect(run(t, c.RESTConfig(), clock.RealClock{})).To(HaveKey("workload"))
	label := func(value string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bongsu-system"}}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, options.LocalLabel, value)
		g.Expect(c.Client.Patch(context.Background(), ns, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
	}
	label(`"true"`)
	t.Cleanup(func() { label("null") })
	g.Expect(run(t, c.RESTConfig(), clock.RealClock{})).To(BeEmpty())
}

func TestAClockDifferenceIsReported(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	lease(t, c, time.Now().Add(time.Minute))
	problems := run(t, c.RESTConfig(), testingclock.NewFakePassiveClock(time.Now().Add(time.Hour)))
	g.Expect(problems).To(HaveKeyWithValue("clock", level(preflight.Warn, "apart")))
	g.Expect(problems).NotTo(HaveKey("leader"), "the age of a lease must be computed by the API server's clock")
}

func TestMissingPermissionsToReadAreWarnings(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	problems := run(t, c.User(t, c.Namespace(t, nil), cluster.Rule("", "pods", "get")), clock.RealClock{})
	g.Expect(problems).To(HaveKeyWithValue("admission policies", level(preflight.Warn, "could not be checked")))
	g.Expect(problems).To(HaveKeyWithValue("your permissions", level(preflight.Warn, "you cannot upgrade")))
	for _, f := range problems {
		g.Expect(f.Level).To(Equal(preflight.Warn), "%+v", f)
	}
}

func TestABareClusterPassesTheChecks(t *testing.T) {
	g := NewWithT(t)
	bare := cluster.StartBare(t)
	g.Expect(run(t, bare.RESTConfig(), clock.RealClock{})).To(BeEmpty())
	user, err := bare.ClientConfigFor("guest")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run(t, user, clock.RealClock{})).To(HaveKeyWithValue("your permissions", level(preflight.Warn, "")))

	left := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bongsu"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "bongsu-system", Name: "bongsu"}},
	}
	g.Expect(bare.Client.Create(t.Context(), left)).To(Succeed())
	g.Expect(run(t, bare.RESTConfig(), clock.RealClock{})).To(HaveKeyWithValue("surplus permissions", level(preflight.Warn, "ClusterRoleBinding bongsu (")))
}

func TestRunningNamesTheVersions(t *testing.T) {
	c, g := cluster.Shared(t), NewWithT(t)
	repair(t, c)
	ask := func(namespace string) string {
		checker, err := check.New(c.RESTConfig(), clock.RealClock{}, namespace)
		g.Expect(err).NotTo(HaveOccurred())
		running, err := checker.Running(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		return running.String()
	}
	g.Expect(ask("bongsu-system")).To(MatchRegexp(`^Kubernetes v1\.\d+\.\d+; Deployment bongsu runs bongsu$`))
	g.Expect(ask("default")).To(HaveSuffix("the operator is not installed in this namespace"))
}

// repaired holds the resourceVersions of the objects after the last repair. It avoids
// applying all of them again, which takes seconds of CPU time.
var repaired = map[string]string{}

// repair applies all manifests, and creates a workload and a lease, which the test
// cluster lacks.
func repair(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background() // the test's context ends before its cleanups run
	objects, err := config.Objects(feature.All())
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		live, name := o.DeepCopy(), install.Describe(o)
		if c.Client.Get(ctx, client.ObjectKeyFromObject(o), live) == nil && live.GetResourceVersion() == repaired[name] {
			continue
		}
		g.Expect(install.Apply(ctx, c.Client, o)).To(Succeed())
		g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(o), live)).To(Succeed())
		repaired[name] = live.GetResourceVersion()
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bongsu-system"}}
	g.Expect(c.Client.Patch(ctx, ns, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)))).To(Succeed())
	g.Expect(client.IgnoreNotFound(c.Client.Delete(ctx, &v1alpha1.AlarmReceiver{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "broken"},
	}))).To(Succeed())
	lease(t, c, time.Now().Add(time.Hour))
	ready(t, c, 2)
}

// ready creates or updates the Deployment with a number of ready replicas.
func ready(t *testing.T, c *cluster.Cluster, replicas int32) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	labels := map[string]string{"app.kubernetes.io/name": "bongsu"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: "bongsu", Labels: labels}}
	d.Spec.Replicas, d.Spec.Selector = new(int32(2)), &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: "bongsu", Containers: []corev1.Container{{
		Name: "manager", Image: "bongsu", Args: []string{"--controllers=" + strings.Join(feature.Names(feature.All()), ",")},
	}}}
	g.Expect(client.IgnoreAlreadyExists(c.Client.Create(ctx, d.DeepCopy()))).To(Succeed())
	g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
	d.Status.Replicas, d.Status.ReadyReplicas = 2, replicas
	g.Expect(c.Client.Status().Update(ctx, d)).To(Succeed())
}

// lease creates or updates the lease with a renewal time.
func lease(t *testing.T, c *cluster.Cluster, renewed time.Time) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: "bongsu"}}
	g.Expect(client.IgnoreAlreadyExists(c.Client.Create(ctx, l.DeepCopy()))).To(Succeed())
	g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(l), l)).To(Succeed())
	at := metav1.NewMicroTime(renewed)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = new("bongsu-1"), new(int32(10)), &at
	g.Expect(c.Client.Update(ctx, l)).To(Succeed())
}

func failingReceiver(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	g := NewWithT(t)
	o := cluster.Manifest(t, "AlarmReceiver", "default", "broken", "slack: {webhookURLSecretRef: {name: gone}}")
	g.Expect(c.Client.Create(t.Context(), o)).To(Succeed())
	r := &v1alpha1.AlarmReceiver{}
	g.Expect(c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), r)).To(Succeed())
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSecretNotFound, Message: "it does not exist",
	})
	g.Expect(c.Client.Status().Update(t.Context(), r)).To(Succeed())
}

// object returns an object of the manifests.
func object(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	objects, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func remove(t *testing.T, c *cluster.Cluster, kind, name string) {
	t.Helper()
	NewWithT(t).Expect(c.Client.Delete(t.Context(), object(t, kind, name))).To(Succeed())
}

func change(t *testing.T, c *cluster.Cluster, kind, name, patch string) {
	t.Helper()
	err := c.Client.Patch(t.Context(), object(t, kind, name), client.RawPatch("application/merge-patch+json", []byte(patch)))
	NewWithT(t).Expect(err).To(Succeed())
}

// specSchema is the JSON pointer to the spec fields in a CustomResourceDefinition.
const specSchema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"

// patchSpec applies a JSON patch to a CustomResourceDefinition.
func patchSpec(t *testing.T, c *cluster.Cluster, name, patch string) {
	t.Helper()
	err := c.Client.Patch(t.Context(), object(t, "CustomResourceDefinition", name), client.RawPatch("application/json-patch+json", []byte(patch)))
	NewWithT(t).Expect(err).To(Succeed())
}
