package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const guarantees = root + "/docs/guarantees.md"

var (
	named = regexp.MustCompile(`\[([A-Za-z0-9-]+)\]\(([^)]+)\)`)
	// ending is where a sentence may end; not within code.
	ending = regexp.MustCompile(`[.](?: |$)`)
)

func TestEachGuaranteeIsHeldByATest(t *testing.T) {
	there := testsByFile(t)
	_, sections, _ := strings.Cut(read(t, guarantees), "\n## ")
	held := 0
	for line := range strings.SplitSeq("## "+sections, "\n") {
		switch guarantee, ok := strings.CutPrefix(line, "- "); {
		case ok:
			held++
			checkGuarantee(t, there, guarantee)
		case line != "" && !strings.HasPrefix(line, "## "):
			t.Errorf("this is no guarantee, and in none: %s", line)
		}
	}
	if held == 0 {
		t.Error("nothing is guaranteed")
	}
}

// checkGuarantee demands that a guarantee is one sentence, and then names tests that
// are where it says, and mutants that one of these tests notices.
func checkGuarantee(t *testing.T, there map[string]map[string]bool, guarantee string) {
	t.Helper()
	sentence, proof, _ := strings.Cut(guarantee, ". ([")
	if ending.MatchString(inline.ReplaceAllString(sentence, "")) {
		t.Errorf("of several sentences it is not said which test holds which: %s", sentence)
	}
	tests := map[string]bool{}
	for _, link := range named.FindAllStringSubmatch("["+proof, -1) {
		name, path := link[1], filepath.Join(filepath.Dir(guarantees), link[2])
		if mutant := filepath.Base(path); strings.HasSuffix(mutant, ".patch") {
			if mutant != name+".patch" || !noticed(read(t, path), tests) {
				t.Errorf("%s is not noticed by a test that is named here: %s", name, sentence)
			}
			continue
		}
		tests[name] = true
		if !there[path][name] {
			t.Errorf("there is no %s in %s, which is to hold: %s", name, link[2], sentence)
		}
	}
	if len(tests) == 0 {
		t.Errorf("no test holds this: %s", guarantee)
	}
}

var notices = regexp.MustCompile(`(?m)^# test: .*-run '?\^?(Test[A-Za-z0-9]*)`)

// noticed says whether one of the tests is to notice a mutant.
func noticed(mutant string, tests map[string]bool) bool {
	for _, m := range notices.FindAllStringSubmatch(mutant, -1) {
		if tests[m[1]] {
			return true
		}
	}
	return false
}

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

// testsByFile are the names of the tests in each file that has any.
func testsByFile(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found[path] = testsOf(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func testsOf(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			names[f.Name.Name] = true
		}
	}
	return names
}
