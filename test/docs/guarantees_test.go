package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const guarantees = root + "/docs/guarantees.md"

// promises are the headings of the tables of a section, in their order. A section has a table
// only if it has rows.
var promises = []string{"You can rely on", "You can lose", "You may see twice"}

// ending is the end of a sentence. Code must be removed before.
var ending = regexp.MustCompile(`[.?!](?: |$)`)

// Behind the summary and the terms, the page contains only sections of tables.
func TestEachGuaranteeHasATest(t *testing.T) {
	existing := testsByFile(t)
	_, sections, _ := strings.Cut(read(t, guarantees), "\n## ")
	for section := range strings.SplitSeq(sections, "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		next := 0 // the first heading that the next table can have
		for table := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			rows := strings.Split(table, "\n")
			heading := cells(rows[0])
			place := slices.Index(promises, heading[0])
			if len(rows) < 3 || len(heading) != 2 || heading[1] != "proof" || place < next {
				t.Errorf("%s: want tables %q with proofs, in this order: %s", title, promises, table)
				continue
			}
			next = place + 1
			for _, row := range rows[2:] {
				checkGuarantee(t, existing, row)
			}
		}
		if next == 0 {
			t.Errorf("%s contains no guarantee", title)
		}
	}
}

// checkGuarantee checks that a guarantee is one sentence, with a proof.
func checkGuarantee(t *testing.T, existing map[string]map[string]bool, row string) {
	t.Helper()
	got := cells(row)
	if len(got) != 2 {
		t.Errorf("a guarantee has %d cells, want a sentence and its proof: %s", len(got), row)
		return
	}
	sentence := inline.ReplaceAllString(got[0], "")
	if ends := ending.FindAllStringIndex(sentence, -1); len(ends) != 1 || ends[0][1] != len(sentence) {
		t.Errorf("a guarantee is one sentence, so that each has its own tests: %s", row)
	}
	if proof.MatchString(got[0]) || citedTest.MatchString(got[0]) {
		t.Errorf("a sentence names a test: move it to the proof: %s", row)
	}
	checkProof(t, existing, guarantees, got[1])
}

// proof is a link to a test, whose title is the name of the test, or to a mutant.
var proof = regexp.MustCompile(`\[(?:test\]\(([^()\s]+) "(\w+)"|mutant\]\(([^()\s]+))\)`)

// checkProof checks a cell that contains only proofs: at least one test, and mutants of these
// tests.
func checkProof(t *testing.T, existing map[string]map[string]bool, page, cell string) {
	t.Helper()
	if rest := strings.TrimSpace(proof.ReplaceAllString(cell, "")); rest != "" {
		t.Errorf("%s: %q is no proof: write [test](path \"Name\") or [mutant](path)", page, rest)
	}
	if tests := checkLinks(t, existing, page, cell); len(tests) == 0 {
		t.Errorf("%s: a row without a test: %s", page, cell)
	}
}

// checkLinks checks the proofs in a line. The tests must exist in the files that they name, and
// each mutant must name one of these tests. checkLinks returns the names of the tests.
func checkLinks(t *testing.T, existing map[string]map[string]bool, page, line string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	var mutants []string
	for _, m := range proof.FindAllStringSubmatch(line, -1) {
		path, name, mutant := m[1], m[2], m[3]
		if mutant != "" {
			mutants = append(mutants, mutant)
			continue
		}
		tests[name] = true
		if !existing[filepath.Join(filepath.Dir(page), path)][name] {
			t.Errorf("%s: test %s does not exist in %s", page, name, path)
		}
	}
	for _, mutant := range mutants {
		if !isNoticed(read(t, filepath.Join(filepath.Dir(page), mutant)), tests) {
			t.Errorf("%s: mutant %s names none of the tests beside it: %s", page, mutant, line)
		}
	}
	return tests
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

var citedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")

func TestEveryTestThatAPageNamesExists(t *testing.T) {
	byFile, existing := testsByFile(t), map[string]bool{}
	for _, names := range byFile {
		maps.Copy(existing, names)
	}
	pagesWithTests := map[string]bool{}
	for _, page := range pages(t) {
		for line := range strings.SplitSeq(read(t, page), "\n") {
			if len(checkLinks(t, byFile, page, inline.ReplaceAllString(line, ""))) > 0 {
				pagesWithTests[filepath.Base(page)] = true
			}
			for _, match := range citedTest.FindAllStringSubmatch(line, -1) {
				pagesWithTests[filepath.Base(page)] = true
				if !existing[match[1]] {
					t.Errorf("%s names test %s, which does not exist", page, match[1])
				}
			}
		}
	}
	for _, page := range []string{"guarantees.md", "security.md"} {
		if !pagesWithTests[page] {
			t.Errorf("%s names no test, want at least one", page)
		}
	}
}

// Each row of a table with proofs has a test. Names of tests are the titles of links only, because
// they interrupt the reader.
func TestEachProtectionHasATest(t *testing.T) {
	const page = root + "/docs/security.md"
	existing, text, tables := testsByFile(t), read(t, page), 0
	for _, match := range citedTest.FindAllString(text, -1) {
		t.Errorf("%s: write %s as [test](path \"Name\")", page, match)
	}
	for table := range strings.SplitSeq(text, "\n\n") {
		rows := strings.Split(strings.TrimSpace(table), "\n")
		columns := cells(rows[0])
		if !strings.HasPrefix(rows[0], "| ") || columns[len(columns)-1] != "proof" {
			continue
		}
		tables++
		for _, row := range rows[2:] {
			if got := cells(row); len(got) != len(columns) {
				t.Errorf("%s: a row has %d cells, want %d: %s", page, len(got), len(columns), row)
			} else {
				checkProof(t, existing, page, got[len(got)-1])
			}
		}
	}
	if tables < 14 {
		t.Errorf("%s: %d tables with proofs", page, tables)
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

// testsByFile returns the names of the tests, fuzz targets and benchmarks in each test file.
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

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)`)

func testsOf(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
			names[f.Name.Name] = true
		}
	}
	return names
}
