package diagnosis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allRules returns the rules of all stages.
func allRules() []*rule {
	var all []*rule
	for _, s := range stages {
		for _, rules := range s.tables {
			for i := range rules {
				all = append(all, &rules[i])
			}
		}
	}
	return all
}

// corpusFiles returns the files of the corpus.
func corpusFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus: ", err)
	}
	return files
}

func TestEachRuleIsComplete(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)
	named := map[string]*pattern{}
	for _, s := range stages {
		for _, rules := range s.tables {
			isRejection, isObstacle := &rules[0] == &creationRules[0], slices.ContainsFunc([][]rule{excluding, schedulingAdvice, karpenterAdvice}, func(o []rule) bool { return &o[0] == &rules[0] })
			for _, r := range rules {
				if other := named[r.name]; !form.MatchString(r.name) || other != nil && other != r.text {
					t.Errorf("%s: the name %q is in another form, or that of two rules", s.name, r.name)
				}
				named[r.name] = r.text
				if r.advice == "" || r.problem == 0 || (r.message == "") != isObstacle {
					t.Errorf("rule %s has no message, no advice or no problem, or it is an obstacle with a message", r.name)
				}
				if IsCause(r.reason) != isRejection {
					t.Errorf("rule %s has the reason %q: rejections have one, and others have none", r.name, r.reason)
				}
			}
		}
	}
}

func TestEachStageHasAFileInTheCorpus(t *testing.T) {
	var want, got []string
	for _, s := range stages {
		want = append(want, s.name)
	}
	for _, file := range corpusFiles(t) {
		got = append(got, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A table that no stage lists is in no other test.
func TestEachRuleInTheCodeBelongsToAStage(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range allRules() {
		listed[r.name] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if name := nameOfRule(n); name != "" {
				found[name] = true
			}
			return true
		})
	}
	if diff := cmp.Diff(listed, found); diff != "" {
		t.Errorf("(-in a stage +in the code)\n%s", diff)
	}
}

// nameOfRule returns the name if the node is a rule, which has a name and a text.
func nameOfRule(n ast.Node) (name string) {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	hasText := false
	for _, e := range literal.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return ""
		}
		switch key, _ := field.Key.(*ast.Ident); {
		case key == nil:
			return ""
		case key.Name == "text":
			hasText = true
		case key.Name == "name":
			if value, ok := field.Value.(*ast.BasicLit); ok {
				name, _ = strconv.Unquote(value.Value)
			}
		}
	}
	if !hasText {
		return ""
	}
	return name
}

// withoutLiteral are rules whose expressions require no literal, with the reason.
var withoutLiteral = map[string]string{}

// Without a literal, an expression is compiled and tried for every text.
func TestEachRuleRequiresALiteral(t *testing.T) {
	const least = 3
	for _, r := range allRules() {
		if literals := literalsOf(r.text.String()); shortest(literals) < least && withoutLiteral[r.name] == "" {
			t.Errorf("rule %s requires only %v: let each alternative contain a text of %d letters, or state the reason here", r.name, literals, least)
		}
	}
}

// appliedIn returns the names of the rules that apply while f runs.
func appliedIn(f func()) []string {
	var names []string
	onApplied = func(r *rule) { names = append(names, r.name) }
	defer func() { onApplied = nil }()
	f()
	return names
}

// Names in the texts must not change which rules apply.
func TestEveryRuleExplainsAStateOfTheCorpusWhateverTheNames(t *testing.T) {
	const fewNames = 3
	applied := map[string]bool{}
	names := someHostileNames(t, fewNames)
	for _, file := range corpusFiles(t) {
		states := readCorpus(t, file)
		for i := range states {
			s := &states[i]
			want := appliedIn(func() { s.cause(t) })
			for _, name := range want {
				applied[name] = true
			}
			for _, h := range names {
				changed := s.withTexts(func(text string) string { return rename(text, h, map[string]bool{}) })
				if diff := cmp.Diff(want, appliedIn(func() { changed.cause(t) })); diff != "" {
					t.Errorf("%s: other rules apply if the names are %q (-want +got)\n%s", s.State, h.name, diff)
				}
			}
		}
	}
	for _, r := range allRules() {
		if !applied[r.name] {
			t.Errorf("rule %s explains no state: no state has its text, or a rule above it matches too", r.name)
		}
	}
}
