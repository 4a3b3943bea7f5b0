package guide

import (
	"strings"
	"testing"
)

func TestTheGuideToWatchingWorksAsWritten(t *testing.T) {
	_, screens := follow(t, "../../docs/watch.md")
	for command, screen := range screens {
		for _, value := range []string{"s3cret", "czNjcmV0", "n3w", "bjN3"} {
			if strings.Contains(screen.output.String(), value) {
				t.Errorf("%s prints a value of a Secret:\n%s", command, screen.output)
			}
		}
	}
}
