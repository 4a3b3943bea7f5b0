package guide

import (
	"strings"
	"testing"
)

func TestTheGuideToNotebooksWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/jupyter.md")
	for _, text := range []string{
		"4Gi", // the limit that was raised, after the restart
		"container \"notebook\" was killed because it used more memory than its limit of 1Gi",
	} {
		hands.await("everything so far", text)
	}
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(hands.output.String(), secret) {
			t.Errorf("%q was shown", secret)
		}
	}
}
