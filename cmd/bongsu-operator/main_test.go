package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/binary"
)

func TestTheOperatorLinksNeitherHelmNorTheCLI(t *testing.T) {
	linked := binary.Packages(t, "bongsu-operator")
	if !slices.Contains(linked, "internal/operator") {
		t.Fatalf("internal/operator is missing in %q", linked)
	}
	for _, path := range linked {
		if strings.HasPrefix(path, "helm.sh/") || strings.HasPrefix(path+"/", "internal/cli/") {
			t.Errorf("bongsu-operator links %s", path)
		}
	}
}
