// Package pkg_test checks what packages for other operators bring along.
package pkg_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that imports one of these packages must not become larger by a part of the operator that it
// does not use.
func TestPackagesForOthersBringNoPartOfTheOperator(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		for _, unwanted := range []string{
			"github.com/bongsu-io/bongsu/internal/", "github.com/bongsu-io/bongsu/api/", "github.com/bongsu-io/bongsu/config",
			"modernc.org/sqlite", "helm.sh/", "github.com/google/cel-go/", "github.com/slack-go/",
		} {
			if strings.HasPrefix(path+"/", unwanted) {
				t.Errorf("a package in pkg/ imports %s", path)
			}
		}
	}
	if !strings.Contains(string(out), "github.com/bongsu-io/bongsu/pkg/localcluster\n") {
		t.Errorf("the list has no package of ours: %s", out)
	}
}
