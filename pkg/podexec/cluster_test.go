package podexec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

const nodeName = "node-0"

// tools is a directory with links to all programs that commands in pods can use.
var tools string

// startShared starts the cluster of all tests. Commands in its pods run on this machine.
var startShared = sync.OnceValues(func() (*localcluster.Cluster, error) {
	return localcluster.Start(context.Background(), localcluster.Config{
		Dir: filepath.Join(tools, ".cluster"), Components: []localcluster.Component{localcluster.Kwok},
		Nodes: 1, ExecPath: tools, UnsafeNoFsync: true, GCPercent: 200,
	})
})

// started reports whether a test has called startShared.
var started atomic.Bool

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	dir, err := os.MkdirTemp("", "podexec-tools-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tools = dir
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		files, _ := filepath.Glob(filepath.Join(from, "*"))
		for _, file := range files {
			_ = os.Symlink(file, filepath.Join(dir, filepath.Base(file))) // the first one counts
		}
	}
	defer func() {
		if !started.Load() {
			return
		}
		if c, err := startShared(); err == nil {
			_ = c.Stop(context.Background())
		}
	}()
	return m.Run()
}

// environment is a pod in the shared cluster, and a runner with all permissions.
type environment struct {
	*localcluster.Cluster
	*podexec.Runner
	client kubernetes.Interface
	target podexec.Target
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	t.Attr("rerun", "allowed")
	g := NewWithT(t)
	started.Store(true)
	c, err := startShared()
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	e := &environment{Cluster: c, Runner: runnerFor(t, c.RESTConfig()), client: client}
	e.target = e.createPod(t)
	return e
}

// createPod creates a pod on the node. Without a scheduler and a controller manager, the
// test creates the service account and tolerates the taint of a new node.
func (e *environment) createPod(t *testing.T) podexec.Target {
	t.Helper()
	g := NewWithT(t)
	namespace, err := e.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = e.client.CoreV1().ServiceAccounts(namespace.Name).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		node, err := e.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		return node.Status.DaemonEndpoints.KubeletEndpoint.Port, err
	}).ShouldNot(BeZero(), "the node has not joined")
	pod, err := e.client.CoreV1().Pods(namespace.Name).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "it"},
		Spec: corev1.PodSpec{
			NodeName: nodeName, TerminationGracePeriodSeconds: new(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "app", Image: "example.com/app:1"}},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return podexec.Target{Namespace: pod.Namespace, Pod: pod.Name, Container: "app", UID: pod.UID}
}

func runnerFor(t *testing.T, config *rest.Config) *podexec.Runner {
	t.Helper()
	r, err := podexec.New(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return r
}

var users atomic.Int64

// runnerWith returns the runner of a new user with these verbs on pods/exec.
func (e *environment) runnerWith(t *testing.T, verbs ...string) *podexec.Runner {
	t.Helper()
	g := NewWithT(t)
	user := fmt.Sprintf("user-%d", users.Add(1))
	meta := metav1.ObjectMeta{Namespace: e.target.Namespace, Name: user}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	if len(verbs) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: verbs})
	}
	_, err := e.client.RbacV1().Roles(meta.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = e.client.RbacV1().RoleBindings(meta.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (bool, error) {
		review, err := e.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: meta.Namespace, Resource: "pods", Verb: "get",
			}},
		}, metav1.CreateOptions{})
		return review.Status.Allowed, err
	}).Should(BeTrue())
	config, err := e.ClientConfigFor(user)
	g.Expect(err).NotTo(HaveOccurred())
	return runnerFor(t, config)
}
