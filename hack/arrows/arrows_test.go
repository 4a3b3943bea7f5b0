package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes the files of a package, and returns its directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, code := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package p\n"+code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestArrowsAreUsesOfNamesOfOtherFiles(t *testing.T) {
	const server = "import \"net/http\"\ntype server struct { client http.Client; next *server }\nfunc (s *server) run() {}\n"
	for name, tc := range map[string]struct {
		user, used string
		want       string // the names
	}{
		"a type":                   {"var s server", server, "server"},
		"a method":                 {"func use() { find().run() }", server + "func find() *server { return nil }", "find run"},
		"a field":                  {"func use() { find().next = nil }", server + "func find() *server { return nil }", "find next"},
		"the method of a file":     {"func (s *server) stop() {}", server, "server"},
		"a function with types":    {"var _ = first([]int{})", "func first[T any](all []T) T { return all[0] }", "first"},
		"a local of the same name": {"func use() { server := 1; _ = server }", server, ""},
		"another package":          {"import \"server\"\nvar _ = server.X", "type other int", ""},
		"a comment":                {"// server", server, ""},
		"the language":             {"var _ = len(\"server\")", server, ""},
	} {
		t.Run(name, func(t *testing.T) {
			graphs, err := load(write(t, map[string]string{"user.go": tc.user, "used.go": tc.used, "used_test.go": tc.user}))
			if err != nil || len(graphs) != 1 {
				t.Fatalf("%d packages, error %v", len(graphs), err)
			}
			g := graphs[0]
			if got := strings.Join(g.names(arrow{"user.go", "used.go"}), " "); got != tc.want || len(g.arrows) > 1 {
				t.Errorf("got %q, want %q: %v", got, tc.want, g.arrows)
			}
		})
	}
}

func TestUphillArrowsAreTheFewestThatLeadBack(t *testing.T) {
	for name, tc := range map[string]struct {
		arrows string
		want   []string // one of these, each a list
	}{
		"none without a cycle":               {"ab bc ac cd", []string{""}},
		"one of two that use each other":     {"ab ba ac bc", []string{"ab", "ba"}},
		"the one that closes several cycles": {"ab bc cd da ac bd ce ef", []string{"da"}},
		"one of each cycle":                  {"ab bc ca cd de ef fd", []string{"ab de", "ab ef", "ab fd", "bc de", "bc ef", "bc fd", "ca de", "ca ef", "ca fd"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := graph{files: strings.Split("abcdef", ""), arrows: map[arrow]map[string]bool{}}
			for pair := range strings.FieldsSeq(tc.arrows) {
				g.add(pair[:1], pair[1:], "x")
			}
			var got []string
			for _, a := range g.uphill() {
				got = append(got, a.from+a.to)
			}
			if !slices.Contains(tc.want, strings.Join(got, " ")) {
				t.Errorf("got %q, want one of %q", got, tc.want)
			}
		})
	}
}

func TestThePercentageOfAPackageIsLimited(t *testing.T) {
	dir := write(t, map[string]string{"a.go": "var a = b", "b.go": "const b = 1; var _ = a", "c.go": "var _ = a"})
	for limit, want := range map[string]string{
		"33": "fewer than 10 arrows: 33.3 % of the arrows between its files are uphill, the limit is 33 %: list them with -v, and move what a lower file uses",
		"34": "",
	} {
		var out strings.Builder
		got := ""
		if err := run(&out, []string{"-v", "-max", limit, dir}); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(out.String(), dir+": b.go uses a.go: a\n") && !strings.Contains(out.String(), dir+": a.go uses b.go: b\n") {
			t.Errorf("the uphill arrow is missing: %s", out.String())
		}
	}
}
