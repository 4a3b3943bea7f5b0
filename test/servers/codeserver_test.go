package servers

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
)

// entryPoint is where `make e2e-servers` installs code-server.
var entryPoint = filepath.Join("..", "..", "bin", "e2e", "code-server", "node_modules", "code-server", "out", "node", "entry.js")

// codeServer is the sample notebook that runs code-server.
func codeServer(t *testing.T) *v1alpha1.Jupyter {
	t.Helper()
	objects, err := samples.Jupyters()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == "vscode" })
	if i < 0 {
		t.Fatal("there is no sample vscode")
	}
	var j v1alpha1.Jupyter
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, &j, true); err != nil {
		t.Fatal(err)
	}
	return &j
}

// startCodeServer runs the command of a notebook. It skips the test if code-server or Node.js is missing.
func startCodeServer(t *testing.T, j *v1alpha1.Jupyter) (address string) {
	t.Helper()
	entry, err := filepath.Abs(entryPoint)
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no code-server: it needs Node.js and npm")
	}
	version, err := exec.CommandContext(t.Context(), node, "--version").Output()
	if major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), "."); err != nil || len(major) < 2 || major < "20" {
		t.Skipf("no code-server: it needs Node.js 20 or later, not %s", strings.TrimSpace(string(version)))
	}
	if _, err := os.Stat(entry); err != nil {
		t.Skipf("no code-server: run `make e2e-servers`, which installs it if npm can: %v", err)
	}
	password := j.Spec.Template.Spec.Containers[0].Env[0].Name + "=correct-horse"
	return start(t, j.Spec.Server.ReadinessPath, []string{password}, func(host, port string) []string {
		here := strings.NewReplacer("0.0.0.0:8080", net.JoinHostPort(host, port), j.Spec.Storage.MountPath, t.TempDir())
		command := []string{node, entry, "--disable-telemetry", "--disable-update-check"}
		for _, arg := range j.Spec.Server.Command[1:] {
			command = append(command, here.Replace(arg))
		}
		return command
	})
}

// This runs the command of the sample. code-server answers its readiness and activity path without its password. Requests to that
// path do not count as use, but those of a browser do, although code-server changes its
// lastHeartbeat at most once a minute. The npm package is installed without the native modules
// of the editor, so no tab shows the editor.
func TestCodeServerIsCulledWhenNoBrowserUsesIt(t *testing.T) {
	t.Parallel()
	j := codeServer(t)
	target := server.Target{Address: startCodeServer(t, j), ActivityPath: j.Spec.Server.ActivityPath}
	if status, _ := request(t, http.MethodGet, "http://"+target.Address+"/proxy/1/", ""); status != http.StatusFound {
		t.Errorf("status %d, want a redirect to the page that asks for the password", status)
	}
	browse := func(culling.Observation) {
		if status, body := request(t, http.MethodGet, "http://"+target.Address+"/login", ""); status != http.StatusOK {
			t.Fatalf("GET /login: %d %s", status, body)
		}
	}
	browse(culling.Observation{})
	if used := ask(t, target).Server; time.Since(used) > patience {
		t.Fatalf("the last use is %v, want that of the request", used)
	}
	n := newNotebook(v1alpha1.CullingActivityServer, 0)
	begun := time.Now()
	watch(t, target, []*notebook{n}, browse, func() bool { return time.Since(begun) > 3*idle })
	expectReason(t, n, v1alpha1.ReasonActive)

	last := time.Now()
	watch(t, target, []*notebook{n}, func(culling.Observation) {}, func() bool { return !n.culled.IsZero() })
	if got := n.culled.Sub(last); got < idle-2*time.Second {
		t.Errorf("culled %v after its last use, want %v at least", got, idle)
	}
}
