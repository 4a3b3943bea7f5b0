// Package size makes tests smaller where they run often. make test runs the smallest size, make
// test-e2e a larger one, and make soak everything, for hours. A test that is smaller reports it as a
// measurement, which make test prints at its end. Benchmarks are smaller only in make test-e2e.
package size

import (
	"fmt"
	"os"
	"testing"
)

// Variable is the environment variable with the size. It is empty in make test.
const Variable = "BONGSU_TEST_SIZE"

// The values of [Variable].
const (
	E2E  = "e2e"
	Soak = "soak"
)

// Choose returns how many things a test uses, by the size of the run.
func Choose(t testing.TB, test, e2e, soak int, things string) int {
	t.Helper()
	n := test
	switch os.Getenv(Variable) {
	case E2E:
		n = e2e
	case Soak:
		n = soak
	}
	if n < soak {
		report(t, fmt.Sprintf("%d of %d %s", n, soak, things), Soak)
	}
	return n
}

// NotInTest skips a test that make test does not run. why is a reason for the report: which other
// tests check the behavior, at what cost.
func NotInTest(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		report(t, "does not run: "+why, E2E)
		t.SkipNow()
	}
}

func report(t testing.TB, text, size string) {
	t.Helper()
	t.Attr("summary", fmt.Sprintf("%s, set %s=%s for all", text, Variable, size))
}
