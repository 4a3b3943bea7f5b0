package match

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/bongsu-io/bongsu/internal/spelling"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxHintName is the maximum length of a name in a hint, in characters.
const maxHintName = 63

// hint says how to correct an error in an expression, if it is a usual slip. Examples are
// an operator of another language, and a field without its variable. Otherwise, it is
// empty. source is the text that CEL has read.
func hint(env *cel.Env, source string, at common.Location) string {
	lines := strings.Split(source, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	column := min(max(at.Column(), 0), len(line))
	before, rest := string(line[:column]), string(line[column:])
	if _, issues := env.Parse(source); issues.Err() != nil {
		return cmp.Or(symbolHint(before, rest), formHint(before, rest), wordHint(before, rest), reservedHint(env, rest))
	}
	return cmp.Or(wordHint(before, rest), formHint(before, rest), nameHint(fieldsOf(env), before, rest), functionHint(env, before, rest))
}

// symbols are usual mistakes about operators, the longest first. An operator can begin
// before the position of the error.
var symbols = []struct{ wrong, right string }{
	{"===", "=="}, {"=~", "matches()"}, {"<>", "!="}, {"=", "=="}, {"&", "&&"}, {"|", "||"},
	{"“", `"`}, {"”", `"`}, {"„", `"`}, {"‘", `'`}, {"’", `'`},
}

// words are usual mistakes about operators and functions, in lower case.
var words = map[string]string{"and": "&&", "or": "||", "not": "!", "is": "==", "len": "size", "like": "contains() or matches()"}

// forms are usual mistakes about how a value is written, by the text before and after the position
// of the error. The advice can contain the groups of both expressions.
var forms = []struct {
	slip   *regexp.Regexp
	advice string
}{
	{regexp.MustCompile(`\b(\d+)\x00(ms|s|m|h)\b`), `use duration("$1$2") instead of $1$2`},
	{regexp.MustCompile(`\bin\s*\(?\s*("[^"]*"|'[^']*')\s*\x00,`), `put the list after in into brackets: [$1, ...]`},
	{regexp.MustCompile(`([A-Za-z_][\w.]*)\s+\x00(contains|startsWith|endsWith|matches)\b`), `use $1.$2(...) instead of $1 $2`},
	{regexp.MustCompile(`\x00(?:[<>]=?|[=!]=)\s*(["'])(\d+)["']`), `use $2 instead of $1$2$1`},
	{regexp.MustCompile(`\x00"[^"]*$|\x00'[^']*$`), `the text that begins here has no closing quote`},
}

func formHint(before, rest string) string {
	text := before + "\x00" + rest // CEL has refused it if the expression contains this character
	for _, f := range forms {
		if at := f.slip.FindStringSubmatchIndex(text); at != nil {
			return plaintext.CutRunes(string(f.slip.ExpandString(nil, f.advice, text, at)), 2*maxHintName)
		}
	}
	return ""
}

var (
	firstWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	lastWord  = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*$`)
	lastPath  = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*$`)
)

func symbolHint(before, rest string) string {
	for _, s := range symbols {
		for n := range len(s.wrong) {
			if strings.HasSuffix(before, s.wrong[:n]) && strings.HasPrefix(rest, s.wrong[n:]) {
				return instead(s.right, s.wrong)
			}
		}
	}
	return ""
}

// wordHint considers the words before and after the position of the error.
func wordHint(before, rest string) string {
	previous := lastPath.FindString(strings.TrimRight(before, " "))
	for _, word := range []string{firstWord.FindString(rest), previous} {
		if right, ok := words[strings.ToLower(word)]; ok {
			return instead(right, word)
		}
	}
	return ""
}

// reservedHint returns a hint about a field whose name CEL reserves. Other names in a syntax
// error are not what is wrong.
func reservedHint(env *cel.Env, rest string) string {
	name := firstWord.FindString(rest)
	if name != "namespace" {
		return ""
	}
	return fieldHint(fieldsOf(env), "", name, name)
}

func instead(right, wrong string) string {
	return fmt.Sprintf("use %s instead of %s", right, plaintext.CutRunes(wrong, maxHintName))
}

// functionHint returns the function that is probably meant by one that does not exist. The error
// is at the bracket behind its name.
func functionHint(env *cel.Env, before, rest string) string {
	name := lastWord.FindString(before)
	if name == "" || !strings.HasPrefix(rest, "(") || env.HasFunction(name) {
		return ""
	}
	var known []string
	for function := range env.Functions() {
		if firstWord.FindString(function) == function { // operators have other names
			known = append(known, function)
		}
	}
	slices.Sort(known)
	if similar := spelling.Similar(name, known); similar != "" {
		return instead(similar, name)
	}
	return ""
}

// nameHint returns a hint about a name that is unknown, or that means something else. Only
// a name without a variable in front of it can be a text without quotes.
func nameHint(fields []string, before, rest string) string {
	if field, ok := strings.CutPrefix(rest, "."); ok {
		path := lastPath.FindString(before)
		name := firstWord.FindString(field)
		return fieldHint(fields, path, path+"."+name, name)
	}
	name := firstWord.FindString(rest)
	switch {
	case strings.HasPrefix(rest, "("):
		return ""
	case name == "": // type is a function of CEL
		name = lastPath.FindString(strings.TrimRight(before, " "))
	case name == "True" || name == "False":
		return instead(strings.ToLower(name), name)
	}
	if text := fieldHint(fields, "", name, name); text != "" || name == "" || strings.Contains(name, ".") {
		return text
	}
	if strings.ToLower(name[:1]) != name[:1] {
		return fmt.Sprintf("put a text in quotes: %q", plaintext.CutRunes(name, maxHintName))
	}
	return ""
}

// otherNames are the names of fields in the API of Events.
var otherNames = map[string]string{
	"message": "note", "involvedobject": "regarding", "firsttimestamp": "firstSeen", "lasttimestamp": "lastSeen",
}

// fieldHint names the field that is probably meant by wrong, which ends in name. Fields of
// the variable in path have precedence, then those of the object that the Event regards.
func fieldHint(fields []string, path, wrong, name string) string {
	variable, _, _ := strings.Cut(path, ".")
	for _, prefix := range []string{variable + ".", varEvent + ".regarding.", ""} {
		for _, field := range fields {
			last := field[strings.LastIndexByte(field, '.')+1:]
			same := strings.EqualFold(last, name) || last == otherNames[strings.ToLower(name)]
			if same && strings.HasPrefix(field, prefix) && field != wrong {
				return instead(field, wrong)
			}
		}
	}
	return misspelt(fields, path, wrong, name)
}

// misspelt names the field of path, or without a path the variable, whose name resembles name.
func misspelt(fields []string, path, wrong, name string) string {
	var names []string
	for _, field := range fields {
		if path == "" {
			variable, _, _ := strings.Cut(field, ".")
			names = append(names, variable)
		} else if last, ok := strings.CutPrefix(field, path+"."); ok {
			names = append(names, last)
		}
	}
	similar := spelling.Similar(name, names)
	if similar == "" {
		return ""
	}
	return instead(strings.TrimPrefix(path+"."+similar, "."), wrong)
}

// maxFieldDepth is the maximum number of dots in a path of fieldsOf.
const maxFieldDepth = 3

// fieldsOf returns the paths of the fields of all variables, those with few dots first.
func fieldsOf(env *cel.Env) []string {
	provider, ok := env.CELTypeProvider().(*structs)
	if !ok {
		return nil
	}
	var fields []string
	var walk func(path, typeName string, depth int)
	walk = func(path, typeName string, depth int) {
		t, ok := provider.byName[typeName]
		if !ok || depth == 0 {
			return
		}
		for name, f := range t.fields {
			fields = append(fields, path+"."+name)
			walk(path+"."+name, f.Type.TypeName(), depth-1)
		}
	}
	for _, variable := range env.Variables() {
		walk(variable.Name(), variable.Type().TypeName(), maxFieldDepth)
	}
	slices.SortFunc(fields, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")), strings.Compare(a, b))
	})
	return fields
}
