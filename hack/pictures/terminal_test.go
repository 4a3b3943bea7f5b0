package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATerminalShowsEachLineAtItsPlace(t *testing.T) {
	got := drawTerminal([]entry{
		{"kubectl get pods", "NAME   READY\nweb    0/1\n"},
		{"bongsu explain pod/web", "\n  image \"web\" <none> & more\n"},
	})
	want := []string{
		`<text x="18" y="52" textLength="144"><tspan class="prompt">$ </tspan><tspan class="command">kubectl get pods</tspan></text>`,
		`<text x="18" y="70" textLength="96">NAME   READY</text>`,
		`<text x="18" y="88" textLength="80">web    0/1</text>`,
		`<text x="18" y="124" textLength="192"><tspan class="prompt">$ </tspan><tspan class="command">bongsu explain pod/web</tspan></text>`,
		`<text x="34" y="160" textLength="200">image &#34;web&#34; &lt;none&gt; &amp; more</text>`,
	}
	if diff := cmp.Diff(want, textElements(got)); diff != "" {
		t.Error(diff)
	}
	if size := `width="252" height="178"`; !strings.Contains(got, size) { // 27 columns, and the margins
		t.Errorf("the size is not %s:\n%s", size, got)
	}
	for decoder := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not valid XML: %v", err)
		}
	}
}

func TestALongLineContinuesInTheNextLine(t *testing.T) {
	got := wrap(strings.Repeat("é", maxColumns) + "rest  \n")
	want := []string{strings.Repeat("é", maxColumns), "rest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func textElements(svg string) []string {
	var found []string
	for line := range strings.SplitSeq(svg, "\n") {
		if strings.HasPrefix(line, "<text ") {
			found = append(found, line)
		}
	}
	return found
}
