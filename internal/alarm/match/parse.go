package match

import "strings"

// span is a part of a template as written: literal text, or the text of an
// expression with its offset, in bytes, in the template.
type span struct {
	text         string
	offset       int
	isExpression bool
}

// parseFailure is what is wrong with a template, at an offset in bytes.
type parseFailure struct {
	offset  int
	message string
}

// parseTemplate divides a template into its spans: ${...} is an expression, $${
// a literal ${, and every other dollar sign itself.
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

// expressionEnd finds the brace that ends the expression that begins at begin:
// not one of a map, nor one within a string or a comment.
func expressionEnd(text string, begin int) (int, *parseFailure) {
	depth := 0
	for i := begin; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			end := stringEnd(text, i, isRaw(text[begin:i]))
			if end < 0 {
				return 0, &parseFailure{offset: i, message: "the string has no end"}
			}
			i = end
		case strings.HasPrefix(text[i:], "//"):
			i += len(text[i:]) - len(strings.TrimLeftFunc(text[i:], notLineEnd))
		case c == '}' && depth == 0:
			if strings.TrimSpace(text[begin:i]) == "" {
				return 0, &parseFailure{offset: begin, message: "the expression is empty"}
			}
			return i, nil
		default:
			depth += nesting(c)
			i++
		}
	}
	return 0, &parseFailure{offset: begin - len("${"), message: `"${" has no closing "}"; write "$${" for a literal "${"`}
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

// stringEnd returns the offset behind the CEL string whose first quote is at
// begin, or -1. In a raw string a backslash is an ordinary character. Only a
// string of triple quotes may hold line ends.
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

// isRaw tells whether the string that follows before is raw: r"", R"", br"".
func isRaw(before string) bool {
	prefix := before[len(strings.TrimRightFunc(before, isWord)):]
	return strings.EqualFold(prefix, "r") || strings.EqualFold(prefix, "br")
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
