package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/node"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// patience is how long what must happen is waited for: the machine may be busy.
const patience = 3 * time.Minute

// The images, which `make e2e-node` has put into archives.
const (
	operatorRepository = "localhost/bongsu"
	firstTag           = "e2e-1"
	secondTag          = "e2e-2"
	memcachedImage     = "localhost/memcached:e2e"
	notebookImage      = "localhost/jupyter-notebook:e2e"
)

// world is the one cluster of the test, and all that its parts share.
type world struct {
	*node.Cluster
	client client.WithWatch
	worker *node.Node
	// joiner joins when the operator is at work. No pods are for it.
	joiner *node.Node
	// alarms is where ClusterAlarmReceiver "ops" sends to.
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
			t.Fatalf("an image is missing, which `make e2e-node` makes: %v", err)
		}
		paths = append(paths, path)
	}
	return paths
}

// part runs a part of the test. When one fails, those that follow would only fail too.
func (w *world) part(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	begun := time.Now()
	if !t.Run(name, run) {
		t.FailNow()
	}
	t.Logf("%s: %v", name, time.Since(begun).Round(100*time.Millisecond))
}

// kubectl runs kubectl as an administrator and returns what it prints. It fails with it.
func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.tryKubectl(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply is `kubectl apply` of a manifest.
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

// bongsu runs the command line tool as an administrator, and fails with it.
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

// get is one field of an object, empty while there is none.
func (w *world) get(t *testing.T, object, namespace, jsonpath string) string {
	t.Helper()
	out, err := w.tryKubectl(t, "", "get", object, "-n", namespace, "-o", "jsonpath="+jsonpath)
	if err != nil {
		return err.Error()
	}
	return out
}

// await waits until a field of an object is as expected.
func (w *world) await(t *testing.T, object, namespace, jsonpath, want string) {
	t.Helper()
	NewWithT(t).Eventually(func() string { return w.get(t, object, namespace, jsonpath) }).
		Should(Equal(want), func() string { return w.kubectl(t, "describe", object, "-n", namespace) })
}

// condition is the path of a condition's status.
func condition(kind string) string { return `{.status.conditions[?(@.type=="` + kind + `")].status}` }
