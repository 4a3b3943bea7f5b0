package docs

import (
	"maps"
	"path/filepath"
	"regexp"
	"testing"
)

var claimed = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")

// What protects, or is promised, is not true because it is written.
func TestEveryTestThatAPageNamesIsThere(t *testing.T) {
	there := map[string]bool{}
	for _, names := range testsByFile(t) {
		maps.Copy(there, names)
	}
	naming := map[string]bool{}
	for _, page := range pages(t) {
		for _, claim := range claimed.FindAllStringSubmatch(read(t, page), -1) {
			naming[filepath.Base(page)] = true
			if !there[claim[1]] {
				t.Errorf("%s names %s, and there is no such test", page, claim[1])
			}
		}
	}
	for _, page := range []string{"security.md", "alarms.md"} {
		if !naming[page] {
			t.Errorf("%s names no test", page)
		}
	}
}
