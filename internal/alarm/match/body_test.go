package match

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

const bodyField = "spec.webhook.body"

func mustCompileBody(t testing.TB, text string, isJSON bool) *Body {
	t.Helper()
	b, err := CompileBody(bodyField, text, isJSON)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABodyEscapesEachValueByItsPosition(t *testing.T) {
	m := messages.Grouped(9, true)
	m.Title, m.Text = `a "quoted" \ title`, "two\nlines <b>"
	m.Events[0].Object.Labels = map[string]string{"b": `"`, "a": "1"}
	for name, tc := range map[string]struct{ template, want string }{
		"in a string":        {`{"text": "*${message.title}*: ${message.text}"}`, `{"text": "*a \"quoted\" \\ title*: two\nlines <b>"}`},
		"as a value":         {`{"text": ${message.title}}`, `{"text": "a \"quoted\" \\ title"}`},
		"numbers and bools":  {`[${message.count}, ${message.digest}, ${1.5}, ${2u}]`, `[4, false, 1.5, 2]`},
		"a number as text":   {`"${message.count} times"`, `"4 times"`},
		"a time":             {`[${message.lastSeen}, "${message.lastSeen}"]`, `["2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"]`},
		"a duration":         {`[${message.lastSeen - message.firstSeen}]`, `["1h0m0s"]`},
		"a list":             {`{"names": ${message.events.map(e, e.regarding.name)}}`, `{"names": ["web-0"]}`},
		"a map":              {`${message.events[0].object.labels}`, `{"a":"1","b":"\""}`},
		"the only value":     {`${message.title}`, `"a \"quoted\" \\ title"`},
		"the group":          {`[${message.group.total}, ${message.group.by[0].value}, ${has(message.group)}]`, `[9, "web-0", true]`},
		"the alarm":          {`"${message.alarm.kind} ${message.alarm.namespace}/${message.alarm.name}"`, `"Alarm shop/crashes"`},
		"a literal":          {`{"a": "$${b}"}`, `{"a": "${b}"}`},
		"an escaped quote":   {`["\"${message.count}\"", "\\${message.count}"]`, `["\"4\"", "\\4"]`},
		"quotes in CEL":      {`["${message.group.resolved ? "yes" : "no"}"]`, `["yes"]`},
		"over several lines": {"{\"a\":\n ${message.count}\n}\n", "{\"a\":\n 4\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := mustCompileBody(t, tc.template, true).Render(&m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestABodyOfPlainTextIsNotEscaped(t *testing.T) {
	m := messages.New(`a "quoted" title`, "two\nlines")
	got, _, err := mustCompileBody(t, `{"${message.title}": ${message.text}`, false).Render(&m)
	if want := "{\"a \"quoted\" title\": two\nlines"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAMessageWithoutAGroupHasAnEmptyOne(t *testing.T) {
	m := messages.New("title", "text")
	got, _, err := mustCompileBody(t, `[${message.group.total}, ${message.group.key}, ${has(message.group)}, ${message.group.by.size()}]`, true).Render(&m)
	if want := `[0, "", false, 0]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestCompileBodyRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		template, want string
		column         int
	}{
		"no JSON":                {`{"a": }`, "not JSON: invalid character '}'", 7},
		"JSON without an end":    {`{"a": ${message.count}`, "not JSON: unexpected end of JSON input", 22},
		"two values":             {`{} {}`, "not JSON", 4},
		"a key":                  {`{"a ${message.title}" : 1}`, "a key of a JSON object cannot contain an expression", 5},
		"a key without quotes":   {`{${message.title}: 1}`, "not JSON", 2},
		"a part of a number":     {`[1${message.count}]`, "not JSON", 3},
		"an exponent":            {`[1e${message.count}]`, "not JSON", 4},
		"a number after a value": {`[${message.count}1]`, "not JSON", 18},
		"two values in a row":    {`[${message.count}${message.count}]`, "not JSON", 18},
		"a sign":                 {`[-${message.count}]`, "not JSON", 3},
		"a part of an escape":    {`["\${message.title}"]`, "not JSON", 4},
		"a part of a code point": {`["\u00${message.count}"]`, "not JSON", 7},
		"an unknown field":       {`{"a": ${message.body}}`, "undefined field 'body'", 16},
		"an unknown variable":    {`{"a": ${event.note}}`, "undeclared reference to 'event'", 9},
		"an object":              {`{"a": ${message.group}}`, "which cannot be printed", 9},
		"too many expressions":   {`[` + strings.Repeat(`${1}, `, 50) + `${1}]`, "51 expressions", 304},
		"too expensive":          {`{"a": ${message.events.map(e, message.events.map(f, f.note + e.note)).size()}}`, "cost", 9},
		"an endless expression":  {`{"a": ${message.title`, "no closing", 7},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CompileBody(bodyField, tc.template, true)
			invalid, ok := errors.AsType[*CompileError](err)
			if !ok || !strings.Contains(invalid.Message, tc.want) || invalid.Column != tc.column || invalid.Field != bodyField {
				t.Errorf("got %v, want %q at column %d", err, tc.want, tc.column)
			}
		})
	}
}

func TestABodyWithAFailedExpressionCanBeSent(t *testing.T) {
	m := messages.New("title", "text")
	m.Events = nil
	b := mustCompileBody(t, `{"count": ${message.events[0].count}, "note": "${message.events[0].note}", "title": "${message.title}"}`, true)
	got, _, err := b.Render(&m)
	if err == nil || !strings.Contains(err.Error(), "spec.webhook.body: index out of bounds") {
		t.Errorf("the error is %v", err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(got, &decoded); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if diff := cmp.Diff(map[string]any{"count": nil, "note": "<spec.webhook.body: index out of bounds: 0>", "title": "title"}, decoded); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// longMessage has the longest texts that a message can have.
func longMessage(unit string) message.Message {
	m := messages.New(strings.Repeat(unit, message.MaxTitleLength), strings.Repeat(unit, message.MaxTextLength))
	for len(m.Events) < message.MaxListedEvents {
		e := m.Events[0]
		e.Note = strings.Repeat(unit, message.MaxFieldLength)
		m.Events = append(m.Events, e)
	}
	return m
}

func TestABodyIsNeverTooLong(t *testing.T) {
	const notes = `message.events.map(e, e.note)`
	for _, unit := range []string{"a", "\"", "봉", "🔥", "\x00", "\xff"} {
		m := longMessage(unit)
		for name, tc := range map[string]struct {
			template string
			isJSON   bool
		}{
			"values":  {`{"first": ${message.title}, "all": [` + strings.Repeat(`${`+notes+`}, `, 20) + `0], "last": ${message.count}}`, true},
			"strings": {`["` + strings.Repeat(`${`+notes+`}`, 20) + `", "` + strings.Repeat("${message.text} ", 20) + `"]`, true},
			"text":    {strings.Repeat("${message.text} ", 49), false},
			"literal": {`["` + strings.Repeat("x", 16<<10) + `", ` + strings.Repeat(`${`+notes+`}, `, 20) + `0]`, true},
		} {
			t.Run(name, func(t *testing.T) {
				got, _, err := mustCompileBody(t, tc.template, tc.isJSON).Render(&m)
				if len(got) > MaxBody || tc.isJSON && !json.Valid(got) {
					t.Errorf("the body of %q has %d bytes, and must be valid JSON", unit, len(got))
				}
				if err == nil {
					t.Errorf("no error says that a value was left out, in a body of %d bytes", len(got))
				}
			})
		}
	}
}

func TestTheCostOfABodyContainsItsExpressionsAndTheirValues(t *testing.T) {
	m := longMessage("a")
	const notes = `${message.events.map(e, e.note)}`
	printed := int64(len(m.Events) * (len(m.Events[1].Note) - 1) / bytesPerUnit)
	const highest = 2*maxCost + 20_000 // the last expression can reach the limit once more
	for name, tc := range map[string]struct {
		template      string
		least, atMost int64
	}{
		"a literal":      {`{"a": 1}`, 0, 0},
		"a field":        {`{"a": ${message.count}}`, 1, 10},
		"a printed list": {`{"a": ` + notes + `}`, printed, 2 * printed},
		"many of them":   {`[` + strings.Repeat(notes+`, `, 40) + `0]`, maxCost, highest},
		"many in a text": {`["` + strings.Repeat(notes, 40) + `"]`, maxCost / 2, highest},
		"many patterns":  {`["` + strings.Repeat("${message.title.matches('(a|b|c)*z')}", 40) + `"]`, 1_000, maxCost},
	} {
		t.Run(name, func(t *testing.T) {
			_, cost, _ := mustCompileBody(t, tc.template, true).Render(&m)
			if cost < tc.least || cost > tc.atMost {
				t.Errorf("the cost is %d, want %d to %d", cost, tc.least, tc.atMost)
			}
		})
	}
}

// shape returns a JSON document without its texts and numbers.
func shape(t *testing.T, body []byte) any {
	t.Helper()
	var document any
	if err := json.Unmarshal(body, &document); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return shapeOf(document)
}

func shapeOf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = shapeOf(v[key])
		}
	case []any:
		for i := range v {
			v[i] = shapeOf(v[i])
		}
	case string:
		return "text"
	case float64:
		return 0.0
	}
	return value
}

// FuzzNoTextBreaksOutOfJSON renders any template that compiles with any texts. The document
// must have the same structure as with harmless texts.
func FuzzNoTextBreaksOutOfJSON(f *testing.F) {
	for _, text := range []string{"", `", "admin": "`, `\`, `\"`, "\\u0022", "\x00\xff\n", "</script>", "${message.title}", `{"a":1}`, "\u2028"} {
		f.Add(`{"a": "${message.title}", "b": ${message.text}, "c": ["\\${message.events[0].note}"]}`, text, text, text)
		f.Add(`"${message.title}${message.text}\"${message.events[0].note}"`, text, text, text)
		f.Add(`["\${message.title}", {"${message.title}": 1}]`, text, text, text)
	}
	field := regexp.MustCompile(`^message(\.[A-Za-z]+|\[0\])+$`)
	f.Fuzz(func(t *testing.T, template, title, text, note string) {
		b, err := CompileBody(bodyField, template, true)
		if err != nil {
			return
		}
		render := func(title, text, note string) []byte {
			occ := alarm.Occurrence{Increase: 1, Event: alarm.Event{Note: note, LastSeen: time.Unix(0, 0)}}
			m := message.New(kube.Key{}, &occ, &alarm.Context{}, title, text)
			raw := m
			raw.Title, raw.Text = title, text // as if nothing were cleaned
			for _, m := range []message.Message{m, raw} {
				if body, _, _ := b.Render(&m); !json.Valid(body) || len(body) > MaxBody {
					t.Fatalf("%d bytes: %s", len(body), body)
				}
			}
			body, _, _ := b.Render(&raw)
			return body
		}
		benign := render("a", "b", "c")
		spans, _ := parseTemplate(template)
		if slices.ContainsFunc(spans, func(s span) bool { return s.isExpression && !field.MatchString(s.text) }) {
			render(title, text, note) // the type of a value may depend on the texts
			return
		}
		if diff := cmp.Diff(shape(t, benign), shape(t, render(title, text, note))); diff != "" {
			t.Errorf("the texts change the structure:\n%s", diff)
		}
	})
}

func TestTheEstimateOfABodyIsBelowTheLimitOfAlarms(t *testing.T) {
	if got := EstimateBody(`{"text": "${message.title}"}`); got < programSize || got > 64<<10 {
		t.Errorf("got %d", got)
	}
}
