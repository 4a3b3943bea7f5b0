package match

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

func literalSpan(text string) span { return span{text: text} }

func expressionSpan(text string, offset int) span {
	return span{text: text, offset: offset, isExpression: true}
}

func TestParseTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []span
	}{
		"literal":                {"a $ b } {", []span{literalSpan("a $ b } {")}},
		"expression":             {"a ${b} c", []span{literalSpan("a "), expressionSpan("b", 4), literalSpan(" c")}},
		"two expressions":        {"${a}${b}", []span{expressionSpan("a", 2), expressionSpan("b", 6)}},
		"literal dollar brace":   {"$${a}", []span{literalSpan("${a}")}},
		"dollar before literal":  {"$$${a}", []span{literalSpan("$${a}")}},
		"dollar at the end":      {"a$", []span{literalSpan("a$")}},
		"map":                    {"${ {'a': {1: 2}}['a'] }", []span{expressionSpan(" {'a': {1: 2}}['a'] ", 2)}},
		"brace in a string":      {`${"}"}`, []span{expressionSpan(`"}"`, 2)}},
		"brace in single quotes": {`${'}' + '{'}`, []span{expressionSpan(`'}' + '{'`, 2)}},
		"escaped quote":          {`${"\"}"}`, []span{expressionSpan(`"\"}"`, 2)}},
		"escaped backslash":      {`${"\\"}`, []span{expressionSpan(`"\\"`, 2)}},
		"raw string":             {`${r"\"}`, []span{expressionSpan(`r"\"`, 2)}},
		"raw bytes":              {`${bR'\'}`, []span{expressionSpan(`bR'\'`, 2)}},
		"a word is not a prefix": {`${car"\"}"}`, []span{expressionSpan(`car"\"}"`, 2)}},
		"triple quotes":          {"${\"\"\"a\"}\n'\"\"\"}", []span{expressionSpan("\"\"\"a\"}\n'\"\"\"", 2)}},
		"triple single quotes":   {`${'''}''}'''}`, []span{expressionSpan(`'''}''}'''`, 2)}},
		"empty string":           {`${""}`, []span{expressionSpan(`""`, 2)}},
		"comment":                {"${a // }'\n}", []span{expressionSpan("a // }'\n", 2)}},
		"expression in a string": {`${"${a}"}`, []span{expressionSpan(`"${a}"`, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, failure := parseTemplate(tc.text)
			if failure != nil {
				t.Fatalf("failed at %d: %s", failure.offset, failure.message)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(span{})); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseTemplateFailsAtTheOffset(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"no closing brace":             {"ab ${c", 3},
		"no outer closing brace":       {"${ {1: 2}", 0},
		"string without an end":        {`a${b + "c}`, 7},
		"string over a line end":       {"${'a\n'}", 2},
		"raw string without an end":    {`${r'\}`, 3},
		"triple quotes without an end": {`${"""a""}`, 2},
		"escape at the end":            {`${"\`, 2},
		"comment to the end":           {"${a // }", 0},
		"empty":                        {"a${}", 3},
		"blank":                        {"a${ \n}", 3},
	} {
		t.Run(name, func(t *testing.T) {
			spans, failure := parseTemplate(tc.text)
			if failure == nil {
				t.Fatalf("got %v, want a failure", spans)
			}
			if failure.offset != tc.want {
				t.Errorf("failed at %d, want %d", failure.offset, tc.want)
			}
		})
	}
}

// FuzzTemplate checks that any text can be parsed and compiled, and that the offsets of
// its expressions are right.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"a ${event.reason} b", "$${", `${"}"}`, "${r'\\'}", "${ {1:2} }", "${a // }\n}", "${'''}'''}", "${"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spans, failure := parseTemplate(text)
		if failure != nil {
			if failure.offset < 0 || failure.offset >= len(text) {
				t.Errorf("failed at %d of %d bytes", failure.offset, len(text))
			}
			return
		}
		for _, s := range spans {
			if s.isExpression && !strings.HasPrefix(text[s.offset:], s.text+"}") {
				t.Errorf("expression %q is not at %d", s.text, s.offset)
			}
		}
		if len(text) > 4096 { // the API's limit
			return
		}
		def := clusterAlarm()
		def.Spec.Message.Text = text
		a, err := compile(t, def)
		if err != nil {
			return
		}
		rendered, _ := a.Render(t.Context(), podOccurrence(), podContext())
		messages.WithinLimits(t, rendered)
	})
}

func render(t testing.TB, spec v1alpha1.AlarmMessage, occ *alarm.Occurrence, known *alarm.Context) (message.Message, error) {
	t.Helper()
	def := clusterAlarm()
	def.Spec.Message = spec
	return mustCompile(t, def).Render(t.Context(), occ, known)
}

func TestDefaultMessage(t *testing.T) {
	occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Increase = 3 })
	got, err := render(t, v1alpha1.AlarmMessage{}, occ, podContext())
	if err != nil {
		t.Fatal(err)
	}
	want := message.Message{
		Version:   "v1",
		Cluster:   "prod",
		Alarm:     kube.Key{Kind: alarm.KindClusterAlarm, Name: "test"},
		Title:     "shop/web-0: BackOff (Pod)",
		Text:      "Back-off restarting failed container app in pod web-0\n12 times since 2026-08-03 09:14:05 UTC, 3 new",
		Count:     3,
		FirstSeen: firstSeen,
		LastSeen:  lastSeen,
		Events: []message.Event{{
			Type: "Warning", Reason: "BackOff", Note: "Back-off restarting failed container app in pod web-0",
			Count: 3, FirstSeen: firstSeen, LastSeen: lastSeen,
			Regarding: message.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "pod-uid"},
			Object: message.Object{
				Labels:      map[string]string{"app": "web", "tier": "front"},
				Annotations: map[string]string{"owner": "anna"},
			},
			ReportingController: "kubelet",
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestDefaultMessageShowsTheCause(t *testing.T) {
	occ := podOccurrence(func(occ *alarm.Occurrence) { occ.Event.Note = "Back-off" })
	known := podContext()
	known.Object.Cause = "it was killed:\nraise\x1b[31m its \u202ememory " + strings.Repeat("x", 2000)
	got, err := render(t, v1alpha1.AlarmMessage{}, occ, known)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.Text, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "Cause: it was killed: raise[31m its memory xxx") || utf8.RuneCountInString(lines[1]) > 1100 {
		t.Errorf("got %q", got.Text)
	}
	if cause := got.Events[0].Object.Cause; "Cause: "+cause != lines[1] {
		t.Errorf("got %q", cause)
	}
}

func TestDefaultText(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(*alarm.Occurrence)
		wantTitle string
		wantText  string
	}{
		"once": {
			func(occ *alarm.Occurrence) { occ.Event.Count, occ.Event.Note = 1, "Killed" },
			"shop/web-0: BackOff (Pod)", "Killed\nOnce at 2026-08-03 10:44:05 UTC"},
		"one more": {
			func(occ *alarm.Occurrence) { occ.Event.Note = "Killed" },
			"shop/web-0: BackOff (Pod)", "Killed\n12 times since 2026-08-03 09:14:05 UTC, 1 new"},
		"all at once": {
			func(occ *alarm.Occurrence) { occ.Increase, occ.Event.Note = 12, "Killed" },
			"shop/web-0: BackOff (Pod)", "Killed\n12 times since 2026-08-03 09:14:05 UTC"},
		"no note": {
			func(occ *alarm.Occurrence) { occ.Event.Note = "" },
			"shop/web-0: BackOff (Pod)", "12 times since 2026-08-03 09:14:05 UTC, 1 new"},
		"no times": {
			func(occ *alarm.Occurrence) { occ.Event.Note, occ.Event.FirstSeen = "Killed", time.Time{} },
			"shop/web-0: BackOff (Pod)", "Killed\n12 times, 1 new"},
		"no namespace": {
			func(occ *alarm.Occurrence) {
				occ.Event.Note, occ.Event.Regarding = "Up", alarm.Reference{Kind: "Node", Name: "node-0"}
			},
			"node-0: BackOff (Node)", "Up\n12 times since 2026-08-03 09:14:05 UTC, 1 new"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, v1alpha1.AlarmMessage{}, podOccurrence(tc.change), podContext())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.wantTitle, tc.wantText}, []string{got.Title, got.Text}); diff != "" {
				t.Errorf("title and text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplateValues(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"text":            {"on ${event.regarding.name}!", "on web-0!"},
		"int":             {"${event.count} times", "12 times"},
		"uint":            {"${3u}", "3"},
		"double":          {"${1.5}", "1.5"},
		"bool":            {"${event.count > 3}", "true"},
		"timestamp":       {"${event.firstSeen}", "2026-08-03T09:14:05Z"},
		"duration":        {"${event.lastSeen - event.firstSeen}", "1h30m0s"},
		"list":            {"${['a', 'b']}", `["a", "b"]`},
		"map, sorted":     {"${object.metadata.labels}", `{"app": "web", "tier": "front"}`},
		"nested":          {"${ {'b': [1, 2], 'a': []} }", `{"a": [], "b": [1, 2]}`},
		"int or double":   {"${math.greatest(event.count, 1.5)}", "12"},
		"format":          {"${'%s: %d%s'.format([event.reason, event.count, ['!']])}", "BackOff: 12[!]"},
		"brace in a text": {"${'}'}", "}"},
		"literal":         {"$${event.note} $5", "${event.note} $5"},
		"several lines":   {"a\n${event.reason}\nb", "a\nBackOff\nb"},
		"of the cluster":  {"${cluster.name}: ${cluster.nodes} nodes", "prod: 3 nodes"},
		"line that ends":  {"a${'\\r\\nb\\tc'}", "a\nb c"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, v1alpha1.AlarmMessage{Text: tc.text}, podOccurrence(), podContext())
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != tc.want {
				t.Errorf("got %q, want %q", got.Text, tc.want)
			}
		})
	}
}

func TestFailingTemplateStillRendersAMessage(t *testing.T) {
	spec := v1alpha1.AlarmMessage{Title: "${object.metadata.labels['team']} has ${event.reason}", Text: "${int(event.reason)}"}
	got, err := render(t, spec, podOccurrence(), podContext())
	if want := "spec.message.title: no such key: team"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if want := "<spec.message.title: no such key: team> has BackOff"; got.Title != want {
		t.Errorf("got title %q, want %q", got.Title, want)
	}
	if want := "<spec.message.text: type conversion error from 'string' to 'int'>"; got.Text != want {
		t.Errorf("got text %q, want %q", got.Text, want)
	}
}

func TestBlankTitleBecomesTheDefault(t *testing.T) {
	got, err := render(t, v1alpha1.AlarmMessage{Title: "${''}\n "}, podOccurrence(), podContext())
	if err != nil {
		t.Fatal(err)
	}
	if want := "shop/web-0: BackOff (Pod)"; got.Title != want {
		t.Errorf("got %q, want %q", got.Title, want)
	}
}

func TestRenderedTextsAreLimited(t *testing.T) {
	occ := podOccurrence(func(occ *alarm.Occurrence) {
		occ.Event.Note = strings.Repeat("봉", 4000)
		occ.Event.Regarding.Name = strings.Repeat("n", 4000)
	})
	known := podContext()
	known.Object.Metadata.Annotations["long"] = strings.Repeat("x", message.MaxFieldLength+1)
	got, err := render(t, v1alpha1.AlarmMessage{Title: "${event.note}"}, occ, known)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		got  string
		want string
	}{
		"title": {got.Title, strings.Repeat("봉", 149) + "…"},
		"text":  {got.Text, strings.Repeat("봉", 2999) + "…"},
		"note":  {got.Events[0].Note, strings.Repeat("봉", 1023) + "…"},
		"name":  {got.Events[0].Regarding.Name, strings.Repeat("n", 1023) + "…"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %d characters, want %d, ending in an ellipsis", name, utf8.RuneCountInString(tc.got), utf8.RuneCountInString(tc.want))
		}
	}
	if _, ok := got.Events[0].Object.Annotations["long"]; ok {
		t.Error("the message contains an annotation that is too long")
	}
}

// FuzzRender checks that messages of any Event are clean and within the limits.
func FuzzRender(f *testing.F) {
	f.Add("Back-off", "web-0", "BackOff", "web")
	f.Add("<!channel> \u202e\x00", "a\xffb", "", "`")
	f.Add(strings.Repeat("é", 2000), strings.Repeat("n", 300), "R\nS", "\r\n")
	f.Fuzz(func(t *testing.T, note, name, reason, label string) {
		occ := podOccurrence(func(occ *alarm.Occurrence) {
			occ.Event.Note, occ.Event.Reason, occ.Event.Regarding.Name = note, reason, name
		})
		known := podContext()
		known.Object.Metadata.Labels["app"] = label
		known.Cluster.Name = name
		standard, err := render(t, v1alpha1.AlarmMessage{}, occ, known)
		if err != nil {
			t.Error(err)
		}
		messages.WithinLimits(t, standard)
		custom, _ := render(t, v1alpha1.AlarmMessage{
			Title: "${object.metadata.labels.app}${event.regarding.name}",
			Text:  "${event.note + event.reason}\n${object.metadata.labels}",
		}, occ, known)
		messages.WithinLimits(t, custom)
		messages.WithinLimits(t, message.Combine([]message.Message{standard, custom, standard}))
	})
}
