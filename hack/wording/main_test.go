package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// enterRepository changes to a new repository that contains these files.
func enterRepository(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := exec.CommandContext(t.Context(), "git", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, output)
	}
}

func TestFindingsArePrintedAndFail(t *testing.T) {
	files := map[string]string{
		"a.md":     "It is told.\n\nIt fares well.\n",
		"b/a.go":   "// Package b is told.\npackage b\n",
		"b/b.md":   "It works.\n",
		"go.sum":   "It is told.\n",
		"b/c.yaml": "# It is made anew.\n",
	}
	const (
		told   = `"told": write reports, shows, emits, logs, notifies, distinguishes` + "\n"
		fares  = `"fares": write status, unhealthy` + "\n"
		anew   = `"anew": write recreated, again` + "\n"
		counts = "     2 .\n     2 b\n     4 in total\n"
	)
	for name, tc := range map[string]struct {
		args    []string
		want    string
		wantErr error
	}{
		"all files":   {nil, "a.md:1: " + told + "a.md:3: " + fares + "b/a.go:1: " + told + "b/c.yaml:1: " + anew, errFindings},
		"a directory": {[]string{"b"}, "b/a.go:1: " + told + "b/c.yaml:1: " + anew, errFindings},
		"a count":     {[]string{"-count"}, counts, errFindings},
		"no findings": {[]string{"b/b.md"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			enterRepository(t, files)
			var out strings.Builder
			if err := run(t.Context(), tc.args, &out); !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilesAreListed(t *testing.T) {
	enterRepository(t, map[string]string{
		".gitattributes":    "/docs/reference/** linguist-generated\n",
		".gitignore":        "/bin/\n",
		"a.md":              "",
		"bin/a.md":          "",
		"docs/a.md":         "",
		"docs/b.md":         "",
		"docs/reference/a":  "",
		"internal/a.go":     "",
		"pkg/testdata/a.md": "",
	})
	for name, tc := range map[string]struct {
		paths, want []string
	}{
		"all":                      {nil, []string{".gitattributes", ".gitignore", "a.md", "docs/a.md", "docs/b.md", "internal/a.go"}},
		"a directory":              {[]string{"docs"}, []string{"docs/a.md", "docs/b.md"}},
		"a directory and a file":   {[]string{"docs", "a.md"}, []string{"a.md", "docs/a.md", "docs/b.md"}},
		"a path that is not clean": {[]string{"./internal/"}, []string{"internal/a.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := listFiles(t.Context(), tc.paths)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
	for _, path := range []string{"absent", "docs/reference"} {
		if files, err := listFiles(t.Context(), []string{path}); err == nil {
			t.Errorf("no error for %s, which has no files to check: %v", path, files)
		}
	}
}

func TestExceptionsCoverFindings(t *testing.T) {
	exceptions := []exception{{path: "docs", text: "was told so", reason: "a quote"}, {path: "b", text: "*", reason: "data"}}
	for name, tc := range map[string]struct {
		file, content string
		want          int
	}{
		"none":                           {"a.md", "It was told so.", 1},
		"an entry of the list":           {"docs/a.md", "It was\ntold so.", 0},
		"an entry for another directory": {"docs2/a.md", "It was told so.", 1},
		"an entry for another text":      {"docs/a.md", "It was told.", 1},
		"a mark in Markdown":             {"a.md", "It was told so. <!-- wording:ok a quote -->", 0},
		"an entry for any text":          {"b/a.md", "It was told.", 0},
		"a mark in Go":                   {"a.go", "package a\n\nvar b = \"was told so\" //wording:ok a quote\n", 0},
		"a mark in YAML":                 {"a.yaml", "# It was told so. # wording:ok a quote", 0},
		"a mark in another line":         {"a.yaml", "# It was told so.\na: b # wording:ok a quote", 1},
		"a mark without a reason":        {"a.md", "It was told so. <!-- wording:ok -->", 2},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := checkFile(tc.file, []byte(tc.content), exceptions)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != tc.want {
				t.Errorf("%d findings, want %d: %v", len(found), tc.want, found)
			}
		})
	}
}

// Paths that are removed or renamed must not remain in the list.
func TestExceptionsAreValid(t *testing.T) {
	exceptions, err := parseExceptions(exceptionList)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exceptions {
		if e.text == "" || e.reason == "" {
			t.Errorf("exceptions.txt: the entry for %s has no text or no reason", e.path)
		}
		if _, err := os.Stat(filepath.Join("../..", e.path)); err != nil {
			t.Errorf("%s is listed, but does not exist: remove the entry", e.path)
		}
	}
	if _, err := parseExceptions("docs | a text\n"); err == nil {
		t.Error("no error for an exception without a reason")
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	if err := run(t.Context(), []string{"-help"}, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v, want %v", err, flag.ErrHelp)
	}
}
