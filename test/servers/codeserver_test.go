package servers

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
)

// entryPoint is where `make e2e-servers` installs code-server.
var entryPoint = filepath.Join("..", "..", "bin", "e2e", "code-server", "node_modules", "code-server", "out", "node", "entry.js")

// startCodeServer skips the test if code-server or Node.js is missing.
func startCodeServer(t *testing.T) (address string) {
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
	data := t.TempDir()
	return start(t, "/healthz", []string{"PASSWORD=correct-horse"}, func(host, port string) []string {
		return []string{
			node, entry, "--bind-addr=" + host + ":" + port, "--auth=password", "--disable-telemetry", "--disable-update-check",
			"--config=" + filepath.Join(data, "config.yaml"), "--user-data-dir=" + data, "--extensions-dir=" + data,
		}
	})
}

// code-server answers its readiness and activity path without its password. Requests to that
// path do not count as use, but those of a browser do, although code-server changes its
// lastHeartbeat at most once a minute. The npm package is installed without the native modules
// of the editor, so no tab shows the editor.
func TestCodeServerIsCulledWhenNoBrowserUsesIt(t *testing.T) {
	t.Parallel()
	target := server.Target{Address: startCodeServer(t), ActivityPath: "/healthz"}
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
