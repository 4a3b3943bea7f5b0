package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // reads as in the tests
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// namespacePrefix begins the names of the namespaces that Namespace creates.
const namespacePrefix = "test-"

// Namespace creates a namespace for a test. labels may be nil.
func (c *Cluster) Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix, Labels: labels}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// NamespaceAgain creates a namespace whose predecessor of this name is deleted, or being deleted. It
// waits until objects can be created in it. For a moment, the admission of the API server still
// knows the former one, which is being terminated.
func (c *Cluster) NamespaceAgain(t testing.TB, name string) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		return c.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}).WithTimeout(time.Minute).Should(Succeed())
	g.Eventually(func() error {
		return c.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "accepted"}}, client.DryRunAll)
	}).WithTimeout(time.Minute).Should(Succeed())
}

// Rule allows verbs on a resource of an API group.
func Rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

var users atomic.Int64

// User creates a user with these permissions and returns its configuration. They apply in
// the namespace, or in all namespaces if it is empty.
func (c *Cluster) User(t testing.TB, namespace string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	name := fmt.Sprintf("user-%d", users.Add(1))
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
	var role, binding client.Object = &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
	if namespace == "" {
		role, binding = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}
	}
	for _, o := range []client.Object{role, binding} {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitRules(t, name, namespace, rules)
	config, err := c.ClientConfigFor(name)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// awaitRules waits until the API server allows a user what the rules say.
func (c *Cluster) awaitRules(t testing.TB, user, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			attributes := &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0],
			}
			if len(rule.ResourceNames) > 0 {
				attributes.Name = rule.ResourceNames[0]
			}
			if err := c.awaitAllowed(t.Context(), user, attributes); err != nil {
				t.Fatalf("%s is still not allowed to %s %s: %v", user, verb, rule.Resources[0], err)
			}
		}
	}
}

func (c *Cluster) awaitAllowed(ctx context.Context, user string, attributes *authorizationv1.ResourceAttributes) error {
	return wait.PollUntilContextTimeout(ctx, polling, eventually, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
		}
		err := c.Client.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// Kubectl returns a function that runs kubectl with a configuration and returns its
// output.
func (c *Cluster) Kubectl(t testing.TB, config *rest.Config) func(args ...string) (string, error) {
	t.Helper()
	path := Kubeconfig(t, config)
	dir, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl"), append([]string{"--kubeconfig", path}, args...)...).CombinedOutput()
		if err != nil {
			return string(out), fmt.Errorf("kubectl: %w", err)
		}
		return string(out), nil
	}
}

// Kubeconfig writes a configuration to a kubeconfig file and returns its path.
func Kubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(config), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubeconfigOf(config *rest.Config) clientcmdapi.Config {
	const name = "test"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	return *kubeconfig
}

// denied is the name of a ConfigMap that every policy of Deny also refuses. It shows
// whether the policy is active.
const denied = "denied"

// Deny creates an admission policy that refuses operations on a resource of the core group
// in a namespace. It returns when the policy is active. message is a CEL expression, which
// may quote the object. The policy is removed when the test ends or lift is called.
func (c *Cluster) Deny(t testing.TB, namespace, resource, message string, operations ...admissionv1.OperationType) (lift func()) {
	t.Helper()
	g := NewWithT(t)
	fail := admissionv1.Fail
	of := func(resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "deny-"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{
					{RuleWithOperations: of(resource, operations...)},
					{RuleWithOperations: of("configmaps", admissionv1.Create), ResourceNames: []string{denied}},
				},
			},
			Validations: []admissionv1.Validation{{Expression: "false", MessageExpression: message}},
		},
	}
	g.Expect(c.Client.Create(t.Context(), policy)).To(Succeed())
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	g.Expect(c.Client.Create(t.Context(), binding)).To(Succeed())
	lift = func() {
		t.Helper()
		for _, o := range []client.Object{binding, policy} {
			g.Expect(client.IgnoreNotFound(c.Client.Delete(context.Background(), o))).To(Succeed())
		}
	}
	t.Cleanup(lift)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: denied}}
	g.Eventually(func() error { return c.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(ContainSubstring(policy.Name)))
	return lift
}

// AllowChanges gives the operator a role for changes of objects. The controller manager, which
// adds such roles to bongsu-changes, does not run in every cluster.
func (c *Cluster) AllowChanges(t testing.TB, role string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "changes-of-" + role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "bongsu-system", Name: "bongsu"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
	if err := c.Client.Create(t.Context(), binding); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}
