package match

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// CompileError describes what is wrong with an alarm, and where.
type CompileError struct {
	// Reason is the reason of the Ready condition: v1alpha1.ReasonInvalidExpression,
	// ReasonInvalidMatch, ReasonInvalidGroup or ReasonInvalidMute.
	Reason string
	// Field is the path of the field, for example spec.match[0].expression.
	Field string
	// Line and Column are the position in the text of the field. They start at 1 and
	// count characters. They are 0 if the whole field is invalid.
	Line, Column int
	// Text is the whole text of the field, if Line and Column are set.
	Text    string
	Message string
}

// Error returns one sentence with the field, the position and the message.
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

// maxCompileMessage is the maximum length of an error message, in characters. The message
// appears in a condition, together with the name of the field.
const maxCompileMessage = 500

// expressionError returns a CompileError for an offset, in bytes, in the text of the
// field.
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

func invalidField(field, message string) error {
	return &CompileError{Reason: v1alpha1.ReasonInvalidMatch, Field: field, Message: plaintext.CutRunes(plaintext.Line(message), maxCompileMessage)}
}
