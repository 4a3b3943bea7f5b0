package match

import (
	"fmt"
	"slices"
	"strings"
)

// span is a part of a template before compilation: literal text, or an expression with
// its offset in the template, in bytes.
type span struct {
	text         string
	offset       int
	isExpression bool
}

// parseFailure describes what is wrong with a template, at an offset in bytes.
type parseFailure struct {
	offset  int
	message string
}

// parseTemplate splits a template into spans: ${...} is an expression and $${ is a
// literal ${. Every other dollar sign is literal.
func parseTemplate(text string) ([]span, *parseFailure) {
	var spans []span
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			spans = append(spans, span{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			literal.WriteString("${")
			i += len("$${")
		case strings.HasPrefix(text[i:], "${"):
			flush()
			begin := i + len("${")
			end, failure := expressionEnd(text, begin)
			if failure != nil {
				return nil, failure
			}
			spans = append(spans, span{text: text[begin:end], offset: begin, isExpression: true})
			i = end + len("}")
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	flush()
	return spans, nil
}

// maxTemplateExpressions is the number of expressions in a title or text. Each needs about
// 8 KiB of memory.
const maxTemplateExpressions = 50

func checkNumber(spans []span) *parseFailure {
	expressions := slices.DeleteFunc(slices.Clone(spans), func(s span) bool { return !s.isExpression })
	if n := len(expressions); n > maxTemplateExpressions {
		return &parseFailure{
			offset:  expressions[maxTemplateExpressions].offset,
			message: fmt.Sprintf("it has %d expressions, the limit is %d: use fewer", n, maxTemplateExpressions),
		}
	}
	return nil
}

// expressionEnd returns the offset of the brace that closes the expression that starts at
// begin. It skips the braces of maps, and those in strings and comments.
func expressionEnd(text string, begin int) (int, *parseFailure) {
	depth := 0
	for i := begin; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			end := stringEnd(text, i, isRaw(text[begin:i]))
			if end < 0 {
				return 0, &parseFailure{offset: i, message: "the string has no end: add the closing quote"}
			}
			i = end
		case strings.HasPrefix(text[i:], "//"):
			i += len(text[i:]) - len(strings.TrimLeftFunc(text[i:], notLineEnd))
		case c == '}' && depth == 0:
			if strings.TrimSpace(text[begin:i]) == "" {
				return 0, &parseFailure{offset: begin, message: "the expression is empty: write one between the braces"}
			}
			return i, nil
		default:
			depth += nesting(c)
			i++
		}
	}
	return 0, &parseFailure{offset: begin - len("${"), message: `"${" has no closing "}": add it, or write "$${" for a literal "${"`}
}

func notLineEnd(r rune) bool { return r != '\n' }

func nesting(c byte) int {
	switch c {
	case '{':
		return 1
	case '}':
		return -1
	}
	return 0
}

// stringEnd returns the offset after the CEL string whose first quote is at begin, or -1.
// In a raw string, a backslash is an ordinary character. Only triple-quoted strings can
// contain line ends.
func stringEnd(text string, begin int, raw bool) int {
	quote := text[begin : begin+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[begin:], triple) {
		quote = triple
	}
	for i := begin + len(quote); i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\\' && !raw:
			i++
		case text[i] == '\n' && len(quote) == 1:
			return -1
		}
	}
	return -1
}

// isRaw reports whether the text before a quote ends with the prefix of a raw string: r,
// R or br.
func isRaw(before string) bool {
	prefix := before[len(strings.TrimRightFunc(before, isWord)):]
	return strings.EqualFold(prefix, "r") || strings.EqualFold(prefix, "br")
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
