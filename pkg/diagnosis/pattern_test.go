package diagnosis

import (
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachMatchContainsALiteralOfItsPattern(t *testing.T) {
	for expression, tc := range map[string]struct {
		literals []literal
		text     string // a match
	}{
		`image "([^"]+)" not found`:        {[]literal{{`" not found`, false}}, `image "web:1" not found`},
		`exceeded quota|limit is [0-9]+`:   {[]literal{{"exceeded quota", false}, {"limit is ", false}}, "the limit is 5"},
		`(?:cannot|could not) pull`:        {[]literal{{"annot", false}, {"ould not", false}}, "it could not pull it"},
		`disk(?: is)? full`:                {[]literal{{" full", false}}, "disk full"},
		`(?:a{2,3}b)+`:                     {[]literal{{"a", false}}, "aab"},
		`(?i)Access Denied`:                {[]literal{{"access denied", true}}, "access DENIED"},
		`(?i)token`:                        {[]literal{{"token", true}}, "TO\u212aEN"}, // the sign for kelvin
		`(?i)disk`:                         {[]literal{{"disk", true}}, "di\u017fk"},
		`[Ff]ull|(?i:out) of`:              {[]literal{{"ull", false}, {"out", true}}, "full"},
		`.*(?:one|.*two|).*`:               {nil, ""},
		`x*`:                               {nil, ""},
		`pre(?:fix|lude) (?:one|three)`:    {[]literal{{"pre", false}}, "prelude three"},
		`read\(([0-9]+)\): (?:EOF|closed)`: {[]literal{{"read(", false}}, "read(5): EOF"},
	} {
		t.Run(expression, func(t *testing.T) {
			got := literalsOf(expression)
			if diff := cmp.Diff(tc.literals, got, cmp.AllowUnexported(literal{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			p := compile(expression)
			if !regexp.MustCompile(expression).MatchString(tc.text) || !p.MatchString(tc.text) {
				t.Errorf("%q does not match %q, with the literals %v", expression, tc.text, got)
			}
		})
	}
}

// Each pattern is used with texts that it matches, and with a tenth of the texts of the corpus.
func TestAPatternMatchesAsItsRegularExpression(t *testing.T) {
	const part = 10
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			lines = append(lines, strings.Trim(text, `'"`))
		}
	}
	for i, r := range allRules() {
		p := r.text
		parsed, err := syntax.Parse(p.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		texts := samples(parsed)
		for j := i % part; j < len(lines); j += part {
			texts = append(texts, lines[j])
		}
		re := regexp.MustCompile(p.String())
		for _, text := range texts {
			if diff := cmp.Diff(re.FindStringSubmatch(text), p.FindStringSubmatch(text)); diff != "" {
				t.Errorf("%s on %q: %s", p, text, diff)
			}
		}
	}
	if len(lines) < 1000 {
		t.Errorf("%d lines", len(lines))
	}
}
