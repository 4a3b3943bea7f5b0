package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// kubectl finds plugins by their names in $PATH. Arguments, the kubeconfig, the output and the
// exit code are those of bongsu.
func TestKubectlRunsBongsuAsAPlugin(t *testing.T) {
	c := cluster.Shared(t)
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(binary.Bongsu(t, t.TempDir()), filepath.Join(path, "kubectl-bongsu")); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) (code int, out, errOut string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), args...)
		cmd.Env = []string{"PATH=" + path, "KUBECONFIG=" + c.Kubeconfig()}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
	}

	// The test cluster has no workload of the operator, so one check fails.
	code, out, errOut := kubectl("bongsu", "check", "-o", "json")
	var results []preflight.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != command.ExitError || preflight.Failed(results) != 1 {
		t.Errorf("exit code %d, error %v, printed:\n%s\n%s", code, err, out, errOut)
	}
	code, _, errOut = kubectl("bongsu", "lokal")
	if code != command.ExitUsage || !strings.Contains(errOut, `unknown command "lokal"`) {
		t.Errorf("exit code %d for an unknown command: %s", code, errOut)
	}
}
