package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/node"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestTheOperatorOnARealNode(t *testing.T) {
	w := newWorld(t)
	w.part(t, "a node becomes ready", func(t *testing.T) { w.await(t, "node/worker", "", condition("Ready"), "True") })
	before := w.objects(t)
	w.part(t, "the operator is installed", w.install)
	w.part(t, "an alarm reports a new node", w.nodeJoins)
	w.part(t, "a notebook with a real Jupyter server starts", w.startNotebook)
	w.part(t, "alarms report the cause of failing pods", w.podsFail)
	w.part(t, "an alarm reports a rollout that hangs, and its end", w.rolloutHangs)
	w.part(t, "secrets are shared", w.shareSecrets)
	w.part(t, "apps are health-checked", w.checkApps)
	w.part(t, "an alarm reports a dead node", w.nodeDies)
	w.part(t, "an idle notebook is stopped and started again", w.cullNotebook)
	w.part(t, "the leader is evicted during a flood", w.evictLeader)
	w.part(t, "the operator is upgraded during a flood", w.upgrade)
	w.part(t, "the operator's permissions are sufficient", w.checkPermissions)
	w.part(t, "the operator is removed", func(t *testing.T) { w.uninstall(t, before) })
}

// checkPermissions checks that no request of the operator was forbidden. Package
// test/permissions finds unused permissions from the requests of all tests.
func (w *world) checkPermissions(t *testing.T) {
	requests := audit.Requests(t, w.AuditLog(), audit.Operator)
	if len(requests) == 0 {
		t.Fatal("the audit log contains no request of the operator")
	}
	NewWithT(t).Expect(audit.Denied(requests)).To(BeEmpty(), "forbidden requests of the operator")
	NewWithT(t).Expect(audit.Save(audit.SaveDir(), w.AuditLog())).To(Succeed())
}

func TestMain(m *testing.M) { node.Main(m) }

const system = "bongsu-system"

// values returns the flags that select the image with a tag.
func values(tag string) []string {
	return []string{
		"--set", "image.repository=" + operatorRepository, "--set", "image.tag=" + tag, "--set", "image.pullPolicy=Never",
		"--set", "clusterName=e2e", "--set", "controllers={" + strings.Join(feature.Names(feature.All()), ",") + "}",
	}
}

// install installs the operator as docs/install.md says, with one command.
func (w *world) install(t *testing.T) {
	manifests := w.bongsu(t, append([]string{"install"}, values(firstTag)...)...)
	w.apply(t, manifests)
	w.kubectl(t, "rollout", "status", "deployment/bongsu", "-n", system, "--timeout=3m")
	w.await(t, "lease/bongsu", system, "{.metadata.name}", "bongsu")
	// 90 % of 512 MiB.
	if log := w.kubectl(t, "logs", "deployment/bongsu", "-n", system); !strings.Contains(log, `"Go's memory is limited, below the limit of the container","bytes":483183820`) {
		t.Errorf("the operator does not know the memory limit of its container:\n%s", log)
	}
}

// uninstall removes the operator and everything that it created. It then deletes the objects
// of the test, and compares the cluster with the state before the installation.
func (w *world) uninstall(t *testing.T, before []string) {
	w.bongsu(t, "uninstall", "--delete-data", "--yes", "--kubeconfig", w.Kubeconfig())
	g := NewWithT(t)
	for _, namespace := range []string{"lab", "apps", "shop"} {
		g.Expect(w.kubectl(t, "get", "deployments,statefulsets,services,secrets,persistentvolumeclaims",
			"-n", namespace, "-o", "name")).To(BeEmpty(), "objects of the operator in "+namespace)
	}
	w.kubectl(t, "delete", "persistentvolume", "lab")
	w.kubectl(t, "delete", "namespace", "shop", "apps", "lab", "secretsync", "flood")
	g.Eventually(func() []string {
		return slices.DeleteFunc(w.objects(t), func(o string) bool { return slices.Contains(before, o) })
	}).Should(BeEmpty(), "objects that did not exist before the installation")
}

// objects lists all objects of the cluster, except those that Kubernetes changes by itself.
func (w *world) objects(t *testing.T) []string {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(w.RESTConfig()).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var resources []string
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if slices.Contains(r.Verbs, "list") && !slices.Contains(transient, r.Name) {
				resources = append(resources, version.WithResource(r.Name).GroupResource().String())
			}
		}
	}
	return strings.Fields(w.kubectl(t, "get", strings.Join(resources, ","), "--all-namespaces", "--ignore-not-found",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`))
}

// transient are the resources that objects omits. The second node is one of them.
var transient = []string{"events", "leases", "nodes", "csinodes", "endpoints", "ipaddresses", "componentstatuses"}

// patience is the time limit for each step. The machine may be busy.
const patience = 3 * time.Minute

// The images, which `make e2e-node` builds.
const (
	operatorRepository = "localhost/bongsu"
	firstTag           = "e2e-1"
	secondTag          = "e2e-2"
	memcachedImage     = "localhost/memcached:e2e"
	notebookImage      = "localhost/jupyter-notebook:e2e"
)

// world is the cluster of the test, and what its parts share.
type world struct {
	*node.Cluster
	client client.WithWatch
	worker *node.Node
	// joiner joins after the installation. No pods run on it.
	joiner *node.Node
	// alarms is the destination of ClusterAlarmReceiver "ops".
	alarms *sink.Sink
	dir    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	w := &world{Cluster: node.Start(t), dir: t.TempDir()}
	w.worker = w.AddNode(t, "worker", archives(t))
	w.alarms = sink.NewAt(t, node.Address)
	var err error
	if w.client, err = cluster.ClientFor(w.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	return w
}

func archives(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, name := range []string{"bongsu-" + firstTag, "bongsu-" + secondTag, "memcached", "jupyter-notebook"} {
		path := filepath.Join("..", "..", "bin", "e2e", name+".tar")
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("image not found: run `make e2e-node`, which builds it: %v", err)
		}
		paths = append(paths, path)
	}
	return paths
}

// part runs a part of the test. If it fails, the later parts do not run.
func (w *world) part(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	begun := time.Now()
	if !t.Run(name, run) {
		t.FailNow()
	}
	t.Logf("%s: %v", name, time.Since(begun).Round(100*time.Millisecond))
}

// kubectl runs kubectl as an administrator and returns its output. The test fails if kubectl
// fails.
func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.tryKubectl(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply runs `kubectl apply` with a manifest.
func (w *world) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := w.tryKubectl(t, manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (w *world) tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, input, filepath.Join(assets, "kubectl"), append([]string{"--kubeconfig", w.Kubeconfig()}, args...)...)
}

// bongsu runs the CLI as an administrator. The test fails if it fails.
func (w *world) bongsu(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, "", filepath.Join("..", "..", "bin", "bongsu"), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func run(t *testing.T, input, path string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %v: %w\n%s%s", filepath.Base(path), args, err, out.String(), failed.String())
	}
	return out.String(), nil
}

// get returns a field of an object. While the object does not exist, it returns the error.
func (w *world) get(t *testing.T, object, namespace, jsonpath string) string {
	t.Helper()
	out, err := w.tryKubectl(t, "", "get", object, "-n", namespace, "-o", "jsonpath="+jsonpath)
	if err != nil {
		return err.Error()
	}
	return out
}

// await waits until a field of an object has this value.
func (w *world) await(t *testing.T, object, namespace, jsonpath, want string) {
	t.Helper()
	NewWithT(t).Eventually(func() string { return w.get(t, object, namespace, jsonpath) }).
		Should(Equal(want), func() string { return w.kubectl(t, "describe", object, "-n", namespace) })
}

// condition returns the JSONPath of a condition's status.
func condition(kind string) string { return `{.status.conditions[?(@.type=="` + kind + `")].status}` }
