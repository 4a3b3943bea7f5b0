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
		literals []string
		text     string // a match
	}{
		`image "([^"]+)" not found`:        {[]string{`" not found`}, `image "web:1" not found`},
		`exceeded quota|limit is [0-9]+`:   {[]string{"exceeded quota", "limit is "}, "the limit is 5"},
		`(?:cannot|could not) pull`:        {[]string{" pull"}, "it could not pull it"},
		`disk(?: is)? full`:                {[]string{" full"}, "disk full"},
		`(?:a{2,3}b)+`:                     {[]string{"b"}, "aab"},
		`(?i)Access Denied`:                {nil, "ACCESS DENIED"},
		`.*(?:one|.*two|).*`:               {nil, ""},
		`x*`:                               {nil, ""},
		`pre(?:fix|lude) (?:one|three)`:    {[]string{"pre"}, "prelude three"},
		`read\(([0-9]+)\): (?:EOF|closed)`: {[]string{"read("}, "read(5): EOF"},
	} {
		t.Run(expression, func(t *testing.T) {
			got := literalsOf(expression)
			if len(tc.literals) > 0 && len(got) == 0 {
				t.Errorf("no literals, want %q", tc.literals)
			}
			if tc.literals == nil && got != nil {
				t.Errorf("got %q, and a match need not contain any", got)
			}
			p := compile(expression)
			if !regexp.MustCompile(expression).MatchString(tc.text) || !p.MatchString(tc.text) {
				t.Errorf("%q does not match %q, with the literals %q", expression, tc.text, got)
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
	literal, all := 0, allRules()
	for i, r := range all {
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
		if len(literalsOf(p.String())) > 0 {
			literal++
		}
	}
	if literal < len(all)*4/5 || len(lines) < 1000 {
		t.Errorf("%d of %d patterns have a literal; %d lines", literal, len(all), len(lines))
	}
}
