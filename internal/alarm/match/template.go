package match

import (
	"context"
	"strings"

	"github.com/google/cel-go/cel"
)

// template is a compiled text with ${...} in it.
type template struct {
	segments []segment
}

// segment is literal text, or an expression.
type segment struct {
	literal    string
	expression *expression
}

// compileTemplate returns nil for a text that is not given.
func (c *Compiler) compileTemplate(field, text string) (*template, error) {
	if text == "" {
		return nil, nil
	}
	spans, failure := parseTemplate(text)
	if failure != nil {
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

// compileSegment compiles one ${...}; cost is the sum of the template so far.
func (c *Compiler) compileSegment(field, text string, s span, cost *uint64) (*expression, error) {
	e, output, err := c.compileExpression(field, text, s)
	if err != nil {
		return nil, err
	}
	if !printable(output) {
		return nil, expressionError(field, text, s.offset,
			"it is of type %s, which can not be printed; choose one of its fields", output)
	}
	total := expression{field: field, cost: max(*cost+e.cost, e.cost)}
	if err := total.checkCost(text, s.offset); err != nil {
		return nil, err
	}
	*cost = total.cost
	return e, nil
}

// printable tells whether a template may hold a value of the type.
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

// render returns the text, and the first failure of an expression. What failed
// stands in the text as the error, so that the message arrives all the same.
func (t *template) render(ctx context.Context, vars *variables) (string, error) {
	var b strings.Builder
	var first error
	for _, s := range t.segments {
		if s.expression == nil {
			b.WriteString(s.literal)
			continue
		}
		if err := s.expression.print(ctx, &b, vars); err != nil {
			b.WriteString("<" + err.Error() + ">")
			if first == nil {
				first = err
			}
		}
	}
	return b.String(), first
}
