package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// instruction is an instruction of the Dockerfile.
type instruction struct {
	name  string
	flags []string
	args  []string
}

// stages returns the stages of the Dockerfile. The parser is that of BuildKit.
func stages(t *testing.T) [][]instruction {
	t.Helper()
	text, err := os.Open(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = text.Close() }()
	parsed, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var found [][]instruction
	for _, node := range parsed.AST.Children {
		read := instruction{name: strings.ToUpper(node.Value), flags: node.Flags}
		for next := node.Next; next != nil; next = next.Next {
			read.args = append(read.args, next.Value)
		}
		if read.name == "FROM" {
			found = append(found, nil)
		}
		last := len(found) - 1
		found[last] = append(found[last], read)
	}
	return found
}

// Without an engine, the test can only compare the instructions.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	read := stages(t)
	got := map[string][]string{}
	for _, i := range read[len(read)-1] {
		got[i.name] = i.args
	}
	delete(got, "COPY")
	want := map[string][]string{
		"FROM": {"scratch"}, "USER": {user}, "WORKDIR": {"/"}, "ENTRYPOINT": {binaryPath},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheDockerfileCopiesTheSourcesOfTheOperator(t *testing.T) {
	var copied []string
	for _, stage := range stages(t) {
		for _, i := range stage {
			if i.name != "COPY" || slices.ContainsFunc(i.flags, func(flag string) bool { return strings.HasPrefix(flag, "--from=") }) {
				continue
			}
			copied = append(copied, i.args[:len(i.args)-1]...)
		}
	}
	for _, name := range copied {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("COPY: %v", err)
		}
	}
	for _, folder := range builtFolders(t) {
		if !slices.Contains(copied, folder) {
			t.Errorf("the operator contains packages of %s, which is not copied", folder)
		}
	}
}

// builtFolders returns the folders of the repository that contain packages of the operator.
func builtFolders(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Module", "./cmd/bongsu-operator")
	list.Dir = root
	list.Env = append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var pkg struct {
			ImportPath string
			Module     *struct{ Main bool }
		}
		if err := decoder.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
		if pkg.Module != nil && pkg.Module.Main {
			_, within, _ := strings.Cut(pkg.ImportPath, "/bongsu/")
			folders = append(folders, strings.Split(within, "/")[0])
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}
