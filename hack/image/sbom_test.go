package main

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// listedModules are Go and the modules of a list, with their versions.
func listedModules(t *testing.T, text []byte) []string {
	t.Helper()
	var list cyclonedx.BOM
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, c := range *list.Components {
		found = append(found, c.Name+" "+c.Version)
	}
	slices.Sort(found)
	return found
}

var dependency = regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`)

// goVersion is what the Go command says that a binary is made of.
func goVersion(t *testing.T, binary string) []string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := []string{"stdlib " + strings.TrimPrefix(runtime.Version(), "go")}
	for _, m := range dependency.FindAllStringSubmatch(string(said), -1) {
		found = append(found, m[1]+" "+m[2])
	}
	if len(found) == 1 {
		t.Fatalf("go version -m names no module:\n%s", said)
	}
	slices.Sort(found)
	return found
}
