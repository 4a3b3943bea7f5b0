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
