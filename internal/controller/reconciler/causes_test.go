package reconciler

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// TestWhatControllersKnowIsACause reads in their code which reasons they give.
func TestWhatControllersKnowIsACause(t *testing.T) {
	reasons := map[string]string{} // by the names of their constants
	declared := regexp.MustCompile(`(?m)^\t(Reason\w+) = "(\w+)"$`)
	for _, m := range declared.FindAllStringSubmatch(readFiles(t, "../../../pkg/diagnosis/reasons.go"), -1) {
		reasons[m[1]] = m[2]
	}
	given := regexp.MustCompile(`(?:diagnosis\.Cause\{\s*Reason: |\.found\(no\w+\()(?:v1alpha1|diagnosis)\.(Reason\w+)`)
	found := given.FindAllStringSubmatch(readFiles(t, "../*/*.go"), -1)
	if len(found) < 5 {
		t.Errorf("only %d are found", len(found))
	}
	for _, m := range found {
		if reason := reasons[m[1]]; !diagnosis.IsCause(reason) {
			t.Errorf("%s (%s) is no cause", m[1], reason)
		}
	}
}

func readFiles(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
