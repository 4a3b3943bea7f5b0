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
	citation = regexp.MustCompile(`\[([A-Za-z0-9-]+)\]\(([^)]+)\)`)
	// ending is the end of a sentence. Code must be removed before.
	ending = regexp.MustCompile(`[.](?: |$)`)
)

func TestEachGuaranteeHasATest(t *testing.T) {
	existing := testsByFile(t)
	_, sections, _ := strings.Cut(read(t, guarantees), "\n## ")
	count := 0
	for line := range strings.SplitSeq("## "+sections, "\n") {
		switch guarantee, ok := strings.CutPrefix(line, "- "); {
		case ok:
			count++
			checkGuarantee(t, existing, guarantee)
		case line != "" && !strings.HasPrefix(line, "## "):
			t.Errorf("not a guarantee: write it as a list item: %s", line)
		}
	}
	if count == 0 {
		t.Errorf("%s contains no guarantee", guarantees)
	}
}

// checkGuarantee checks that a guarantee is one sentence. The tests that it cites must exist,
// and each mutant must name one of these tests.
func checkGuarantee(t *testing.T, existing map[string]map[string]bool, guarantee string) {
	t.Helper()
	sentence, proof, _ := strings.Cut(guarantee, ". ([")
	if ending.MatchString(inline.ReplaceAllString(sentence, "")) {
		t.Errorf("guarantee with several sentences: split it, so that each has its own tests: %s", sentence)
	}
	tests := map[string]bool{}
	for _, link := range citation.FindAllStringSubmatch("["+proof, -1) {
		name, path := link[1], filepath.Join(filepath.Dir(guarantees), link[2])
		if mutant := filepath.Base(path); strings.HasSuffix(mutant, ".patch") {
			if mutant != name+".patch" || !isNoticed(read(t, path), tests) {
				t.Errorf("mutant %s names none of the tests that are cited here: %s", name, sentence)
			}
			continue
		}
		tests[name] = true
		if !existing[path][name] {
			t.Errorf("test %s does not exist in %s: %s", name, link[2], sentence)
		}
	}
	if len(tests) == 0 {
		t.Errorf("guarantee without a test: %s", guarantee)
	}
}

var notices = regexp.MustCompile(`(?m)^# test: .*-run '?\^?(Test[A-Za-z0-9]*)`)

// isNoticed reports whether a mutant names one of the tests.
func isNoticed(mutant string, tests map[string]bool) bool {
	for _, m := range notices.FindAllStringSubmatch(mutant, -1) {
		if tests[m[1]] {
			return true
		}
	}
	return false
}

var citedTest = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")

func TestEveryTestThatAPageNamesExists(t *testing.T) {
	existing := map[string]bool{}
	for _, names := range testsByFile(t) {
		maps.Copy(existing, names)
	}
	pagesWithTests := map[string]bool{}
	for _, page := range pages(t) {
		for _, match := range citedTest.FindAllStringSubmatch(read(t, page), -1) {
			name := match[1]
			pagesWithTests[filepath.Base(page)] = true
			if !existing[name] {
				t.Errorf("%s names test %s, which does not exist", page, name)
			}
		}
	}
	if !pagesWithTests["security.md"] {
		t.Error("security.md names no test, want at least one")
	}
}

var citedBenchmark = regexp.MustCompile(`(?:BENCH=|-bench )([A-Z]\w*)`)

func TestEveryBenchmarkThatAPageNamesExists(t *testing.T) {
	existing := map[string]bool{}
	for _, names := range testsByFile(t) {
		maps.Copy(existing, names)
	}
	cited := 0
	for _, page := range pages(t) {
		for _, match := range citedBenchmark.FindAllStringSubmatch(read(t, page), -1) {
			cited++
			if !existing["Benchmark"+match[1]] {
				t.Errorf("%s names benchmark %s, which does not exist", page, match[1])
			}
		}
	}
	if cited == 0 {
		t.Error("no page names a benchmark")
	}
}

// testsByFile returns the names of the tests and benchmarks in each test file.
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
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Benchmark")) {
			names[f.Name.Name] = true
		}
	}
	return names
}
