package pagerduty_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/pagerduty"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const secret = "secret7890123456789012345678901b"

func newNotifier(t testing.TB, url, severity string) *pagerduty.Notifier {
	t.Helper()
	n, err := pagerduty.New(notifiers.Client(t), pagerduty.Config{URL: url, RoutingKey: secret + "\n", Severity: severity})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, newNotifier(t, pagerduty.DefaultURL, ""), m)
}

// event is an event of the Events API v2.
type event struct {
	RoutingKey  string `json:"routing_key"`
	EventAction string `json:"event_action"`
	DedupKey    string `json:"dedup_key"`
	Client      string
	Payload     *struct {
		Summary, Source, Severity, Timestamp, Component, Group, Class string
		CustomDetails                                                 map[string]any `json:"custom_details"`
	}
}

// check checks the rules of the Events API v2: the required fields of each action, the
// severities, the format of the timestamp, and the limits.
func check(raw []byte) error {
	if len(raw) > 512<<10 {
		return fmt.Errorf("the event has %d bytes", len(raw))
	}
	var e event
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil {
		return err
	}
	if len(e.RoutingKey) != 32 || len(e.DedupKey) < 1 || len(e.DedupKey) > 255 {
		return fmt.Errorf("routing_key of %d, dedup_key of %d characters", len(e.RoutingKey), len(e.DedupKey))
	}
	switch {
	case e.EventAction == "resolve":
		return nil
	case e.EventAction != "trigger" || e.Payload == nil:
		return fmt.Errorf("the action %q with the payload %v", e.EventAction, e.Payload)
	}
	p := e.Payload
	if n := utf8.RuneCountInString(p.Summary); n < 1 || n > 1024 || p.Source == "" {
		return fmt.Errorf("a summary of %d characters, source %q", n, p.Source)
	}
	if !slices.Contains([]string{"critical", "error", "warning", "info"}, p.Severity) {
		return fmt.Errorf("severity %q", p.Severity)
	}
	if _, err := time.Parse(time.RFC3339, p.Timestamp); err != nil && p.Timestamp != "" {
		return err
	}
	return nil
}

// send sends a message and returns the request's body.
func send(t testing.TB, m message.Message) []byte {
	t.Helper()
	server := sink.Start()
	t.Cleanup(server.Close)
	server.Always(sink.Status(202, `{"status":"success","message":"Event processed","dedup_key":"a"}`))
	if err := newNotifier(t, server.URL(), "").Send(t.Context(), "key-1", render(t, m)); err != nil {
		t.Fatal(err)
	}
	return server.Accepted()[0].Body
}

func decode(t testing.TB, raw []byte) event {
	t.Helper()
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	for name, m := range messages.Kinds() {
		t.Run(name, func(t *testing.T) {
			body := render(t, m)
			messages.Golden(t, name, body)
			if bytes.Contains(body, []byte(secret)) {
				t.Error("the rendered body, which is stored, holds the routing key")
			}
			if err := check(send(t, m)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Messages with an equal Incident are combined, so it must be what PagerDuty knows an incident by.
func TestTheIncidentOfAMessageIsItsDeduplicationKey(t *testing.T) {
	for name, m := range messages.Kinds() {
		if got, want := newNotifier(t, "https://events.example.com", "").Incident(&m), decode(t, render(t, m)).DedupKey; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRenderKeepsPagerDutysLimits(t *testing.T) {
	for _, unit := range messages.Units() {
		if err := check(send(t, messages.Long(unit))); err != nil {
			t.Errorf("%q: %v", unit, err)
		}
	}
}

func TestAGroupIsOneIncidentThatIsResolved(t *testing.T) {
	first, later, resolved := decode(t, send(t, messages.Grouped(4, false))), decode(t, send(t, messages.Grouped(8, false))), decode(t, send(t, messages.Grouped(9, true)))
	if first.DedupKey != later.DedupKey || later.DedupKey != resolved.DedupKey {
		t.Errorf("keys are %q, %q and %q", first.DedupKey, later.DedupKey, resolved.DedupKey)
	}
	if later.EventAction != "trigger" || resolved.EventAction != "resolve" {
		t.Errorf("actions are %q and %q", later.EventAction, resolved.EventAction)
	}
}

func TestAnAcknowledgementAcknowledgesTheIncident(t *testing.T) {
	m := messages.Grouped(4, false)
	m.Acknowledged = &message.Acknowledgement{By: "ana", At: messages.Noon}
	var e event
	if err := json.Unmarshal(render(t, m), &e); err != nil {
		t.Fatal(err)
	}
	if e.EventAction != "acknowledge" || e.DedupKey != m.Group.Key || e.Payload != nil {
		t.Errorf("%+v", e)
	}
}

func TestWithoutGroupsEachObjectHasItsOwnIncident(t *testing.T) {
	a, again, b, forged := messages.New("a", ""), messages.New("again", ""), messages.New("a", ""), messages.New("a", "")
	forged.Events[0].EventNamespace = "evil"
	again.Count, again.LastSeen = 9, again.LastSeen.Add(time.Hour)
	b.Events[0].Regarding.UID = "another"
	keyA, keyAgain, keyB := decode(t, send(t, a)).DedupKey, decode(t, send(t, again)).DedupKey, decode(t, send(t, b)).DedupKey
	if keyA != keyAgain || keyA == keyB {
		t.Errorf("keys are %q, %q and %q", keyA, keyAgain, keyB)
	}
	if decode(t, send(t, forged)).DedupKey == keyA {
		t.Error("an Event of another namespace updates the incident of the object")
	}
	digest := messages.Kinds()["digest"]
	if key := decode(t, send(t, digest)).DedupKey; key != "key-1" {
		t.Errorf("a digest's key is %q, want the idempotency key", key)
	}
}

func TestTheReceiversSeverityOverridesTheEvents(t *testing.T) {
	body := notifiers.Render(t, newNotifier(t, pagerduty.DefaultURL, "critical"), messages.New("a", ""))
	if got := decode(t, body).Payload.Severity; got != "critical" {
		t.Errorf("severity is %q", got)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("<script>", "text", "prod", "web-0")
	f.Add("", "", "\xff", "\u202e")
	f.Fuzz(func(t *testing.T, title, text, cluster, name string) {
		m := messages.New(title, text)
		m.Cluster, m.Events[0].Regarding.Name = cluster, name
		if err := check(send(t, m)); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsSayWhatToDo(t *testing.T) {
	server := sink.New(t)
	notifiers.ExpectFailures(t, newNotifier(t, server.URL(), ""), server, render(t, messages.New("a", "b")),
		notifiers.OnStatus(400, `{"status":"invalid event","message":"Event object is invalid","errors":["Length of 'routing_key' is incorrect (should be 32 characters)"]}`, notify.Stop, "the integration key is not valid"),
		notifiers.OnStatus(400, `{"status":"invalid event","errors":["'payload.severity' is invalid `+secret+`"]}`, notify.Reject, "refuses this message"),
		notifiers.OnStatus(429, `{}`, notify.Retry, "fewer messages"),
		notifiers.OnStatus(500, `oops`, notify.Retry, "internal error"),
	)
}

func TestNewDoesNotRevealTheKey(t *testing.T) {
	for _, key := range []string{"", "secret", secret + "x"} {
		if _, err := pagerduty.New(nil, pagerduty.Config{URL: pagerduty.DefaultURL, RoutingKey: key}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", key, err)
		}
	}
}
