package match

import (
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Sizes of the parts of a compiled alarm, in bytes. TestTheEstimateIsAtLeastTheMemory
// compares them with the real ones.
const (
	alarmSize    = 4 << 10
	matchSize    = 1 << 10
	itemSize     = 512
	muteSize     = 16 << 10 // with its time zone
	ackSize      = 2 << 10
	programSize  = 9 << 10 // of an expression without its tokens
	tokenSize    = 160
	patternSize  = 4 << 10 // of a call of matches
	patternBytes = 160     // for each byte of a string in an expression that calls matches
	stepSize     = 640     // of a step of a path to a field
	// routeSize is for a Route with all receivers that the limits allow.
	routeSize = 512 << 10
	// pairSize is for each pair of lists, maps and macros in one expression. The time of
	// CEL's type check grows with their square. It makes an estimate of 8 MiB take about a
	// second to compile.
	pairSize = 3
)

// EstimateMemory returns about the memory of the compiled alarm, in bytes, and at least
// what it really needs. It is cheap: it compiles nothing and only counts the tokens of the
// expressions. Expressions that take long to compile count as more.
func EstimateMemory(object Object) int64 {
	spec := object.AlarmSpec()
	size := int64(alarmSize) + muteSize*int64(len(spec.Mute)) + ackSize*int64(len(spec.Acknowledgements)) +
		estimateSelector(object.NamespaceSelector()) + estimateTexts(object.NamespaceGlobs()) +
		estimateTemplate(spec.Message.Title) + estimateTemplate(spec.Message.Text)
	for i := range spec.Match {
		size += estimateMatch(&spec.Match[i])
	}
	for i := range spec.Changes {
		size += estimateChange(&spec.Changes[i])
	}
	for i := range spec.States {
		size += estimateState(&spec.States[i])
	}
	if spec.Resolve != nil {
		for i := range spec.Resolve.Match {
			size += estimateMatch(&spec.Resolve.Match[i])
		}
	}
	for _, r := range spec.ReadObjects {
		size += estimateTexts([]string{r.APIGroup, r.Resource})
	}
	if spec.Group != nil {
		size += estimateTexts(spec.Group.By)
	}
	if object.ReceiverChoice() != nil {
		size += routeSize
	}
	return size
}

func estimateMatch(match *v1alpha1.EventMatch) int64 {
	size := matchSize + int64(len(match.Note)) + estimateSelector(match.ObjectSelector)
	for _, texts := range [][]string{match.Kinds, match.Reasons, match.Names} {
		size += estimateTexts(texts)
	}
	if match.Expression != "" {
		size += estimateExpression(match.Expression)
	}
	return size
}

func estimateChange(match *v1alpha1.ChangeMatch) int64 {
	size := matchSize + estimateSelector(match.ObjectSelector) + estimateTexts(match.Names) + estimateFields(match.Fields...)
	if match.Expression != "" {
		size += estimateExpression(match.Expression) + estimateFields(match.Expression)
	}
	return size
}

// estimateFields returns the memory of the fields that texts name. It includes what the operator
// needs to keep them of objects. It therefore limits the paths of a namespace.
func estimateFields(texts ...string) int64 {
	size := fieldCopies * estimateTexts(texts)
	for _, text := range texts {
		size += stepSize * int64(1+strings.Count(text, ".")+strings.Count(text, "["))
	}
	return size
}

func estimateState(match *v1alpha1.StateMatch) int64 {
	return matchSize + estimateSelector(match.ObjectSelector) + estimateTexts(match.Names) +
		estimateExpression(match.Expression) + fieldCopies*int64(len(match.Expression))
}

// fieldCopies is how often an alarm contains the path of a field: as text, compiled, and in
// what it needs.
const fieldCopies = 4

func estimateTexts(texts []string) int64 {
	size := itemSize * int64(len(texts))
	for _, text := range texts {
		size += int64(len(text))
	}
	return size
}

func estimateSelector(selector *metav1.LabelSelector) int64 {
	if selector == nil {
		return 0
	}
	var size int64
	for key, value := range selector.MatchLabels {
		size += itemSize + int64(len(key)+len(value))
	}
	for _, e := range selector.MatchExpressions {
		size += itemSize + int64(len(e.Key)) + estimateTexts(e.Values)
	}
	return size
}

// estimateTemplate returns the memory of a template. One that cannot be parsed is not
// compiled either.
func estimateTemplate(text string) int64 {
	size := int64(len(text))
	spans, _ := parseTemplate(text)
	for _, s := range spans {
		if s.isExpression {
			size += estimateExpression(s.text)
		} else {
			size += itemSize
		}
	}
	return size
}

// macros are the functions that CEL replaces by loops.
var macros = map[string]bool{
	"all": true, "exists": true, "exists_one": true, "existsOne": true, "map": true, "filter": true,
	"transformList": true, "transformMap": true, "transformMapEntry": true,
}

// macroTokens is the number of tokens that a macro is replaced by.
const macroTokens = 12

// estimateExpression returns the memory of an expression. It counts every word and every
// other character as a token, in strings and comments too. Otherwise code that looks like a
// string would count as too little.
func estimateExpression(text string) int64 {
	var tokens, lists, patterns int64
	count := func(word string) {
		tokens++
		switch {
		case macros[word]:
			lists += 2
			tokens += macroTokens
		case word == "matches":
			patterns++
		case word == "[", word == "{":
			lists++
		}
	}
	begin := 0 // of the present word
	for i, c := range text {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' {
			continue
		}
		if begin < i {
			count(text[begin:i])
		}
		if !unicode.IsSpace(c) {
			count(string(c))
		}
		begin = i + utf8.RuneLen(c)
	}
	if begin < len(text) {
		count(text[begin:])
	}
	size := programSize + int64(len(text)) + tokens*tokenSize + lists*lists*pairSize
	if patterns > 0 {
		size += patterns*patternSize + int64(len(text))*patternBytes
	}
	return size
}
