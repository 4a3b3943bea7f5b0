package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	code = `package x

// Double is tested, Triple is not.
func Double(n int) int { return 2 * n }

func Triple(n int) int { return 3 * n }
`
	tests = `package x

import "testing"

func TestDouble(t *testing.T) {
	if Double(2) != 4 {
		t.Fatal("wrong")
	}
}

func TestNothing(t *testing.T) { Triple(1) }

func TestRed(t *testing.T) { t.Fatal("always") }
`
	// later fails in the second run only: the first run removes a file.
	later = `package x

import (
	"os"
	"testing"
)

func TestLater(t *testing.T) {
	if Double(2) != 4 && os.Remove(%q) != nil {
		t.Fatal("wrong")
	}
}
`
)

// patch returns a mutant that replaces one line of the code.
func patch(test, from, to string) string {
	context := " " + strings.ReplaceAll(strings.TrimSuffix(code, "\n"), "\n", "\n ")
	hunk := strings.Replace(context, " "+from, "-"+from+"\n+"+to, 1)
	return "# test: go test . -run '" + test + "'\n--- a/x.go\n+++ b/x.go\n@@ -1,6 +1,6 @@\n" + hunk + "\n"
}

const (
	double = "func Double(n int) int { return 2 * n }"
	triple = "func Triple(n int) int { return 3 * n }"
)

func TestEachMutantIsCaughtSurvivesOrIsBroken(t *testing.T) {
	root, aside := t.TempDir(), t.TempDir()
	writeFiles(t, aside, map[string]string{"file": ""})
	writeFiles(t, root, map[string]string{
		"go.mod": "module x\n\ngo 1.26\n", "x.go": code, "x_test.go": tests,
		"later_test.go":          fmt.Sprintf(later, filepath.Join(aside, "file")),
		"m/a-caught.patch":       patch("^TestDouble$", double, "func Double(n int) int { return n }"),
		"m/b-survived.patch":     patch("^TestNothing$", triple, "func Triple(n int) int { return n }"),
		"m/c-uncompiled.patch":   patch("^TestDouble$", double, "func Double(n int) int { return nothing }"),
		"m/d-stale.patch":        strings.Replace(patch("^TestDouble$", double, "func Double(n int) int { return n }"), "2 * n", "4 * n", 1),
		"m/e-misnamed.patch":     patch("^TestMissing$", double, "func Double(n int) int { return n }"),
		"m/f-red.patch":          patch("^TestRed$", double, "func Double(n int) int { return n }"),
		"m/g-caught-again.patch": patch("^TestDouble$", double, "func Double(n int) int { panic(n) }"),
		"m/h-half.patch":         "# test: go test . -run TestNothing\n" + patch("^TestDouble$", double, "func Double(n int) int { return n }"),
		"m/i-caught-later.patch": patch("^TestLater$", double, "func Double(n int) int { return n }"),
	})
	git(t, root, "init", "--quiet")

	got, err := runMutants(t, root)

	want := []string{
		"caught a-caught", "SURVIVED b-survived", "BROKEN c-uncompiled", "BROKEN d-stale",
		"BROKEN e-misnamed", "BROKEN f-red", "caught g-caught-again", "SURVIVED h-half",
		"caught i-caught-later, in the second run", "3 passed, 6 failed",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	if !errors.Is(err, errNotAllCaught) {
		t.Errorf("err = %v, want %v", err, errNotAllCaught)
	}
}

// runMutants returns the printed results and the summary, without times and reasons.
func runMutants(t *testing.T, root string) ([]string, error) {
	t.Helper()
	mutants, err := load(filepath.Join(root, "m"))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := copyTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(copied.remove)
	var out bytes.Buffer
	r := runner{tree: copied, baselines: map[string]error{}, out: &out}
	err = r.runAll(t.Context(), mutants)
	t.Log("\n" + out.String())
	var lines []string
	line := regexp.MustCompile(`(?m)^(caught|SURVIVED|BROKEN) +(\S+) +[\d.]+s(.*)$|^(\d+ passed, .*)$`)
	for _, m := range line.FindAllStringSubmatch(out.String(), -1) {
		lines = append(lines, strings.TrimSpace(m[1]+" "+m[2]+m[3]+m[4]))
	}
	return lines, err
}

func TestTheCheckoutIsNotChanged(t *testing.T) {
	root := t.TempDir()
	writeFiles(t, root, map[string]string{
		"go.mod": "module x\n\ngo 1.26\n", "x.go": code, "x_test.go": tests, ".gitignore": "/bin/\n", "bin/large": "",
		"m/caught.patch": patch("^TestDouble$", double, "func Double(n int) int { return n }"),
	})
	git(t, root, "init", "--quiet")

	copied, err := copyTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(copied.remove)
	if err := copied.applyPatch(t.Context(), filepath.Join(root, "m/caught.patch")); err != nil {
		t.Fatal(err)
	}

	if got := readFile(t, filepath.Join(root, "x.go")); got != code {
		t.Errorf("checkout: x.go = %s, want it unchanged", got)
	}
	if got := readFile(t, filepath.Join(copied.dir, "x.go")); got == code {
		t.Error("copy: x.go is unchanged, want the mutant")
	}
	if _, err := os.Stat(filepath.Join(copied.dir, "bin")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("copy: bin: got error %v, want that it does not exist", err)
	}
}

func TestTheOutcomeOfATestRun(t *testing.T) {
	// The events are from real runs of Go 1.26.
	const (
		packagePass = `{"Action":"output","Package":"x","Output":"ok  \tx\t0.003s\n"}` + "\n" + `{"Action":"pass","Package":"x"}`
		packageFail = `{"Action":"fail","Package":"x"}`
		noTests     = `{"Action":"output","Package":"x","Output":"testing: warning: no tests to run\n"}` + "\n" + packagePass
		testPass    = `{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"x","Test":"TestA"}`
		testSkip    = `{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"skip","Package":"x","Test":"TestA"}`
		testFail    = `{"Action":"run","Package":"x","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"x","Test":"TestA"}`
		buildFail   = `{"ImportPath":"x","Action":"build-output","Output":"x.go:1:1: undefined: y\n"}` + "\n" +
			`{"ImportPath":"x","Action":"build-fail"}` + "\n" + `{"Action":"fail","Package":"x","FailedBuild":"x"}`
	)
	for name, tc := range map[string]struct {
		events []string
		want   outcome
	}{
		"passed":                      {[]string{testPass, packagePass}, passed},
		"failed":                      {[]string{testFail, packageFail}, failed},
		"one of two failed":           {[]string{testFail, testPass, packageFail}, failed},
		"the process died":            {[]string{packageFail}, failed},
		"no test has the name":        {[]string{noTests}, notRun},
		"all are skipped":             {[]string{testSkip, packagePass}, notRun},
		"does not compile":            {[]string{buildFail}, noBuild},
		"one of two does not compile": {[]string{testFail, packageFail, buildFail}, noBuild},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := readEvents(strings.NewReader(strings.Join(tc.events, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("outcome = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheOutputOfATestRunIsKept(t *testing.T) {
	_, output, err := readEvents(strings.NewReader(`{"Action":"output","Output":"a\n"}{"Action":"build-output","Output":"b\n"}`))
	if err != nil || output != "a\nb\n" {
		t.Errorf("got output %q, error %v, want %q", output, err, "a\nb\n")
	}
}

func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
