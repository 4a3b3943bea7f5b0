package guide

import "testing"

func TestTheGuideToExplainingWorksAsWritten(t *testing.T) {
	hands, _ := follow(t, "../../docs/explain.md")
	for _, text := range []string{
		"(the largest node has 4 CPU; the pod requests 64)\n  Advice: request less cpu",
		"container \"app\" was killed because it used more memory than its limit of 64Mi\n  Advice: raise resources.limits.memory",
		`"reason": "OOMKilled"`,
	} {
		hands.await("everything so far", text)
	}
}
