// Package docs checks the documentation: its links, and the tests that it cites.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`(?:\]\(|<img src=")([^)"\s]+)(?: "[^"]*")?[)"]`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inline  = regexp.MustCompile("`[^`\n]*`")
)

func TestEveryLinkHasATarget(t *testing.T) {
	for _, page := range pages(t) {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue // another site
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s does not exist", page, m[1])
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s has no such heading", page, m[1])
			}
		}
	}
}

func TestAnchorsAreFormedAsGitHubDoes(t *testing.T) {
	got := anchors("# A `code` & more\n```\n# a comment\n```\n## What's new, here?\n")
	for _, want := range []string{"a-code--more", "whats-new-here"} {
		if !got[want] {
			t.Errorf("anchors = %v, want %q among them", got, want)
		}
	}
	if len(got) != 2 {
		t.Errorf("got %d anchors, want 2: %v", len(got), got)
	}
}

// pages returns the paths of the repository's Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "docs"} {
		samples, err := filepath.Glob(filepath.Join(root, "samples", "*", dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, samples...)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 2 {
		t.Fatalf("found %d pages in %s, want at least 2", len(found), root)
	}
	return found
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchors returns the anchors of the headings of a page.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := notInAnchors.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var (
	requirement  = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // direct dependencies: others end with a comment
	majorVersion = regexp.MustCompile(`/v[0-9]+$`)
	row          = regexp.MustCompile(`(?m)^\| ([a-z0-9]+\.[^|]*) \|`)
)

func TestEveryDependencyIsExplained(t *testing.T) {
	var want, got []string
	for _, m := range requirement.FindAllStringSubmatch(read(t, filepath.Join(root, "go.mod")), -1) {
		want = append(want, majorVersion.ReplaceAllString(m[1], ""))
	}
	_, table, _ := strings.Cut(read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## Dependencies\n")
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		got = append(got, strings.Split(m[1], ", ")...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("go.mod (-) and CONTRIBUTING.md (+):\n%s", diff)
	}
}
