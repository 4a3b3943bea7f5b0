package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/command"
)

func TestInvalidCommandLinesSayWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"no such command":       {[]string{"lokal"}, command.ExitUsage, []string{`unknown command "lokal"`, "local", "see 'bongsu --help'"}},
		"no such flag":          {[]string{"local", "--dri", "x"}, command.ExitUsage, []string{"--dri", "see 'bongsu local --help'"}},
		"too many arguments":    {[]string{"version", "now"}, command.ExitUsage, []string{"now", "see 'bongsu version --help'"}},
		"an unknown format":     {[]string{"local", "--log-format", "xml"}, command.ExitUsage, []string{`--log-format is "xml"`, "json or text"}},
		"an unknown output":     {[]string{"watch", "-o", "yaml"}, command.ExitUsage, []string{`--output is "yaml": use text or json`, "see 'bongsu watch --help'"}},
		"a bad selector":        {[]string{"watch", "-l", "a=(("}, command.ExitUsage, []string{"--selector", "see 'bongsu watch --help'"}},
		"two namespaces":        {[]string{"watch", "-n", "shop", "-A"}, command.ExitUsage, []string{"--namespace and --all-namespaces exclude each other"}},
		"two types":             {[]string{"watch", "pods", "nodes"}, command.ExitUsage, []string{"see 'bongsu watch --help'"}},
		"open without name":     {[]string{"open", "jupyter"}, command.ExitUsage, []string{"use TYPE/NAME, such as jupyter/ana", "see 'bongsu open --help'"}},
		"a bad address":         {[]string{"open", "jupyter/ana", "--address", "lab"}, command.ExitUsage, []string{`--address is "lab": use an IP address`}},
		"a bad port":            {[]string{"open", "jupyter/ana", "--port", "70000"}, command.ExitUsage, []string{"--port"}},
		"watch without cluster": {[]string{"watch", "--kubeconfig", "none"}, command.ExitError, []string{"--kubeconfig", "KUBECONFIG"}},
		"unknown chart value":   {[]string{"install", "--set", "replica=1"}, command.ExitUsage, []string{"'replica' not allowed", "see 'bongsu install --help'"}},
		"not confirmed":         {[]string{"uninstall", "--kubeconfig", "none"}, command.ExitError, []string{"nothing was removed"}},
		"a valid command line":  {[]string{"version"}, command.ExitOK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if got := Run(t.Context(), tc.args, &out, &errOut); got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(errOut.String(), want) {
					t.Errorf("standard error lacks %q:\n%s", want, errOut.String())
				}
			}
		})
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"local", "--help"}, {"watch", "--help"}, {"open", "--help"}, {"install", "--help"}, {"uninstall", "--help"}, {"check", "--help"}, {"version", "--help"}, {"completion", "bash"}} {
		var out, errOut bytes.Buffer
		if got := Run(t.Context(), args, &out, &errOut); got != command.ExitOK || out.Len() == 0 {
			t.Errorf("%v: exit code %d, %d bytes of help", args, got, out.Len())
		}
	}
}
