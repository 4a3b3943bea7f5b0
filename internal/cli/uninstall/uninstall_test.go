package uninstall_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/cli/uninstall"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const (
	namespace = "bongsu-system"
	patience  = 3 * time.Minute
)

// scene is a cluster in which a rule has copied a Secret, a notebook has a claim, and
// an app is to be backed up before it is deleted. The operator runs in the test: the
// pods of the Deployment are simulated.
type scene struct {
	*WithT
	*cluster.Cluster
	t        *testing.T
	operator *cluster.Operator
}

func newScene(t *testing.T) *scene {
	s := &scene{WithT: NewWithT(t), t: t, Cluster: cluster.StartBare(t, cluster.Whole(1))}
	values, err := chart.Values(nil, nil)
	s.Expect(err).NotTo(HaveOccurred())
	objects, err := chart.Render(namespace, values)
	s.Expect(err).NotTo(HaveOccurred())
	installer, err := install.New(s.RESTConfig(), func(string) {})
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.Expect(installer.Upgrade(ctx, namespace, objects)).To(Succeed())
	s.operator = s.StartOperator(t, func(o *options.Options) { o.LeaderElect = true })

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
	s.Eventually(s.exists).WithArguments(&corev1.Secret{}, "shop", "token").WithTimeout(patience).Should(BeTrue())
	s.Eventually(s.exists).WithArguments(&corev1.PersistentVolumeClaim{}, "shop", "ana").WithTimeout(patience).Should(BeTrue())
	s.Eventually(func() []string { return s.app().Finalizers }).WithTimeout(patience).Should(ContainElement(v1alpha1.FinalizerBackup))
	return s
}

func (s *scene) app() *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	s.Expect(s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: "cache"}, app)).To(Succeed())
	return app
}

func (s *scene) exists(o client.Object, namespace, name string) bool {
	err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if !apierrors.IsNotFound(err) {
		s.Expect(err).NotTo(HaveOccurred())
	}
	return err == nil
}

// uninstall is `bongsu uninstall`. heard is told each line.
func (s *scene) uninstall(heard func(string), change ...func(*uninstall.Config)) (string, error) {
	manifests, err := chart.Everything(namespace)
	s.Expect(err).NotTo(HaveOccurred())
	var said strings.Builder
	c := uninstall.Config{REST: s.RESTConfig(), Namespace: namespace, Manifests: manifests, Progress: func(line string) {
		said.WriteString(line + "\n")
		heard(line)
	}}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	err = uninstall.Run(ctx, c)
	return said.String(), err
}

// drain stands for the operator's pod: it ends when the Deployment is removed.
func (s *scene) drain() func(string) {
	stop := sync.OnceFunc(func() { s.Expect(s.operator.Stop()).To(Succeed()) })
	return func(line string) {
		if strings.HasPrefix(line, "removed Deployment bongsu-system/bongsu") {
			stop()
		}
	}
}

// foreign is somebody's who uses the same label.
func (s *scene) foreign() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: "bongsu-auditors", Labels: map[string]string{install.LabelPartOf: install.PartOf},
	}}
	s.Expect(s.Client.Create(s.t.Context(), role)).To(Succeed())
	return role
}

func (s *scene) roles() []string {
	var roles rbacv1.ClusterRoleList
	s.Expect(s.Client.List(s.t.Context(), &roles, client.MatchingLabels{install.LabelPartOf: install.PartOf})).To(Succeed())
	var names []string
	for _, role := range roles.Items {
		names = append(names, role.Name)
	}
	return names
}

func TestWhatUsersHaveMadeStaysAndCanBeDeletedWithoutTheOperator(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	foreign := s.foreign()
	said, err := s.uninstall(func(string) {}, func(c *uninstall.Config) { c.DryRun = true })
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(said).To(ContainSubstring("would remove Deployment bongsu-system/bongsu"))
	s.Expect(s.roles()).To(ContainElement("bongsu"))

	// The operator of the test is none of the Deployment's pods: it is found by its lease.
	_, err = s.uninstall(func(string) {})
	s.Expect(err).To(MatchError(uninstall.ErrStillRuns))
	s.Expect(s.app().Finalizers).NotTo(BeEmpty(), "it would put them back")

	s.Expect(s.operator.Stop()).To(Succeed())
	said, err = s.uninstall(func(string) {})
	s.Expect(err).NotTo(HaveOccurred(), said)
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
	s.Eventually(s.exists).WithArguments(shop, "", "shop").WithTimeout(patience).Should(BeFalse())
	s.Expect(s.exists(rule, "", rule.Name)).To(BeFalse())
}

func TestNothingIsLeftWhenTheDataIsToGoAsWell(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	foreign := s.foreign()
	said, err := s.uninstall(s.drain(), func(c *uninstall.Config) { c.DeleteData = true })
	s.Expect(err).NotTo(HaveOccurred(), said)

	s.Expect(s.exists(&corev1.Secret{}, "shop", "token")).To(BeFalse(), "a copy")
	s.Expect(s.exists(&corev1.Secret{}, "secretsync", "token")).To(BeTrue(), "what was copied is not ours")
	s.Expect(s.exists(&corev1.PersistentVolumeClaim{}, "shop", "ana")).To(BeFalse(), "a claim that was to be retained")
	s.Expect(said).To(MatchRegexp(`removed Job shop/cache-backup-`), "the app was backed up")
	s.Expect(s.roles()).To(ConsistOf(foreign.Name))
	var crds apiextensionsv1.CustomResourceDefinitionList
	s.Expect(s.Client.List(t.Context(), &crds)).To(Succeed())
	for _, crd := range crds.Items {
		s.Expect(crd.Spec.Group).NotTo(Equal(v1alpha1.Group))
	}
	s.Expect(s.exists(&corev1.Namespace{}, "", namespace)).To(BeFalse())
}

func TestDataIsNotDeletedWhileNobodyCleansUpBehindIt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.Expect(s.operator.Stop()).To(Succeed())
	_, err := s.uninstall(func(string) {}, func(c *uninstall.Config) { c.DeleteData = true })
	s.Expect(err).To(MatchError(uninstall.ErrNobodyLeads))
	s.Expect(s.app().DeletionTimestamp).To(BeNil())
	s.Expect(s.exists(&corev1.Secret{}, "shop", "token")).To(BeTrue())
}
