package match

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// MaxBody is the maximum length of a rendered Body, in bytes.
const MaxBody = 64 << 10

// maxBodyError is the length, in characters, at which the text of an error in a body is cut.
const maxBodyError = 200

// Body is the compiled template of a webhook's body. Its expressions can use the fields of
// message, which have the names of docs/webhook.schema.json. It is safe for concurrent use.
type Body struct {
	template *template
	// positions are where the segments are.
	positions []position
	// reserved is the space that all segments need at least, in bytes.
	reserved int
}

// position says how a body contains the value of an expression.
type position int

const (
	// inText: as it is.
	inText position = iota
	// inString: within a JSON string, which must not end there.
	inString
	// asValue: as a JSON value.
	asValue
)

// null replaces a value that cannot be printed. No other JSON value is shorter than a value
// of CEL and fits everywhere.
const null = "null"

var bodyEnv = sync.OnceValues(func() (*cel.Env, error) {
	return newEnvOf(structTypes(reflect.TypeFor[message.Message]()), cel.Variable(varMessage, cel.ObjectType("Message")))
})

// CompileBody compiles the template of a body, which is not empty. If isJSON, the body is
// valid JSON whatever the values are: those within a JSON string are escaped, and others are
// printed as JSON. Otherwise, values are printed as text. The error is a *CompileError.
func CompileBody(field, text string, isJSON bool) (*Body, error) {
	env, err := bodyEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment: %w", err)
	}
	spans, failure := parseTemplate(text)
	positions := map[int]position{}
	if failure == nil && isJSON {
		positions, failure = jsonPositions(text, spans)
	}
	if failure != nil {
		return nil, expressionError(field, text, failure.offset, "%s", failure.message)
	}
	b := &Body{}
	if b.template, err = (&compilation{env: env}).compileTemplate(field, text); err != nil {
		return nil, err
	}
	for i, s := range b.template.segments {
		at := inText
		if known, ok := positions[spans[i].offset]; ok {
			at = known
		}
		b.positions = append(b.positions, at)
		b.reserved += len(s.literal)
		if at == asValue {
			b.reserved += len(null)
		}
	}
	return b, nil
}

// EstimateBody returns about the memory of a compiled body, in bytes, and at least what it
// really needs.
func EstimateBody(text string) int64 { return alarmSize + estimateTemplate(text) }

// jsonPositions returns the positions of the expressions by their offsets. It fails if the
// template is not JSON, with a value for each expression.
func jsonPositions(text string, spans []span) (map[int]position, *parseFailure) {
	s := jsonScanner{text: text, probe: []byte(text), key: -1}
	positions := map[int]position{}
	at := 0
	for _, e := range spans {
		if !e.isExpression {
			continue
		}
		begin, end := e.offset-len("${"), e.offset+len(e.text)+len("}")
		if failure := s.literal(at, begin); failure != nil {
			return nil, failure
		}
		positions[e.offset] = s.expression(begin, end)
		at = end
	}
	if failure := s.literal(at, len(text)); failure != nil {
		return nil, failure
	}
	var document json.RawMessage
	err := json.Unmarshal(s.probe, &document)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset := min(max(int(syntax.Offset)-1, 0), len(text))
		return nil, &parseFailure{offset, fmt.Sprintf("not JSON: %s: correct it, or set contentType to text/plain", syntax)}
	}
	return positions, nil
}

// jsonScanner finds the JSON strings in a template.
type jsonScanner struct {
	text string
	// probe is the template with a value instead of each expression, at the same offsets.
	probe    []byte
	isString bool
	// key is the offset of the first expression in the present or last string. It is -1 if
	// there is none, or if the string cannot be a key.
	key int
}

func (s *jsonScanner) literal(begin, end int) *parseFailure {
	for i := begin; i < end; i++ {
		switch c := s.text[i]; {
		case s.isString && c == '\\':
			i++ // an escape that an expression would complete is no JSON: see expression
		case c == '"':
			s.isString = !s.isString
			if s.isString {
				s.key = -1
			}
		case s.isString, c == ' ', c == '\t', c == '\r', c == '\n':
		case c == ':' && s.key >= 0:
			return &parseFailure{s.key, "a key of a JSON object cannot contain an expression: the value could be the name of another key"}
		default:
			s.key = -1
		}
	}
	return nil
}

// expression replaces an expression in the probe. No text before it can make the
// replacement a part of something else: \x is no escape, and 1null no number.
func (s *jsonScanner) expression(begin, end int) position {
	if s.isString {
		if s.key < 0 {
			s.key = begin
		}
		copy(s.probe[begin:end], bytes.Repeat([]byte("x"), end-begin))
		return inString
	}
	s.key = -1
	copy(s.probe[begin:end], null+strings.Repeat(" ", end-begin-len(null)))
	return asValue
}

// errBodyTooLong is the error for a value that does not fit.
var errBodyTooLong = fmt.Errorf("the body would be longer than %d bytes: shorten the value, for example with substring()", MaxBody)

// Render returns the body for a message, its cost, and the first error of an expression. You can
// send the body even then: it contains the error as text, or null instead of a JSON value. The
// same message always has the same body.
func (b *Body) Render(m *message.Message) (body []byte, cost int64, err error) {
	vars := &variables{message: m}
	var out strings.Builder
	var first error
	reserved := b.reserved
	for i, s := range b.template.segments {
		reserved -= len(s.literal)
		if s.expression == nil {
			out.WriteString(s.literal)
			continue
		}
		if b.positions[i] == asValue {
			reserved -= len(null)
		}
		value, err := b.positions[i].print(s.expression, vars, MaxBody-out.Len()-reserved)
		out.WriteString(value)
		first = cmp.Or(first, err)
	}
	return []byte(out.String()), vars.cost, first
}

// print evaluates an expression, and prints its value in at most space bytes. With an error,
// the text is what to send instead.
func (p position) print(e *expression, vars *variables, space int) (string, error) {
	var b strings.Builder
	var err error
	if p == asValue {
		err = e.printJSON(&b, vars)
	} else {
		err = e.printWithin(context.Background(), &b, vars, maxCost)
	}
	vars.cost += int64(b.Len() / bytesPerUnit)
	text := b.String()
	if p == inString {
		text = escapeJSON(text)
	}
	if err == nil && len(text) > space {
		err = fmt.Errorf("%s: %w", e.field, errBodyTooLong)
	}
	if err == nil {
		return text, nil
	}
	if p == asValue {
		return null, err
	}
	if text = escapeJSON("<" + plaintext.CutRunes(plaintext.Line(err.Error()), maxBodyError) + ">"); len(text) > space {
		text = ""
	}
	return text, err
}

// printJSON evaluates the expression and writes its value as JSON. Times are RFC 3339.
func (e *expression) printJSON(b *strings.Builder, vars *variables) error {
	if vars.cost > maxCost {
		return fmt.Errorf("%s: %w", e.field, errTooExpensive)
	}
	value, err := e.eval(context.Background(), vars)
	if err != nil {
		return err
	}
	if err := writeJSON(b, value); err != nil {
		return fmt.Errorf("%s: %w", e.field, err)
	}
	return nil
}

func writeJSON(b *strings.Builder, value ref.Val) error {
	if b.Len() > MaxBody {
		return errBodyTooLong
	}
	switch v := value.(type) {
	case types.Bool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case types.Int:
		b.WriteString(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		b.WriteString(strconv.FormatUint(uint64(v), 10))
	case types.Double:
		number, err := json.Marshal(float64(v))
		if err != nil {
			return errNoNumber
		}
		b.Write(number)
	case types.Null:
		b.WriteString(null)
	case traits.Mapper:
		return writeJSONMap(b, v)
	case traits.Lister:
		return writeJSONList(b, v)
	default:
		text, err := textOf(value)
		b.WriteString(`"` + escapeJSON(text) + `"`)
		return err
	}
	return nil
}

var errNoNumber = errors.New("the value is no finite number")

func writeJSONList(b *strings.Builder, list traits.Lister) error {
	b.WriteByte('[')
	for it, n := list.Iterator(), 0; it.HasNext() == types.True; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		if err := writeJSON(b, it.Next()); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// writeJSONMap sorts by key, so that equal maps are printed equally.
func writeJSONMap(b *strings.Builder, m traits.Mapper) error {
	members := map[string]ref.Val{}
	keys := []string{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, err := textOf(k)
		if err != nil {
			return err
		}
		keys = append(keys, key)
		members[key] = m.Get(k)
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for n, key := range keys {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + escapeJSON(key) + `":`)
		if err := writeJSON(b, members[key]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// textOf returns a value that is no list or map as text.
func textOf(value ref.Val) (string, error) {
	switch v := value.(type) {
	case types.String:
		return string(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339), nil
	}
	var b strings.Builder
	err := printValue(&b, value)
	return b.String(), err
}

// escapeJSON returns the text as it must be within a JSON string. It does not escape
// characters of HTML.
func escapeJSON(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can always be encoded
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}
