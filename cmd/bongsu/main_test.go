package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/binary"
)

// allowed are packages of data and names. They run nothing and import no controller.
var allowed = []string{
	"internal/controller/secretshare/share",
	"internal/controller/workload",
	"internal/operator/embedded",
	"internal/feature",
	"internal/operator/options",
	"internal/operator/permissions",
	"internal/policies/specs",
}

func TestTheCLILinksNeitherTheOperatorNorAController(t *testing.T) {
	linked := binary.Packages(t, "bongsu")
	if !slices.Contains(linked, "internal/cli") {
		t.Fatalf("internal/cli is missing in %q", linked)
	}
	for _, path := range linked {
		ofOperator := strings.HasPrefix(path+"/", "internal/operator/") || strings.HasPrefix(path+"/", "internal/controller/")
		if ofOperator && !slices.Contains(allowed, path) {
			t.Errorf("bongsu links %s", path)
		}
	}
}
