package reconciler

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The test reads in the code of the controllers which reasons they use.
func TestReasonsOfControllersAreCauses(t *testing.T) {
	reasons := map[string]string{} // by the names of their constants
	declared := regexp.MustCompile(`(?m)^\t(Reason\w+) = "(\w+)"$`)
	for _, m := range declared.FindAllStringSubmatch(readFiles(t, "../../../pkg/diagnosis/reasons.go")+readFiles(t, "../../../api/v1alpha1/conditions.go"), -1) {
		reasons[m[1]] = m[2]
	}
	used := regexp.MustCompile(`(?:diagnosis\.Cause\{\s*Reason: |\.Add\(no\w+\()(?:v1alpha1|diagnosis)\.(Reason\w+)`)
	found := used.FindAllStringSubmatch(readFiles(t, "../*/*.go"), -1)
	if len(found) < 5 {
		t.Errorf("the test found only %d reasons", len(found))
	}
	for _, m := range found {
		if reason := reasons[m[1]]; !diagnosis.IsCause(reason) {
			t.Errorf("%s (%s) is not a cause", m[1], reason)
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

// listCounter counts lists.
type listCounter struct {
	client.Reader
	n int
}

func (l *listCounter) List(context.Context, client.ObjectList, ...client.ListOption) error {
	l.n++
	return nil
}

// A start without problems has Events as well. A thousand apps that start must not read
// their quotas for each of them.
func TestQuotasAreReadOnlyWhenACreationWasRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reasons []string
		want    int
	}{
		"no Event":               {nil, 0},
		"it starts":              {[]string{"Pulling", "Pulled", "Created", "Started"}, 0},
		"a creation was refused": {[]string{"Pulling", "FailedCreate"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := &listCounter{}
			w := diagnosis.Workload{}
			for _, reason := range tc.reasons {
				w.Events = append(w.Events, diagnosis.Event{Reason: reason})
			}
			if err := (&Helpers{Live: api}).ReadQuotas(t.Context(), "team", &w); err != nil {
				t.Fatal(err)
			}
			if api.n != tc.want {
				t.Errorf("quotas were read %d times, want %d", api.n, tc.want)
			}
		})
	}
}
