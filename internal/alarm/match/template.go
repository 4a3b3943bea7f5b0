package match

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// template is a compiled text that can contain ${...}.
type template struct {
	segments []segment
}

// segment is literal text or an expression.
type segment struct {
	literal    string
	expression *expression
}

// compileTemplate returns nil for an empty text.
func (c *compilation) compileTemplate(field, text string) (*template, error) {
	if text == "" {
		return nil, nil
	}
	spans, failure := parseTemplate(text)
	if failure != nil {
		return nil, expressionError(field, text, failure.offset, "%s", failure.message)
	}
	if failure := checkNumber(spans); failure != nil {
		return nil, expressionError(field, text, failure.offset, "%s", failure.message)
	}
	t := &template{segments: make([]segment, 0, len(spans))}
	var cost uint64
	for _, s := range spans {
		if !s.isExpression {
			t.segments = append(t.segments, segment{literal: s.text})
			continue
		}
		e, err := c.compileSegment(field, text, s, &cost)
		if err != nil {
			return nil, err
		}
		t.segments = append(t.segments, segment{expression: e})
	}
	return t, nil
}

// compileSegment compiles one ${...} and adds its cost to cost, the sum for the template.
func (c *compilation) compileSegment(field, text string, s span, cost *uint64) (*expression, error) {
	e, output, err := c.compileExpression(field, text, s)
	if err != nil {
		return nil, err
	}
	if !printable(output) {
		return nil, expressionError(field, text, s.offset,
			"the value is of type %s, which cannot be printed: use one of its fields", output)
	}
	total := expression{field: field, cost: max(*cost+e.cost, e.cost)}
	if err := total.checkCost(text, s.offset); err != nil {
		return nil, err
	}
	*cost = total.cost
	return e, nil
}

// printable reports whether a template can contain a value of the type.
func printable(t *cel.Type) bool {
	switch t.Kind() {
	case cel.BoolKind, cel.DoubleKind, cel.DurationKind, cel.DynKind, cel.IntKind,
		cel.StringKind, cel.TimestampKind, cel.UintKind:
		return true
	case cel.ListKind, cel.MapKind:
		for _, parameter := range t.Parameters() {
			if !printable(parameter) {
				return false
			}
		}
		return true
	}
	return false
}

// needsObject reports whether the text depends on the object.
func (t *template) needsObject() bool {
	return t != nil && slices.ContainsFunc(t.segments, func(s segment) bool { return s.expression != nil && s.expression.needsObject })
}

// needsNodes reports whether the text depends on the number of Nodes.
func (t *template) needsNodes() bool {
	return t != nil && slices.ContainsFunc(t.segments, func(s segment) bool { return s.expression != nil && s.expression.needsNodes })
}

// render returns the text, and the first error of an expression. The text contains the
// error instead of the value, so that the message can still be sent. It evaluates no
// further expression after the cost limit. urls are the addresses that the author wrote.
func (t *template) render(ctx context.Context, vars *variables) (text string, urls []string, first error) {
	var b strings.Builder
	found := urlFinder{b: &b, open: -1}
	begin := vars.cost
	for _, s := range t.segments {
		if s.expression == nil {
			found.literal(s.literal)
			continue
		}
		var value strings.Builder
		if err := s.expression.printWithin(ctx, &value, vars, begin+maxCost); err != nil {
			found.end()
			b.WriteString("<" + err.Error() + ">") // it can contain a value
			first = cmp.Or(first, err)
			continue
		}
		found.value(value.String())
	}
	found.end()
	return b.String(), found.urls, first
}

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

// maxPrinted is the length of the text, in bytes, at which lists and maps are cut. Longer
// texts are never sent.
const maxPrinted = 4 * message.MaxTextLength

// printWithin is print, unless the cost has exceeded the limit.
func (e *expression) printWithin(ctx context.Context, b *strings.Builder, vars *variables, limit int64) error {
	if vars.cost > limit {
		return fmt.Errorf("%s: %w", e.field, errTooExpensive)
	}
	return e.print(ctx, b, vars)
}

// print evaluates the expression and writes its value. Texts are written as they are,
// times as RFC 3339, durations as 1h2m3s, and lists and maps like JSON.
func (e *expression) print(ctx context.Context, b *strings.Builder, vars *variables) error {
	value, err := e.eval(ctx, vars)
	if err != nil {
		return err
	}
	if text, ok := value.(types.String); ok {
		b.WriteString(string(text))
		return nil
	}
	if err := printValue(b, value); err != nil {
		return fmt.Errorf("%s: %w", e.field, err)
	}
	return nil
}

func printValue(b *strings.Builder, value ref.Val) error {
	switch v := value.(type) {
	case types.String:
		b.WriteString(strconv.Quote(string(v)))
	case types.Duration:
		b.WriteString(v.Duration.String())
	case types.Timestamp:
		b.WriteString(v.UTC().Format(time.RFC3339))
	case traits.Mapper:
		return printMap(b, v)
	case traits.Lister:
		return printList(b, v)
	default:
		text, ok := value.ConvertToType(types.StringType).(types.String)
		if !ok {
			return errNotPrintable
		}
		b.WriteString(string(text))
	}
	return nil
}

func printList(b *strings.Builder, list traits.Lister) error {
	b.WriteByte('[')
	for it, n := list.Iterator(), 0; it.HasNext() == types.True && b.Len() < maxPrinted; n++ {
		if n > 0 {
			b.WriteString(", ")
		}
		if err := printValue(b, it.Next()); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// printMap sorts by key, so that equal maps are printed equally.
func printMap(b *strings.Builder, m traits.Mapper) error {
	members := map[string]ref.Val{}
	keys := []string{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		var key strings.Builder
		k := it.Next()
		if err := printValue(&key, k); err != nil {
			return err
		}
		keys = append(keys, key.String())
		members[key.String()] = m.Get(k)
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for n, key := range keys {
		if b.Len() >= maxPrinted {
			break
		}
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(key + ": ")
		if err := printValue(b, members[key]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// Render returns the message of an occurrence that matched. You can send the message even
// if there is an error, which is the first failure of an expression in the alarm's
// message. The text contains that error instead of the value.
func (a *Alarm) Render(ctx context.Context, occ *alarm.Occurrence, known *alarm.Context) (message.Message, error) {
	return a.render(ctx, occ, &variables{event: &occ.Event, context: known})
}

func (a *Alarm) render(ctx context.Context, occ *alarm.Occurrence, vars *variables) (message.Message, error) {
	title, ofTitle, titleErr := a.title.renderOr(ctx, vars, func(*alarm.Event) string { return "" }) // message.New has the default
	text, ofText, textErr := a.text.renderOr(ctx, vars, func(*alarm.Event) string { return a.defaultText(occ, &vars.context.Object) })
	m := message.New(a.ID, occ, vars.context, title, text)
	m.URLs = slices.Concat(ofTitle, ofText)
	return m, cmp.Or(titleErr, textErr)
}

// renderOr renders the template, or the default if the alarm has no template.
func (t *template) renderOr(ctx context.Context, vars *variables, defaultText func(*alarm.Event) string) (text string, urls []string, err error) {
	if t == nil {
		return defaultText(vars.event), nil, nil
	}
	return t.render(ctx, vars)
}

// HasTitle reports whether the alarm has a template of the title.
func (a *Alarm) HasTitle() bool { return a.title != nil }

// HasText reports whether the alarm has a template of the text.
func (a *Alarm) HasText() bool { return a.text != nil }

// defaultText counts the occurrences of the Event, unless the message of the group will count
// those of the group.
func (a *Alarm) defaultText(occ *alarm.Occurrence, object *alarm.Object) string {
	var extra []string
	switch t := a.threshold; {
	case t == nil:
	case a.group == nil: // the other occurrences can be about other objects
		extra = append(extra, fmt.Sprintf("%d or more Events matched within %s, this one:", t.Count, t.Within))
	default:
		extra = append(extra, fmt.Sprintf("%d or more matched within %s", t.Count, t.Within))
	}
	if a.group == nil {
		extra = append(extra, message.EventCounts(occ))
	}
	return message.DefaultText(occ, object, extra...)
}
