package uninstall_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/bindings"
	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/cli/uninstall"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	namespace = "bongsu-system"
	timeout   = 3 * time.Minute
)

// testCluster is a cluster with a copied Secret, a notebook with a claim, and an app with
// a backup. The operator runs in the test process, because the pods of the Deployment are
// simulated.
type testCluster struct {
	*WithT
	*cluster.Cluster
	t        *testing.T
	operator *cluster.Operator
}

func newTestCluster(t *testing.T) *testCluster {
	s := &testCluster{WithT: NewWithT(t), t: t, Cluster: cluster.StartBare(t, cluster.Whole(1))}
	values, err := chart.Values(nil, nil)
	s.Expect(err).NotTo(HaveOccurred())
	objects, err := chart.Render(namespace, values)
	s.Expect(err).NotTo(HaveOccurred())
	installer, err := install.New(s.RESTConfig(), func(string) {})
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	s.Expect(installer.Upgrade(ctx, namespace, objects)).To(Succeed())
	s.operator = s.StartOperator(t, func(o *options.Options) { o.LeaderElect = true })

	// If the Secret came first, the operator would suspend the rule.
	s.Eventually(s.exists).WithArguments(&v1alpha1.ClusterSecretShare{}, "", "secretsync").WithTimeout(timeout).Should(BeTrue())
	for _, name := range []string{"secretsync", "shop"} {
		s.Expect(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	s.Expect(s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "secretsync", Name: "token"}, Type: v1alpha1.Group + "/secretsync",
	})).To(Succeed())
	s.Expect(s.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindJupyter, "shop", "ana", "storage: {size: 1Gi}"))).To(Succeed())
	s.Expect(s.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindAppService, "shop", "cache", `
size: 1
backup:
  jobTemplate:
    spec: {template: {spec: {containers: [{name: backup, image: busybox}]}}}
`))).To(Succeed())
	s.Eventually(s.exists).WithArguments(&corev1.Secret{}, "shop", "token").WithTimeout(timeout).Should(BeTrue())
	s.Eventually(s.exists).WithArguments(&corev1.PersistentVolumeClaim{}, "shop", "ana").WithTimeout(timeout).Should(BeTrue())
	s.Eventually(func() []string { return s.app().Finalizers }).WithTimeout(timeout).Should(ContainElement(v1alpha1.FinalizerBackup))
	return s
}

func (s *testCluster) app() *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	s.Expect(s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: "cache"}, app)).To(Succeed())
	return app
}

func (s *testCluster) exists(o client.Object, namespace, name string) bool {
	err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if !apierrors.IsNotFound(err) {
		s.Expect(err).NotTo(HaveOccurred())
	}
	return err == nil
}

// uninstall does the same as `bongsu uninstall` and returns its output. It passes each
// line to onLine.
func (s *testCluster) uninstall(onLine func(string), change ...func(*uninstall.Config)) (string, error) {
	manifests, err := chart.Everything(namespace)
	s.Expect(err).NotTo(HaveOccurred())
	var output strings.Builder
	c := uninstall.Config{REST: s.RESTConfig(), Namespace: namespace, Manifests: manifests, Progress: func(line string) {
		output.WriteString(line + "\n")
		onLine(line)
	}}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	err = uninstall.Run(ctx, c)
	return output.String(), err
}

// stopWithDeployment stops the operator when the Deployment is removed, like a pod.
func (s *testCluster) stopWithDeployment() func(string) {
	stop := sync.OnceFunc(func() { s.Expect(s.operator.Stop()).To(Succeed()) })
	return func(line string) {
		if strings.HasPrefix(line, "removed Deployment bongsu-system/bongsu") {
			stop()
		}
	}
}

// foreign creates an object of another owner that has the same label.
func (s *testCluster) foreign() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "bongsu-auditors", Labels: map[string]string{install.LabelPartOf: install.PartOf},
	}}
	s.Expect(s.Client.Create(s.t.Context(), role)).To(Succeed())
	return role
}

// bind grants a role to subjects, without a label, as kubectl does.
func (s *testCluster) bind(namespace, name, role string, subjects ...rbacv1.Subject) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	var o client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace != "" {
		o = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	s.Expect(s.Client.Create(s.t.Context(), o)).To(Succeed())
}

// granted returns the bindings that name the operator's account.
func (s *testCluster) granted() (names []string) {
	all, err := bindings.Of(s.t.Context(), s.Client, namespace, options.Account)
	s.Expect(err).NotTo(HaveOccurred())
	for _, b := range all {
		if len(b.Account) > 0 {
			names = append(names, install.Describe(b.Object))
		}
	}
	return names
}

// The operator does not run. Someone has applied the roles of all features, and bound some of them.
func TestAnInstallationWithoutItsOperatorIsRemoved(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster of its own, and TestDeleteDataRemovesEverything uninstalls in one")
	t.Parallel()
	s := newTestCluster(t)
	s.Expect(s.operator.Stop()).To(Succeed())
	_, err := s.uninstall(func(string) {}, func(c *uninstall.Config) { c.DeleteData = true })
	s.Expect(err).To(MatchError(uninstall.ErrNoOperator))
	s.Expect(s.app().DeletionTimestamp).To(BeNil())
	s.Expect(s.exists(&corev1.Secret{}, "shop", "token")).To(BeTrue())

	s.applyRoles()
	ana := s.bindRoles()
	output, err := s.uninstall(func(string) {}, func(c *uninstall.Config) { c.DryRun = true })
	s.Expect(err).NotTo(HaveOccurred(), output)
	for _, line := range []string{
		"would remove ClusterRoleBinding of-a-runbook\n", "would remove RoleBinding shop/receivers\n",
		"would remove the operator's account from ClusterRoleBinding shared\n", "would remove ClusterRoleBinding bongsu-alarm\n",
	} {
		s.Expect(strings.Count(output, line)).To(Equal(1), line)
	}

	output, err = s.uninstall(func(string) {})
	s.Expect(err).NotTo(HaveOccurred(), output)
	s.Expect(s.roles()).To(BeEmpty())
	s.Expect(s.granted()).To(BeEmpty())
	s.Expect(output).To(ContainSubstring("kept ClusterRoleBinding of-the-group: it grants ClusterRole view to all accounts of namespace " + namespace + "\n"))
	s.Expect(strings.Index(output, "removed ClusterRoleBinding of-a-runbook")).To(BeNumerically("<", strings.Index(output, "removed ValidatingAdmissionPolicy")))
	shared := &rbacv1.ClusterRoleBinding{}
	s.Expect(s.exists(shared, "", "shared")).To(BeTrue())
	s.Expect(shared.Subjects).To(ConsistOf(ana))
	s.Expect(s.exists(&rbacv1.ClusterRoleBinding{}, "", "of-another-account")).To(BeTrue())
}

// applyRoles applies the roles of all features without the installer, as kubectl apply -f config/rbac does.
func (s *testCluster) applyRoles() {
	objects, err := config.RBAC(feature.All())
	s.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		s.Expect(s.Client.Patch(s.t.Context(), o, client.Apply, client.FieldOwner("kubectl"), client.ForceOwnership)).To(Succeed()) //nolint:staticcheck // of an unstructured object
	}
}

// bindRoles grants roles to the operator's account and to others. It returns the user of the binding shared.
func (s *testCluster) bindRoles() rbacv1.Subject {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: options.Account}
	user := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccount:" + namespace + ":" + options.Account}
	ana := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "ana"}
	group := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + namespace}
	other := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: options.Account}
	s.bind("", "of-a-runbook", "bongsu-appservice-exec", account)
	s.bind("", "by-user-name", "cluster-admin", user)
	s.bind("", "shared", "view", ana, account)
	s.bind("", "of-the-group", "view", group)
	s.bind("", "of-another-account", "view", other)
	s.bind("shop", "receivers", "bongsu-receiver-secrets", account)
	s.bind(namespace, "without-namespace", "view", account)
	return ana
}

func (s *testCluster) roles() []string {
	var roles rbacv1.ClusterRoleList
	s.Expect(s.Client.List(s.t.Context(), &roles, client.MatchingLabels{install.LabelPartOf: install.PartOf})).To(Succeed())
	var names []string
	for _, role := range roles.Items {
		names = append(names, role.Name)
	}
	return names
}

func TestObjectsOfUsersRemainAndCanBeDeletedWithoutTheOperator(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster of its own, and TestDeleteDataRemovesEverything uninstalls in one")
	t.Parallel()
	s := newTestCluster(t)
	foreign := s.foreign()
	output, err := s.uninstall(func(string) {}, func(c *uninstall.Config) { c.DryRun = true })
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(output).To(ContainSubstring("would remove Deployment bongsu-system/bongsu"))
	s.Expect(s.roles()).To(ContainElement("bongsu"))

	// The test's operator is not a pod of the Deployment, so it is found by its lease.
	_, err = s.uninstall(func(string) {})
	s.Expect(err).To(MatchError(uninstall.ErrStillRuns))
	s.Expect(s.app().Finalizers).NotTo(BeEmpty(), "the operator would add them again")

	s.Expect(s.operator.Stop()).To(Succeed())
	output, err = s.uninstall(func(string) {})
	s.Expect(err).NotTo(HaveOccurred(), output)
	s.Expect(s.exists(&corev1.Secret{}, "shop", "token")).To(BeTrue(), "a copy")
	s.Expect(s.exists(&corev1.PersistentVolumeClaim{}, "shop", "ana")).To(BeTrue())
	s.Expect(s.app().Finalizers).To(BeEmpty())
	s.Expect(s.roles()).To(ConsistOf(foreign.Name))
	for _, name := range []string{"bongsu-checkpoint", options.DefaultsName} {
		s.Expect(s.exists(&corev1.ConfigMap{}, namespace, name)).To(BeFalse(), name)
	}
	s.Expect(s.exists(&corev1.Namespace{}, "", namespace)).To(BeTrue())

	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	rule := &v1alpha1.ClusterSecretShare{ObjectMeta: metav1.ObjectMeta{Name: "secretsync"}}
	s.Expect(s.Client.Delete(t.Context(), shop)).To(Succeed())
	s.Expect(s.Client.Delete(t.Context(), rule)).To(Succeed())
	s.Eventually(s.exists).WithArguments(shop, "", "shop").WithTimeout(timeout).Should(BeFalse())
	s.Expect(s.exists(rule, "", rule.Name)).To(BeFalse())
}

// copyTo creates an object as users do: from a manifest of another object, with its labels and
// annotations.
func (s *testCluster) copyTo(namespace, name string, from, o client.Object) {
	s.Expect(s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(from), o)).To(Succeed())
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetOwnerReferences(nil)
	o.SetManagedFields(nil)
	s.Expect(s.Client.Create(s.t.Context(), o, client.FieldOwner("kubectl"))).To(Succeed())
}

// TestDeleteDataKeepsCopies: users copy the manifest of a child. The copy has the label and the
// annotation of the operator.
func TestDeleteDataKeepsCopies(t *testing.T) {
	size.NotInTest(t, "it takes a whole cluster of its own, and TestDeleteDataRemovesEverything uninstalls in one")
	t.Parallel()
	s := newTestCluster(t)
	s.Expect(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})).To(Succeed())
	legacy := cluster.Manifest(t, v1alpha1.KindAppService, "shop", "legacy", "size: 1\ndeletionPolicy: Retain")
	s.Expect(s.Client.Create(t.Context(), legacy)).To(Succeed())
	in := func(o client.Object, namespace, name string) client.Object {
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	s.Eventually(s.exists).WithArguments(&appsv1.Deployment{}, "shop", "legacy").WithTimeout(timeout).Should(BeTrue())
	s.copyTo("other", "legacy", in(&appsv1.Deployment{}, "shop", "legacy"), &appsv1.Deployment{})
	s.copyTo("shop", "copy", in(&appsv1.Deployment{}, "shop", "cache"), &appsv1.Deployment{})
	s.copyTo("other", "ana-token", in(&corev1.Secret{}, "shop", "ana-token"), &corev1.Secret{})
	s.Expect(s.Client.Delete(t.Context(), legacy)).To(Succeed())
	s.Eventually(s.exists).WithArguments(legacy, "shop", "legacy").WithTimeout(timeout).Should(BeFalse())
	s.Expect(s.exists(&appsv1.Deployment{}, "shop", "legacy")).To(BeTrue(), "a retained Deployment")

	output, err := s.uninstall(s.stopWithDeployment(), func(c *uninstall.Config) { c.DeleteData = true })
	s.Expect(err).NotTo(HaveOccurred(), output)
	s.Expect(s.exists(&appsv1.Deployment{}, "shop", "legacy")).To(BeFalse(), "a retained Deployment")
	for _, name := range []string{"Deployment shop/copy", "Deployment other/legacy", "Secret other/ana-token"} {
		s.Expect(output).To(ContainSubstring("kept " + name + ": it has the labels of Bongsu, but the operator did not create it\n"))
	}
	s.Expect(s.exists(&appsv1.Deployment{}, "shop", "copy")).To(BeTrue(), "another name")
	s.Expect(s.exists(&appsv1.Deployment{}, "other", "legacy")).To(BeTrue(), "another namespace, and the owner was deleted before")
	s.Expect(s.exists(&corev1.Secret{}, "other", "ana-token")).To(BeTrue(), "another namespace")
}

func TestDeleteDataRemovesEverything(t *testing.T) {
	t.Parallel()
	s := newTestCluster(t)
	foreign := s.foreign()
	hold := func(finalizers string) {
		ana := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ana"}}
		s.Expect(s.Client.Patch(t.Context(), ana, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+finalizers+`}}`)))).To(Succeed())
	}
	hold(`["example.com/hold"]`)
	release, stop := sync.OnceFunc(func() { hold("null") }), s.stopWithDeployment()
	output, err := s.uninstall(func(line string) {
		if strings.HasSuffix(line, "Jupyter shop/ana, which has the finalizer example.com/hold of another owner") {
			release()
		}
		stop(line)
	}, func(c *uninstall.Config) { c.DeleteData = true })
	s.Expect(err).NotTo(HaveOccurred(), output)

	s.Expect(s.exists(&corev1.Secret{}, "shop", "token")).To(BeFalse(), "a copy")
	s.Expect(s.exists(&corev1.Secret{}, "secretsync", "token")).To(BeTrue(), "the source of a copy")
	s.Expect(s.exists(&corev1.PersistentVolumeClaim{}, "shop", "ana")).To(BeFalse(), "a retained claim")
	s.Expect(output).To(MatchRegexp(`removed Job shop/cache-backup-`), "the app was backed up")
	s.Expect(s.roles()).To(ConsistOf(foreign.Name))
	var crds apiextensionsv1.CustomResourceDefinitionList
	s.Expect(s.Client.List(t.Context(), &crds)).To(Succeed())
	for _, crd := range crds.Items {
		s.Expect(crd.Spec.Group).NotTo(Equal(v1alpha1.Group))
	}
	s.Expect(s.exists(&corev1.Namespace{}, "", namespace)).To(BeFalse())
}
