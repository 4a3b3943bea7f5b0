package cli

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestOpenExplainsWhyANotebookCannotBeOpened(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t, nil)
	if err := c.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindJupyter, ns, "ana", "suspend: true")); err != nil {
		t.Fatal(err)
	}
	kubeconfig := inContext(t, c, ns)
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"another type":    {[]string{"pods/a"}, command.ExitUsage, "pods cannot be opened: use jupyter/NAME"},
		"a type of none":  {[]string{"widgets/a"}, command.ExitError, `the server has no type "widgets"`},
		"missing":         {[]string{"jupyter/ben"}, command.ExitError, `"ben" not found`},
		"suspended":       {[]string{"jup/ana"}, command.ExitError, "jupyter " + ns + "/ana is suspended: add --resume to start it"},
		"in other spaces": {[]string{"jupyter", "ana", "-n", "elsewhere"}, command.ExitError, `"ana" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runs(t, append([]string{"open", "--no-browser", "--kubeconfig", kubeconfig}, tc.args...)...)
			if code != tc.code || !strings.Contains(errOut, tc.says) || out != "" {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
		})
	}
	_, out, _ := runs(t, "__complete", "open", "--kubeconfig", kubeconfig, "")
	if out != "jupyter/ana\n:4\n" {
		t.Errorf("completion: got %q", out)
	}
}
