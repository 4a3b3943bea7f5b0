package match

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxCompileMessage bounds, in characters, what is said of one error: it ends in
// a condition, beside the name of the field.
const maxCompileMessage = 500

// CompileError says what is wrong with an alarm, and where.
type CompileError struct {
	// Reason for the Ready condition: v1alpha1.ReasonInvalidExpression,
	// ReasonInvalidMatch, ReasonInvalidGroup or ReasonInvalidMute.
	Reason string
	// Field is the path, for example spec.match[0].expression.
	Field string
	// Line and Column in the field as the user wrote it, from 1, in characters;
	// 0 where the whole field is meant.
	Line, Column int
	// Text is the whole field as the user wrote it, where Line and Column are of one.
	Text    string
	Message string
}

// Error is one sentence that names the field, the place and what is wrong.
func (e *CompileError) Error() string {
	switch {
	case e.Line > 1:
		return fmt.Sprintf("%s is invalid at line %d, column %d: %s", e.Field, e.Line, e.Column, e.Message)
	case e.Column > 0:
		return fmt.Sprintf("%s is invalid at column %d: %s", e.Field, e.Column, e.Message)
	default:
		return fmt.Sprintf("%s is invalid: %s", e.Field, e.Message)
	}
}

// expressionError is a CompileError at an offset, in bytes, of the field's text.
func expressionError(field, text string, offset int, format string, args ...any) *CompileError {
	before := text[:offset]
	lastLine := before[strings.LastIndexByte(before, '\n')+1:]
	return &CompileError{
		Reason:  v1alpha1.ReasonInvalidExpression,
		Field:   field,
		Text:    text,
		Line:    1 + strings.Count(before, "\n"),
		Column:  1 + utf8.RuneCountInString(lastLine),
		Message: plaintext.CutRunes(plaintext.Line(fmt.Sprintf(format, args...)), maxCompileMessage),
	}
}
