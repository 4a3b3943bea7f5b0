package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// failing is the output of a package whose test fails. %s is in its place.
const failing = `
{"Action":"attr","Package":"a.io/p","Test":"TestA","Key":"rerun","Value":"%s"}
{"Action":"output","Package":"a.io/p","Test":"TestA/sub","Output":"    a_test.go:1: lost\n"}
{"Action":"fail","Package":"a.io/p","Test":"TestA/sub","Elapsed":0.2}
{"Action":"fail","Package":"a.io/p","Test":"TestA","Elapsed":0.2}
{"Action":"output","Package":"a.io/p","Output":"FAIL\n"}
{"Action":"output","Package":"a.io/p","Output":"FAIL\ta.io/p\t1.6s\n"}
{"Action":"fail","Package":"a.io/p","Elapsed":1.6}
`

func TestOnlyAFewTestsOnAControlPlaneRunAgain(t *testing.T) {
	onControlPlane := fmt.Sprintf(failing, allowed)
	other := func(text string) string { return strings.ReplaceAll(text, "a.io/p", "a.io/q") }
	six := ""
	for _, test := range []string{"TestA", "TestB", "TestC", "TestD", "TestE", "TestF"} {
		six += other(strings.ReplaceAll(onControlPlane, "TestA", test))
	}
	for name, tc := range map[string]struct {
		output string
		want   bool
	}{
		"a test on a control plane":          {onControlPlane, true},
		"a unit test":                        {strings.ReplaceAll(onControlPlane, `"rerun"`, `"summary"`), false},
		"a test with random input":           {fmt.Sprintf(failing, never), false},
		"a unit test beside it":              {onControlPlane + other(strings.ReplaceAll(onControlPlane, `"rerun"`, `"summary"`)), false},
		"a subtest says that it is random":   {strings.Replace(onControlPlane, "\n{", "\n"+`{"Action":"attr","Package":"a.io/p","Test":"TestA/sub","Key":"rerun","Value":"never"}`+"\n{", 1), false},
		"six tests":                          {six, false},
		"a package that does not compile":    {onControlPlane + `{"ImportPath":"a.io/q [a.io/q.test]","Action":"build-fail"}` + "\n", false},
		"a package that fails without tests": {onControlPlane + `{"Action":"output","Package":"a.io/q","Output":"FAIL\n"}` + "\n" + `{"Action":"fail","Package":"a.io/q"}` + "\n", false},
		"a panic":                            {strings.ReplaceAll(onControlPlane, `"FAIL\n"`, `"panic: lost\n"`), false},
		"os.Exit in a test":                  {strings.Replace(onControlPlane, "\n{", "\n"+`{"Action":"output","Package":"a.io/p","Test":"TestB","Output":"=== RUN   TestB\n"}`+"\n{", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resultsOf(t, io.Discard, tc.output).mayRunAgain(); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// The tests of this package pass when they run for the nth time.
const flaky = `package a

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFlaky(t *testing.T) {
	t.Attr("rerun", "allowed")
	files, _ := filepath.Glob("ran-*")
	f, err := os.CreateTemp(".", "ran-")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	t.Run("sub", func(t *testing.T) {
		if len(files) < FAILURES {
			t.Errorf("lost after %d runs", len(files))
		}
	})
}

func TestOther(t *testing.T) {
	f, err := os.CreateTemp(".", "other-")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
`

func TestAFailedTestRunsAgainAloneAndAtMostTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		failures   string
		passes     bool
		runs       int
		want, lack string
	}{
		"passes":              {"0", true, 1, "ok ", "again"},
		"passes at the first": {"1", true, 2, "TestFlaky passed when it ran again, 1 of 2 times. It failed with:\n", "\nFailed:"},
		"passes at the last":  {"2", true, 3, "TestFlaky passed when it ran again, 2 of 2 times. It failed with:\n", "\nFailed:"},
		"never passes":        {"9", false, 3, "TestFlaky failed again. It failed with:\n", "passed when"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range map[string]string{"go.mod": "module github.com/a/a\n", "a_test.go": strings.ReplaceAll(flaky, "FAILURES", tc.failures)} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out strings.Builder
			err := run(&out, []string{"-count=1", "./..."})
			if exit, _ := errors.AsType[*exec.ExitError](err); (err == nil) != tc.passes || err != nil && exit == nil {
				t.Errorf("got error %v", err)
			}
			if !strings.Contains(out.String(), tc.want) || strings.Contains(out.String(), tc.lack) {
				t.Errorf("want %q and not %q in\n%s", tc.want, tc.lack, &out)
			}
			if tc.runs > 1 && !strings.Contains(out.String(), "lost after 0 runs\n") {
				t.Errorf("the first output is missing in\n%s", &out)
			}
			for pattern, want := range map[string]int{"ran-*": tc.runs, "other-*": 1} {
				if files, _ := filepath.Glob(filepath.Join(dir, pattern)); len(files) != want {
					t.Errorf("%s: %d runs, want %d", pattern, len(files), want)
				}
			}
		})
	}
}
