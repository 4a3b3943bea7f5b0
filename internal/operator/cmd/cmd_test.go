package cmd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/testing/binary"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/version"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// run executes bongsu-operator with these arguments.
func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr cluster.Buffer
	code = command.Run(t.Context(), New(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestAWrongCommandLineSaysWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"unknown command":    {[]string{"pendign"}, command.ExitUsage, []string{`unknown command "pendign"`, "see 'bongsu-operator --help'"}},
		"unknown flag":       {[]string{"--datadir", "x"}, command.ExitUsage, []string{"--datadir", "see 'bongsu-operator --help'"}},
		"invalid option":     {[]string{"--data-dir", ""}, command.ExitUsage, []string{"--data-dir must not be empty"}},
		"unknown log format": {[]string{"--kubeconfig", "none", "--log-format", "xml"}, command.ExitUsage, []string{`--log-format is "xml"`, "json or text"}},
		"no options file":    {[]string{"--config", "none"}, command.ExitUsage, []string{"--config: open none"}},
		"no cluster":         {[]string{"--kubeconfig", "none"}, command.ExitError, []string{"--kubeconfig", "KUBECONFIG"}},
		"negative limit":     {[]string{"pending", "--limit", "-1"}, command.ExitUsage, []string{"--limit is -1", "see 'bongsu-operator pending --help'"}},
		"unknown output":     {[]string{"pending", "-o", "text"}, command.ExitUsage, []string{"use table, json or yaml"}},
		"no outbox":          {[]string{"pending", "--data-dir", t.TempDir()}, command.ExitError, []string{"no outbox in"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := run(t, tc.args...)
			if code != tc.code || out != "" {
				t.Errorf("exit code %d, want %d; output %q", code, tc.code, out)
			}
			for _, want := range tc.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("standard error lacks %q:\n%s", want, errOut)
				}
			}
		})
	}
}

func TestHelpVersionAndCompletion(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"help":            {[]string{"--help"}, "bongsu-operator --kubeconfig ~/.kube/config"},
		"help of pending": {[]string{"pending", "--help"}, "/bongsu-operator pending"},
		"version flag":    {[]string{"--version"}, "bongsu-operator version " + version.String()},
		"version":         {[]string{"version"}, version.String() + " (go"},
		"completion":      {[]string{"completion", "bash"}, "bongsu-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := run(t, tc.args...)
			if code != command.ExitOK || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d: %s%s", code, out, errOut)
			}
			if strings.Contains(out, "--local") {
				t.Error("the help shows a hidden flag")
			}
		})
	}
}

func TestTheFlagLocalNeedsItsParent(t *testing.T) {
	dir := t.TempDir()
	operator := binary.Operator(t, dir)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	content := `{clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	file, err := os.Open(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for name, tc := range map[string]struct {
		files []*os.File
		want  string
	}{
		"no file":         {nil, "--local is for the command bongsu local: remove it"},
		"not a pipe":      {[]*os.File{file}, "--local is for the command bongsu local: remove it"},
		"another version": {[]*os.File{write}, "bongsu has version v0.0.1, but bongsu-operator has version "},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(operator, "--local=v0.0.1", "--kubeconfig", kubeconfig, "--data-dir", filepath.Join(dir, "data"))
			c.ExtraFiles = tc.files
			out, err := c.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != command.ExitUsage || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v: %s, want %q", err, out, tc.want)
			}
		})
	}
}
