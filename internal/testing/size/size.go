// Package size makes tests smaller where every change runs them. make test-e2e sets the
// variable Full and runs them in full. A test that is smaller reports it as a measurement,
// which make test prints at its end.
package size

import (
	"fmt"
	"os"
	"testing"
)

// Full is the environment variable that makes tests run in full, if it is not empty.
const Full = "BONGSU_TEST_FULL"

// Choose returns how many things a test uses: all if it runs in full, otherwise few.
func Choose(t testing.TB, few, all int, things string) int {
	t.Helper()
	if os.Getenv(Full) != "" {
		return all
	}
	report(t, fmt.Sprintf("%d of %d %s", few, all, things))
	return few
}

// OnlyFull skips a test that does not run in full. why is a reason for the report: which
// other tests check the behavior, at what cost.
func OnlyFull(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Full) == "" {
		report(t, "does not run: "+why)
		t.SkipNow()
	}
}

func report(t testing.TB, text string) {
	t.Helper()
	t.Attr("summary", text+", set "+Full+"=1 for all")
}
