package size_test

import (
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// recorder is the part of a test that the package uses.
type recorder struct {
	testing.TB
	summary string
	skipped bool
}

func (r *recorder) Helper()                { /* no frames to hide */ }
func (r *recorder) Attr(_, summary string) { r.summary = summary }
func (r *recorder) SkipNow()               { r.skipped = true }

func TestTheVariableChoosesTheSizeOfATest(t *testing.T) {
	for name, tc := range map[string]struct {
		variable string
		want     int
		skipped  bool
		sized    string
		left     string
	}{
		"in make test":     {"", 10, true, "10 of 1000 Events, set BONGSU_TEST_SIZE=soak for all", "does not run: TestA checks it, set BONGSU_TEST_SIZE=e2e for all"},
		"in make test-e2e": {size.E2E, 100, false, "100 of 1000 Events, set BONGSU_TEST_SIZE=soak for all", ""},
		"in make soak":     {size.Soak, 1000, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(size.Variable, tc.variable)
			sized, left := &recorder{}, &recorder{}
			if got := size.Choose(sized, 10, 100, 1000, "Events"); got != tc.want {
				t.Errorf("got %d Events, want %d", got, tc.want)
			}
			if sized.summary != tc.sized {
				t.Errorf("reported %q, want %q", sized.summary, tc.sized)
			}
			if size.NotInTest(left, "TestA checks it"); left.skipped != tc.skipped || left.summary != tc.left {
				t.Errorf("skipped %t, reported %q, want %t, %q", left.skipped, left.summary, tc.skipped, tc.left)
			}
		})
	}
}
