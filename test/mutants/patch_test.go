package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTestsAreReadFromTheHeader(t *testing.T) {
	const diff = "\n--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-a\n+b\n"
	for name, tc := range map[string]struct {
		patch string
		want  []testArgs
	}{
		"one":             {"# test: go test ./internal/x -run TestA" + diff, []testArgs{{"./internal/x", "-run", "TestA"}}},
		"several":         {"# test: go test ./a\n# why: because\n# test: go test ./b" + diff, []testArgs{{"./a"}, {"./b"}}},
		"quoted":          {"# test: go test ./x -run 'TestA|TestB/a b'" + diff, []testArgs{{"./x", "-run", "TestA|TestB/a b"}}},
		"half quoted":     {`# test: go test ./x -run="^Test"A$` + diff, []testArgs{{"./x", "-run=^TestA$"}}},
		"a git diff":      {"# test: go test ./x\ndiff --git a/x.go b/x.go" + diff, []testArgs{{"./x"}}},
		"not in the diff": {"# test: go test ./x" + diff + "+# test: go test ./y\n", []testArgs{{"./x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseHeader(strings.NewReader(tc.patch))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("tests (-want +got):\n%s", d)
			}
		})
	}
}

func TestAPatchWithoutAValidTestIsRejected(t *testing.T) {
	for name, patch := range map[string]string{
		"no header":         "--- a/x.go\n+++ b/x.go\n",
		"after the diff":    "--- a/x.go\n# test: go test ./x\n",
		"another command":   "# test: rm -r ./x\n",
		"an unclosed quote": "# test: go test ./x -run 'TestA\n",
		"an empty file":     "",
		"a command prefix":  "# test: go testing ./x\n",
	} {
		t.Run(name, func(t *testing.T) {
			if tests, err := parseHeader(strings.NewReader(patch)); err == nil {
				t.Errorf("got tests %v, want an error", tests)
			}
		})
	}
}

func TestAnUnclosedQuoteIsAnError(t *testing.T) {
	if _, err := splitWords(`-run "TestA`); !errors.Is(err, errQuote) {
		t.Errorf("err = %v, want %v", err, errQuote)
	}
}

func TestTheModuleIsSplitFromTheOtherArguments(t *testing.T) {
	for name, tc := range map[string]struct{ args, dir, rest testArgs }{
		"another module": {testArgs{"-C", "tools/x", ".", "-run", "A"}, testArgs{"-C", "tools/x"}, testArgs{".", "-run", "A"}},
		"this module":    {testArgs{"./x", "-run", "A"}, nil, testArgs{"./x", "-run", "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, rest := tc.args.module()
			if !slices.Equal(dir, tc.dir) || !slices.Equal(rest, tc.rest) {
				t.Errorf("module() = %q, %q, want %q, %q", dir, rest, tc.dir, tc.rest)
			}
		})
	}
}
