package match

import (
	"fmt"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

func repeat(begin, again string, n int, end string) string {
	return begin + strings.Repeat(again, n) + end
}

// loops returns an expression that evaluates body a thousand times.
func loops(body string) string {
	for _, name := range []string{"i", "j", "k"} {
		body = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(%s, %s)", name, body)
	}
	return body
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Each of these expressions took seconds, and most of them gigabytes, to compile or to
// evaluate, although their estimated cost is small.
func TestCostlyExpressionsAreRefusedWithoutEffort(t *testing.T) {
	for name, tc := range map[string]struct{ expression, wantError string }{
		"pattern with many instructions": {
			`event.note.matches('((.?){1000}|` + strings.Repeat("(.?){1000}|", 180) + `x)z$')`,
			"at column 20: the regular expressions have "},
		"repetition of a repetition": {
			`event.note.matches('(?:(?:a{10}){10}){10}')`,
			"at column 20: the regular expressions have 1003 instructions, the limit is 1000: lower the numbers in braces, such as {500}, or write shorter patterns"},
		"large classes of characters": {
			`event.note.matches('^(?:\\pL{500})$')`, "at column 20: the regular expressions have "},
		"same pattern again and again": {
			strings.Repeat(`event.note.matches("a{300}") && `, 4) + "true",
			"at column 116: the regular expressions have 1212 instructions"},
		"pattern from an Event": {
			`event.note.matches(event.note)`,
			"at column 25: the pattern of matches() must be a constant: write it in quotes, or search a text with contains()"},
		"pattern from an Event, as a function": {
			`matches("a", event.note)`, "at column 19: the pattern of matches() must be a constant"},
		"composed pattern": {
			`event.note.matches("(a{900})" + "{900}")`, "at column 31: the pattern of matches() must be a constant"},
		"chosen pattern": {
			`event.note.matches(true ? "a" : "b")`, "at column 25: the pattern of matches() must be a constant"},
		"pattern in a loop": {
			`["(a{900})"].exists(p, event.note.matches(p))`, "at column 43: the pattern of matches() must be a constant"},
		"map whose type doubles": {
			repeat("[1]", ".map(a, {a: a})", 14, ".size() == 1"), `at column 13: the key of a map must be a constant, such as "name"`},
		"deep type": {
			repeat("[1]", ".map(a, [a])", 100, ".size() == 1"), "more than 16 loops, lists and maps are within each other"},
		"list that contains another one twice, compared": {
			repeat("[[1]]", ".map(a, [a, a])", 15, ".exists(x, x == x)"), "more than 16 loops, lists and maps"},
		"fewer such lists": {
			repeat("[[1]]", ".map(a, [a, a])", 8, ".exists(x, x == x)"), "more than 2 lists and maps are within each other"},
		"such lists as elements of unknown type": {
			repeat("[dyn(1)]", ".map(a, dyn([a, a]))", 8, ".exists(x, x == x)"), "the elements of a list or map must be of one known type"},
		"such lists in a list of several types": {
			`"%s".format([` + repeat("[1, 'a']", ".map(a, [1, [a, a]])", 5, ".exists(x, x == x)]) == ''"),
			"the elements of a list or map must be of one known type"},
		"value of unknown type": {
			`dyn(event.reason) == "x"`, "at column 4: dyn() is not available: use the value itself"},
		"long lists in a list, compared": {
			`[["a", "b"]].exists(a, [a, a] == [a, a])`, "lists and maps of lists and maps cannot be compared: compare their elements"},
		"long lists in a list, searched": {
			`[["a", "b"]].exists(a, a in [a, a])`, "lists and maps of lists and maps cannot be compared: compare their elements"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			bytes := allocated(func() { _, err = compile(t, clusterAlarm(v1alpha1.EventMatch{Expression: tc.expression})) })
			if err == nil || !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got error %v, want one that contains %q", err, tc.wantError)
			}
			if bytes > 16<<20 {
				t.Errorf("%d bytes were allocated to refuse it", bytes)
			}
		})
	}
}

// thousand and hundred are texts of this length. Both contain one character only.
var (
	thousand = strings.Repeat("x", 1000)
	hundred  = strings.Repeat("x", 100)
)

func TestOneCallCannotExceedTheCostLimitManyTimes(t *testing.T) {
	for name, expression := range map[string]string{
		"replacement of each character by a long text": `"` + hundred + `".replace("x", "` + hundred + `").split("y").exists(w, w.replace("", w) == "")`,
		"join with a long separator":                   `"` + hundred + `".replace("x", "` + hundred + `").split("y").exists(w, w.split("").join(w) == "")`,
		"format of a text that contains itself":        repeat(`["xxxx"]`, `.map(a, "%s%s%s%s".format([a,a,a,a]))`, 14, ".size() == 1"),
		"format of a list that contains a text often":  repeat(`["`+hundred+`"]`, `.map(a, "%s".format([[a,a,a,a]]))`, 10, ".size() == 1"),
		"text that doubles":                            repeat(`["`+thousand+`"]`, ".map(a, a + a)", 14, ".size() == 1"),
		"list that doubles":                            repeat("[[0,1,2,3,4,5,6,7,8,9]]", ".map(a, a + a)", 12, ".exists(x, math.greatest(x) == 2)"),
		"list that doubles, searched":                  repeat("[[0,1,2,3,4,5,6,7,8,9]]", ".map(a, a + a)", 12, ".exists(x, 2 in x)"),
		"list that doubles, joined":                    repeat(`[["a","b","c","d","e","f","g","h"]]`, ".map(a, a + a)", 12, `.exists(x, x.join() == "")`),
		"list that doubles, compared":                  repeat(`[["`+thousand+`"]]`, ".map(a, a + a)", 11, ".exists(x, x == x + [])"),
		"size of a long text, many times":              `["` + thousand + `".replace("x", "0123456789")].all(s, ` + loops("s.size() > 0") + ")",
		"conversion of a long text, many times":        `["` + thousand + `".replace("x", "0000000000")].all(s, ` + loops("int(s) == 0") + ")",
		"time zones, many times":                       loops(`event.lastSeen.getHours("America/New_York") >= 0`),
		"comparison of objects, many times":            loops("object == object && event == event"),
		"regular expression with active instructions":  loops(`event.note.matches("(?:.?){400}z$")`),
	} {
		t.Run(name, func(t *testing.T) {
			a, err := compile(t, clusterAlarm(v1alpha1.EventMatch{Expression: expression}))
			if err != nil {
				if !strings.Contains(err.Error(), "write a cheaper expression") {
					t.Error(err)
				}
				return
			}
			occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Note = strings.Repeat("a", 1024) })
			vars := &variables{event: &occ.Event, context: podContext()}
			var got Result
			bytes := allocated(func() { got = a.entries[0].evaluate(t.Context(), vars) })
			if got.Outcome != Failed {
				t.Errorf("got %+v, want a failure", got)
			}
			if vars.cost > 4*maxCost || bytes > 16<<20 {
				t.Errorf("it cost %d and allocated %d bytes", vars.cost, bytes)
			}
		})
	}
}

func TestExpressionsOfATemplateShareTheCostLimit(t *testing.T) {
	// The size of w is not known before it runs, so the estimate is low.
	expensive := `${[event.note].all(w, w.matches("(?:.?){35}z"))}`
	def := clusterAlarm()
	def.Spec.Message.Text = strings.Repeat(expensive, 50)
	a := mustCompile(t, def)
	occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Note = strings.Repeat("a", 1024) })
	vars := &variables{event: &occ.Event, context: podContext()}
	if _, err := a.render(t.Context(), occ, vars); err == nil || !strings.Contains(err.Error(), "the cost exceeds 100000") {
		t.Errorf("got error %v, want that the cost is too high", err)
	}
	if vars.cost > 2*maxCost {
		t.Errorf("the text cost %d, the limit is %d", vars.cost, maxCost)
	}
}

func TestPatternsOfAnAlarmAreLimitedTogether(t *testing.T) {
	var match []v1alpha1.EventMatch
	for range 5 {
		match = append(match, v1alpha1.EventMatch{Expression: `event.regarding.name.matches("a{900}")`})
	}
	def := clusterAlarm(match[:4]...)
	mustCompile(t, def)
	def.Spec.Message.Text = `hello ${event.reason.matches("b{900}")}`
	_, err := compile(t, def)
	want := "spec.message.text is invalid at column 9: the regular expressions of an alarm can have 4000 instructions together"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
	if _, err := compile(t, clusterAlarm(match...)); err == nil {
		t.Error("five of these patterns compiled, want four at most")
	}
	mustCompile(t, clusterAlarm(match[0])) // the next alarm starts from zero
}

func TestARegularExpressionCostsItsInstructionsForEachCharacter(t *testing.T) {
	cost := func(pattern string, length int) int64 {
		a := mustCompile(t, clusterAlarm(v1alpha1.EventMatch{Expression: `event.note.matches("` + pattern + `")`}))
		occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Note = strings.Repeat("a", length) })
		vars := &variables{event: &occ.Event, context: podContext()}
		if got := a.entries[0].evaluate(t.Context(), vars); got.Err != nil {
			t.Fatal(got.Err)
		}
		return vars.cost
	}
	long, short := cost("(?:a?){200}z", 1000), cost("(?:a?){20}z", 1000)
	if ratio := float64(long) / float64(short); ratio < 7 || ratio > 13 {
		t.Errorf("ten times as many instructions cost %.1f times as much: %d and %d", ratio, long, short)
	}
	if ratio := float64(long) / float64(cost("(?:a?){200}z", 100)); ratio < 7 || ratio > 13 {
		t.Errorf("a text ten times as long costs %.1f times as much", ratio)
	}
}

// samplePatterns use all operators of the syntax.
var samplePatterns = []string{
	"", "a", "(?i)abc", "[a-z]+", "a|b|cd", "(a)(b)?", "(?:a?){500}z$", "(.?){1000}", "a{3,}", "a{0}", "a{0,7}", "(?:ab|c){2,5}?",
	"(?:a*)*", "(?:a*)+", `\pL+\d*`, "(?i)[^k]{20}", `^\b$|\B`, "x{2}{3}", "(|a)*", `[^\x00-\x{10FFFF}]`, "(?s).{9}(?-s).", "((a{2}){3}b|c){4,}",
}

func checkInstructions(t *testing.T, pattern string) {
	t.Helper()
	bound, err := instructions(pattern)
	if err != nil || bound > 100_000 {
		return
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(compiled.Inst); got > bound {
		t.Errorf("%q has %d instructions, want at most %d", pattern, got, bound)
	}
}

func TestInstructionsAreCountedBeforeTheyAreCompiled(t *testing.T) {
	for _, pattern := range samplePatterns {
		checkInstructions(t, pattern)
	}
	if n, err := instructions("(?:a?){500}z$"); err != nil || n > 1100 {
		t.Errorf("(?:a?){500}z$ has 1004 instructions, the count is %d (%v)", n, err)
	}
}

func FuzzInstructions(f *testing.F) {
	for _, pattern := range samplePatterns {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) { checkInstructions(t, pattern) })
}

// BenchmarkCostUnit reports how long a unit of cost takes in the worst case of a function.
func BenchmarkCostUnit(b *testing.B) {
	for name, expression := range map[string]string{
		"equal":     loops("i + j + k != 100"),
		"list":      loops("[i, j, k].size() > 0"),
		"matches":   `event.note.matches("(?:.?){300}z$")`,
		"classes":   `event.note.matches("(?:\\pL?){20}z$")`,
		"zone":      `[1,2,3,4,5,6,7,8,9].all(i, event.lastSeen.getHours("America/New_York") >= 0)`,
		"size":      `["` + hundred + `"].all(s, ` + loops("s.size() > 0") + ")",
		"int":       `["` + strings.Repeat("0", 100) + `"].all(s, ` + loops("int(s) == 0") + ")",
		"object":    `[1,2,3,4,5,6,7,8,9].all(i, object == object)`,
		"replace":   `"` + hundred + `".replace("x", "` + hundred + `") != ""`,
		"split":     `"` + hundred + `".replace("x", "0123456789").split("").size() > 0`,
		"indexOf":   `event.note.indexOf("` + hundred + `") < 0`,
		"lists":     `event.note.split("") == event.note.split("")`,
		"in":        `"b" in event.note.split("")`,
		"lowercase": `event.note.lowerAscii() != ""`,
		"format":    `"%s%s%s".format([event.note, event.note, event.note]) != ""`,
	} {
		b.Run(name, func(b *testing.B) {
			a := mustCompile(b, clusterAlarm(v1alpha1.EventMatch{Expression: expression}))
			occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Note = strings.Repeat("a", 1024) })
			vars := &variables{event: &occ.Event, context: podContext()}
			for b.Loop() {
				if got := a.entries[0].evaluate(b.Context(), vars); got.Err != nil {
					b.Fatal(got.Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(vars.cost), "ns/unit")
		})
	}
}

// billed contains the functions of texts, lists and maps whose cost in cel-go is good. The
// cost of the first ones grows with their arguments. The last ones take constant time.
var billed = strings.Fields(`
	add_bytes add_string bytes_to_string contains_string ends_with_string greater_bytes greater_equals_bytes
	greater_equals_string greater_string less_bytes less_equals_bytes less_equals_string less_string
	list_join list_join_string starts_with_string string_char_at_int string_index_of_string
	string_index_of_string_int string_last_index_of_string string_last_index_of_string_int string_lower_ascii
	string_replace_string_string string_replace_string_string_int string_reverse string_split_string
	string_split_string_int string_substring_int string_substring_int_int string_to_bytes string_trim
	string_upper_ascii strings_quote

	bytes_size bytes_to_bytes conditional in_map index_list index_map list_size map_size size_bytes size_list
	size_map string_to_string to_dyn type
`)

func TestEachFunctionOfTextsAndListsHasACost(t *testing.T) {
	env, err := newEnv()
	if err != nil {
		t.Fatal(err)
	}
	for name, function := range env.Functions() {
		for _, o := range function.OverloadDecls() {
			long := slices.ContainsFunc(o.ArgTypes(), func(arg *cel.Type) bool {
				return !slices.Contains([]cel.Kind{cel.BoolKind, cel.DoubleKind, cel.DurationKind, cel.IntKind, cel.TimestampKind, cel.UintKind, cel.NullTypeKind}, arg.Kind())
			})
			if long && expensive[o.ID()] == cheap && !slices.Contains(billed, o.ID()) {
				t.Errorf("%s: the cost of %s was not checked: add it to expensive or to billed", name, o.ID())
			}
		}
	}
}
