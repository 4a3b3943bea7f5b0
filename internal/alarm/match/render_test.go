package match

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/testing/messages"

	"github.com/google/go-cmp/cmp"
)

func render(t testing.TB, message v1alpha1.AlarmMessage, occ *alarm.Occurrence, known *alarm.Context) (message.Message, error) {
	t.Helper()
	def := clusterAlarm()
	def.Spec.Message = message
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
		Alarm:     alarm.ID{Kind: alarm.KindClusterAlarm, Name: "test"},
		Title:     "BackOff: Pod shop/web-0",
		Text:      "Back-off restarting failed container app in pod web-0\n12 times since 2026-08-03 09:14:05 UTC, 3 of them new",
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

func TestADefaultMessageTellsTheCause(t *testing.T) {
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
			"BackOff: Pod shop/web-0", "Killed\nOnce at 2026-08-03 10:44:05 UTC"},
		"one more": {
			func(occ *alarm.Occurrence) { occ.Event.Note = "Killed" },
			"BackOff: Pod shop/web-0", "Killed\n12 times since 2026-08-03 09:14:05 UTC"},
		"all at once": {
			func(occ *alarm.Occurrence) { occ.Increase, occ.Event.Note = 12, "Killed" },
			"BackOff: Pod shop/web-0", "Killed\n12 times since 2026-08-03 09:14:05 UTC"},
		"no note": {
			func(occ *alarm.Occurrence) { occ.Event.Note = "" },
			"BackOff: Pod shop/web-0", "12 times since 2026-08-03 09:14:05 UTC"},
		"no times": {
			func(occ *alarm.Occurrence) { occ.Event.Note, occ.Event.FirstSeen = "Killed", time.Time{} },
			"BackOff: Pod shop/web-0", "Killed\n12 times"},
		"no namespace": {
			func(occ *alarm.Occurrence) {
				occ.Event.Note, occ.Event.Regarding = "Up", alarm.Reference{Kind: "Node", Name: "node-0"}
			},
			"BackOff: Node node-0", "Up\n12 times since 2026-08-03 09:14:05 UTC"},
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
		"dyn":             {"${dyn(event.count)}", "12"},
		"null":            {"${dyn(null)}", "null"},
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

func TestAFailingTemplateStillGivesAMessage(t *testing.T) {
	message := v1alpha1.AlarmMessage{Title: "${object.metadata.labels['team']} has ${event.reason}", Text: "${dyn(event)}"}
	got, err := render(t, message, podOccurrence(), podContext())
	if want := "spec.message.title: no such key: team"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if want := "<spec.message.title: no such key: team> has BackOff"; got.Title != want {
		t.Errorf("got title %q, want %q", got.Title, want)
	}
	if want := "<spec.message.text: its value can not be printed>"; got.Text != want {
		t.Errorf("got text %q, want %q", got.Text, want)
	}
}

func TestATitleThatIsBlankIsTheDefault(t *testing.T) {
	got, err := render(t, v1alpha1.AlarmMessage{Title: "${''}\n "}, podOccurrence(), podContext())
	if err != nil {
		t.Fatal(err)
	}
	if want := "BackOff: Pod shop/web-0"; got.Title != want {
		t.Errorf("got %q, want %q", got.Title, want)
	}
}

func TestRenderedTextsAreBounded(t *testing.T) {
	occ := podOccurrence(func(occ *alarm.Occurrence) {
		occ.Event.Note = strings.Repeat("봉", 4000)
		occ.Event.Regarding.Name = strings.Repeat("n", 4000)
	})
	known := podContext()
	known.Object.Metadata.Annotations["long"] = strings.Repeat("x", message.MaxFieldLength+1)
	message := v1alpha1.AlarmMessage{Title: "${event.note}"}
	got, err := render(t, message, occ, known)
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
		t.Error("an annotation that is too long is in the message")
	}
}

// FuzzRender: whatever an Event holds, the message is bounded and clean.
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
		byDefault, err := render(t, v1alpha1.AlarmMessage{}, occ, known)
		if err != nil {
			t.Error(err)
		}
		messages.WithinLimits(t, byDefault)
		written, _ := render(t, v1alpha1.AlarmMessage{
			Title: "${object.metadata.labels.app}${event.regarding.name}",
			Text:  "${event.note + event.reason}\n${object.metadata.labels}",
		}, occ, known)
		messages.WithinLimits(t, written)
		messages.WithinLimits(t, message.Combine([]message.Message{byDefault, written, byDefault}))
	})
}
