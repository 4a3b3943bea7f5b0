package multicall

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var testBinary = Binary{
	Name:    "controlplane",
	Summary: "Some programs in one binary.",
	Programs: []Program{
		{Name: "etcd", Summary: "stores"},
		{Name: "kubectl", Summary: "asks"},
	},
}

func TestChoose(t *testing.T) {
	tests := map[string]struct {
		argv []string
		want string // the program; empty for none
		args []string
	}{
		"by link":                            {argv: []string{"etcd", "--version"}, want: "etcd", args: []string{"etcd", "--version"}},
		"by absolute link":                   {argv: []string{"/a/b/kubectl", "get"}, want: "kubectl", args: []string{"/a/b/kubectl", "get"}},
		"by relative link":                   {argv: []string{"./etcd"}, want: "etcd", args: []string{"./etcd"}},
		"by link with extension":             {argv: []string{"etcd.exe"}, want: "etcd", args: []string{"etcd.exe"}},
		"by first argument":                  {argv: []string{"bin/controlplane", "kubectl", "get"}, want: "kubectl", args: []string{"kubectl", "get"}},
		"by first argument when renamed":     {argv: []string{"tool", "etcd"}, want: "etcd", args: []string{"etcd"}},
		"the link wins over the argument":    {argv: []string{"kubectl", "etcd"}, want: "kubectl", args: []string{"kubectl", "etcd"}},
		"an argument may not be a path":      {argv: []string{"controlplane", "./etcd"}},
		"only the first argument is a name":  {argv: []string{"controlplane", "--v=2", "etcd"}},
		"a prefix is no name":                {argv: []string{"controlplane", "kube"}},
		"no argument":                        {argv: []string{"controlplane"}},
		"not even a name":                    {argv: nil},
		"a directory of that name is no hit": {argv: []string{"/opt/etcd/controlplane"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			program, args, ok := testBinary.Choose(tc.argv)
			if ok != (tc.want != "") || program.Name != tc.want {
				t.Fatalf("Choose(%q) = %q, %v, want %q", tc.argv, program.Name, ok, tc.want)
			}
			if ok && !slices.Equal(args, tc.args) {
				t.Errorf("Choose(%q) leaves the program %q, want %q", tc.argv, args, tc.args)
			}
		})
	}
}

func TestLinksAreMadeBesideTheBinaryAndReplaced(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "controlplane")
	for range 2 {
		if err := testBinary.Link(binary); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"etcd", "kubectl"} {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != "controlplane" {
			t.Errorf("%s is a link to %q: %v", name, target, err)
		}
	}
}

func TestExplain(t *testing.T) {
	tests := map[string]struct {
		argv     []string
		want     int
		onStdout bool
		mentions string
	}{
		"help":              {argv: []string{"controlplane", "--help"}, want: 0, onStdout: true, mentions: "Usage:"},
		"help as a word":    {argv: []string{"controlplane", "help"}, want: 0, onStdout: true, mentions: "Usage:"},
		"nothing asked":     {argv: []string{"controlplane"}, want: 2, mentions: "Usage:"},
		"unknown component": {argv: []string{"controlplane", "kubelet"}, want: 2, mentions: `no component "kubelet"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if got := testBinary.Explain(tc.argv, &stdout, &stderr); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
			said, silent := &stderr, &stdout
			if tc.onStdout {
				said, silent = &stdout, &stderr
			}
			if silent.Len() > 0 {
				t.Errorf("text on the wrong stream: %s", silent)
			}
			for _, want := range []string{tc.mentions, "etcd     stores\n", "kubectl  asks\n"} {
				if !strings.Contains(said.String(), want) {
					t.Errorf("no %q in:\n%s", want, said)
				}
			}
		})
	}
}
