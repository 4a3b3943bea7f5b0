package diagnosis

import (
	"strings"
	"testing"
)

// Each text has the root once, with its advice instead of that of the cause. The identity and the last failure do not
// have it, because its text can change while the failure is the same.
func TestTheRootOfACauseIsInItsTexts(t *testing.T) {
	c := &Cause{Reason: ReasonFailedMount, Message: `Secret "db" does not exist`, Advice: "create it"}
	identity, failure := c.Identity(), newFailure(c, c.Time)
	c.SetRoot(Root{Message: `ExternalSecret "db" has a problem: denied at 10:01`, Advice: "ask for access"})
	const want = `Secret "db" does not exist: ExternalSecret "db" has a problem: denied at 10:01: ask for access`
	if got := c.Sentence(); got != want {
		t.Errorf("sentence: %s", got)
	}
	if got := c.Lines(); got != want {
		t.Errorf("lines: %s", got)
	}
	if c.Identity() != identity || newFailure(c, c.Time).Message != failure.Message {
		t.Error("the root is a part of what identifies the failure")
	}
	c.Items = []string{"a", "b"}
	if got := c.Lines(); strings.Count(got, "ExternalSecret") != 1 || !strings.HasSuffix(got, "\nask for access") {
		t.Errorf("with items: %s", got)
	}
}

// The sentence of a cause with a root fits into an Event.
func TestARootIsCutToTheLimitOfASentence(t *testing.T) {
	for _, length := range []int{10, 600, maxMessage - minRoot, maxMessage} {
		c := &Cause{Reason: ReasonFailedMount, Message: strings.Repeat("m", length), Advice: strings.Repeat("a", maxAdvice)}
		c.SetRoot(Root{Message: strings.Repeat("r", 4096), Advice: strings.Repeat("b", 4096)})
		if got := len(c.Sentence()); got > 1024 {
			t.Errorf("%d bytes with a message of %d", got, length)
		}
	}
}
