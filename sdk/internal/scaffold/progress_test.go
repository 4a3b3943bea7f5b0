package scaffold

import (
	"fmt"
	"strings"
	"testing"
)

func TestABuildPrintsItsProgressAndKeepsItsMessages(t *testing.T) {
	var out strings.Builder
	p := &progress{out: &out}
	var output strings.Builder
	for i := range 101 {
		_, _ = fmt.Fprintf(&output, "example.com/p%d\n", i)
	}
	output.WriteString("# example.com/p1\n./a.go:1:2: undefined: x\n")
	for part := range strings.SplitSeq(output.String(), "1") { // writes end anywhere
		for _, written := range []string{part, "1"} {
			if _, err := p.Write([]byte(written)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := "  compiled 50 packages, which takes minutes the first time\n  compiled 100 packages\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	if want := "# example.com/p1\n./a.go:1:2: undefined: x"; strings.Join(p.messages, "\n") != want {
		t.Errorf("messages %q, want %q", p.messages, want)
	}
}
