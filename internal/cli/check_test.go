package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// The test cluster has no workload of the operator, so one check fails.
func TestCheckReportsFailuresByItsExitCode(t *testing.T) {
	c := cluster.Shared(t)
	code, out, errOut := runs(t, "check", "--kubeconfig", c.Kubeconfig())
	if code != command.ExitError || !strings.Contains(errOut, "checks failed") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	if !strings.Contains(out, "\nfail  workload ") || !strings.HasPrefix(out, "ok    API server ") {
		t.Errorf("printed:\n%s", out)
	}

	code, out, _ = runs(t, "check", "--kubeconfig", c.Kubeconfig(), "-o", "json")
	var results []preflight.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != command.ExitError || preflight.Failed(results) != 1 {
		t.Errorf("exit code %d, error %v, printed:\n%s", code, err, out)
	}
	if code, _, _ := runs(t, "check", "--kubeconfig", c.Kubeconfig(), "-o", "yaml"); code != command.ExitUsage {
		t.Errorf("exit code %d for an unknown format", code)
	}
}
