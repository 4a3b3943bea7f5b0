package diagnosis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachItemHasALine(t *testing.T) {
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprint("field ", i))
	}
	for name, tc := range map[string]struct {
		advice, sentence, lines string
		items                   []string
	}{
		"none":      {"correct it", "it is wrong: correct it", "it is wrong: correct it", nil},
		"one":       {"correct it", "it is wrong: a: correct it", "it is wrong: a: correct it", []string{"a"}},
		"two":       {"correct it", "it is wrong: a; b: correct it", "it is wrong:\n- a\n- b\ncorrect it", []string{"a", "b"}},
		"no advice": {"", "it is wrong: a; b", "it is wrong:\n- a\n- b", []string{"a", "b"}},
		"many": {
			"", "it is wrong: " + strings.Join(many[:20], "; ") + "; and 10 more", "it is wrong:\n- " + strings.Join(many[:20], "\n- ") + "\n- and 10 more", many,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cause{Message: "it is wrong", Advice: tc.advice}
			c.SetItems(tc.items)
			if got := c.Sentence(); got != tc.sentence {
				t.Errorf("the sentence is %q, want %q", got, tc.sentence)
			}
			if got := c.Lines(); got != tc.lines {
				t.Errorf("the lines are %q, want %q", got, tc.lines)
			}
			var read Cause
			read.SetLines(c.Lines())
			if len(c.Items) == 0 {
				c = Cause{Message: c.Sentence()}
			}
			if diff := cmp.Diff(c, read); diff != "" {
				t.Errorf("read again (-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant's text with line breaks must not look like items of ours.
func TestALineBreakInAnItemIsRemoved(t *testing.T) {
	c := Cause{Reason: ReasonInvalidSpec, Message: "it is wrong"}
	c.SetItems([]string{"a\n- forged", "b"})
	d := Diagnose(Workload{Known: []Cause{c}})
	if want := "it is wrong:\n- a - forged\n- b"; d.Cause.Lines() != want {
		t.Errorf("got %q, want %q", d.Cause.Lines(), want)
	}
}
