package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMutantsAreChosenByName(t *testing.T) {
	all := []mutant{{name: "alarm-a"}, {name: "alarm-b"}, {name: "outbox-a"}}
	for name, tc := range map[string]struct {
		only string
		want []string
	}{
		"all":  {"", []string{"alarm-a", "alarm-b", "outbox-a"}},
		"some": {"^alarm-", []string{"alarm-a", "alarm-b"}},
		"none": {"^jupyter-", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, namesOf(choose(slices.Clone(all), regexp.MustCompile(tc.only)))); d != "" {
				t.Errorf("mutants (-want +got):\n%s", d)
			}
		})
	}
}

func TestTooManyMutantsAreAnError(t *testing.T) {
	root := t.TempDir()
	git(t, root, "init", "--quiet")
	writeFiles(t, root, map[string]string{
		"x.txt": "a\n", "m/one.patch": "# test: go test .\n--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-a\n+b\n",
	})
	one, err := load(root + "/m")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := copyTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(copied.remove)
	mutants := make([]mutant, maxMutants+1)
	for i := range mutants {
		mutants[i] = one[0]
	}
	if err := check(t.Context(), copied, mutants); err == nil {
		t.Errorf("%d mutants: got no error, want one", len(mutants))
	}
	if err := check(t.Context(), copied, mutants[1:]); err != nil {
		t.Errorf("%d mutants: got error %v, want none", maxMutants, err)
	}
}

func TestAMutantThatDoesNotCompileIsAnError(t *testing.T) {
	root := t.TempDir()
	git(t, root, "init", "--quiet")
	writeFiles(t, root, map[string]string{
		"go.mod": "module x\n\ngo 1.26\n", "x.go": code,
		"m/a-valid.patch":      patch("^TestDouble$", double, "func Double(n int) int { return n }"),
		"m/b-uncompiled.patch": patch("^TestDouble$", double, "func Double(n int) int { return nothing }"),
		"m/c-valid.patch":      patch("^TestDouble$", double, "func Double(n int) int { return n }"),
	})
	mutants, err := load(root + "/m")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := copyTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(copied.remove)
	err = check(t.Context(), copied, mutants)
	if !errors.Is(err, errNoBuild) || strings.Contains(err.Error(), "valid") {
		t.Errorf("err = %v, want %v of b-uncompiled alone", err, errNoBuild)
	}
}

func namesOf(mutants []mutant) []string {
	var names []string
	for _, m := range mutants {
		names = append(names, m.name)
	}
	return names
}
