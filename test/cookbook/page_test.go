package cookbook

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
)

const page = "../../docs/cookbook.md"

// entry is a section of the page: an alarm, and the messages that come of it, one
// after the other.
type entry struct {
	alarm    *unstructured.Unstructured
	messages []*regexp.Regexp
}

var fenced = regexp.MustCompile("(?ms)^```(yaml|text)\n(.*?)^```$")

// entries reads the page, by the headings of its sections.
func entries(t *testing.T) map[string]entry {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]entry{}
	for _, section := range strings.Split(string(content), "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		found[heading] = entryOf(t, heading, section)
	}
	return found
}

func entryOf(t *testing.T, heading, section string) (e entry) {
	t.Helper()
	for _, block := range fenced.FindAllStringSubmatch(section, -1) {
		if block[1] == "text" {
			e.messages = append(e.messages, pattern(block[2]))
			continue
		}
		objects, err := config.Decode(strings.NewReader(block[2]))
		if err != nil || len(objects) != 1 || e.alarm != nil {
			t.Fatalf("%s: %q must have one manifest, of one alarm: %v", page, heading, err)
		}
		e.alarm = objects[0]
	}
	if e.alarm == nil || len(e.messages) == 0 {
		t.Fatalf("%s: %q must have a manifest and a message", page, heading)
	}
	return e
}

// differing are what differs each time that a message comes about: when, and how often by
// then.
var differing = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`), "TIME"},
	{regexp.MustCompile(`(?:Once at|\d+ times since) TIME(?:, \d+ of them new)?`), "HOW OFTEN"},
	{regexp.MustCompile(`\b\d+ × FailedScheduling`), "N × FailedScheduling"},
	{regexp.MustCompile(`has \d+ nodes`), "has N nodes"},
}

func settled(text string) string {
	for _, d := range differing {
		text = d.text.ReplaceAllString(text, d.with)
	}
	return strings.TrimSpace(text)
}

// pattern is what a settled message must match as a whole. Three dots are any text
// within a line.
func pattern(message string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(settled(message))
	return regexp.MustCompile("^" + strings.ReplaceAll(quoted, `\.\.\.`, `[^\n]*`) + "$")
}
