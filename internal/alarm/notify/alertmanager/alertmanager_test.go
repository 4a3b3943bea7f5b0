package alertmanager_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func newNotifier(t testing.TB, url string, after time.Duration) *alertmanager.Notifier {
	t.Helper()
	n, err := alertmanager.New(notifiers.Client(t), alertmanager.Config{URL: url, ResolveAfter: after, Clock: testingclock.NewFakePassiveClock(messages.Noon), Headers: map[string][]byte{"X-Scope-OrgID": []byte("shop")}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, newNotifier(t, "http://alertmanager.example", 0), m)
}

type alert struct {
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// check does the same checks as Alertmanager (types.Alert.Validate and the handler of POST
// /alerts). Names and values of labels and annotations must be valid. At least one label
// must not be empty. An alert must not end before it starts.
func check(raw []byte) ([]alert, error) {
	var alerts []alert
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&alerts); err != nil {
		return nil, err
	}
	for _, a := range alerts {
		if a.Labels["alertname"] == "" {
			return nil, fmt.Errorf("no alertname in %v", a.Labels)
		}
		for _, set := range []map[string]string{a.Labels, a.Annotations} {
			for name, value := range set {
				if !labelName.MatchString(name) || value == "" || !utf8.ValidString(value) {
					return nil, fmt.Errorf("the label %q=%q", name, value)
				}
			}
		}
		if !a.EndsAt.IsZero() && a.EndsAt.Before(a.StartsAt) {
			return nil, fmt.Errorf("it ends at %s, before %s", a.EndsAt, a.StartsAt)
		}
	}
	return alerts, nil
}

func only(t testing.TB, raw []byte) alert {
	t.Helper()
	alerts, err := check(raw)
	if err != nil || len(alerts) != 1 {
		t.Fatalf("%d alerts, %v", len(alerts), err)
	}
	return alerts[0]
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	for name, m := range messages.Kinds() {
		t.Run(name, func(t *testing.T) {
			body := render(t, m)
			only(t, body)
			messages.Golden(t, name, body)
		})
	}
}

func TestRenderKeepsAlertmanagersRules(t *testing.T) {
	for _, unit := range messages.Units() {
		m := messages.Long(unit)
		m.Group = &message.Group{Key: "k", By: []alarm.GroupValue{{Key: unit, Value: unit}}, Since: m.LastSeen.Add(time.Hour), Resolved: true}
		only(t, render(t, m))
	}
}

// Alertmanager identifies alerts by their labels.
func TestAGroupIsOneAlertThatEnds(t *testing.T) {
	first, resolved := only(t, render(t, messages.Grouped(4, false))), only(t, render(t, messages.Grouped(9, true)))
	if diff := cmp.Diff(first.Labels, resolved.Labels); diff != "" {
		t.Errorf("the labels differ:\n%s", diff)
	}
	if !first.EndsAt.IsZero() || !resolved.EndsAt.Equal(messages.Noon) || !first.StartsAt.Equal(resolved.StartsAt) {
		t.Errorf("it starts at %s and ends at %s, then at %s", first.StartsAt, first.EndsAt, resolved.EndsAt)
	}
}

func TestAnEventOfAnotherNamespaceIsAnotherAlert(t *testing.T) {
	m := messages.New("a", "")
	m.Events[0].EventNamespace = "evil"
	if got := only(t, render(t, m)).Labels["event_namespace"]; got != "evil" {
		t.Errorf("the label is %q", got)
	}
}

func TestAGroupByTypeHasTheTypesSeverity(t *testing.T) {
	m := messages.Grouped(4, false)
	for kind, want := range map[string]string{"Warning": "warning", "Normal": "info"} {
		m.Group.By = []alarm.GroupValue{{Key: "type", Value: kind}}
		if got := only(t, render(t, m)).Labels["severity"]; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// After an outage, an alert must not arrive as resolved.
func TestResolveAfterIsCountedFromTheAttempt(t *testing.T) {
	server := sink.New(t)
	now := messages.Noon.Add(5 * time.Hour)
	n, err := alertmanager.New(notifiers.Client(t), alertmanager.Config{
		URL: server.URL(), ResolveAfter: time.Hour, Clock: testingclock.NewFakePassiveClock(now),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []message.Message{messages.New("a", ""), messages.Grouped(4, false), messages.Grouped(9, true)} {
		if err := n.Send(t.Context(), "key", notifiers.Render(t, n, m)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []time.Time{now.Add(time.Hour), now.Add(time.Hour), messages.Noon} {
		if got := only(t, server.Accepted()[i].Body); !got.EndsAt.Equal(want) {
			t.Errorf("alert %d ends at %s, want %s", i, got.EndsAt, want)
		}
	}
}

// Times of Events come from the clocks of Nodes, or from a tenant.
func TestAnAlertEndsAlsoIfItsEventsAreFromTheFuture(t *testing.T) {
	server := sink.New(t)
	now := messages.Noon.Add(time.Hour)
	n, err := alertmanager.New(notifiers.Client(t), alertmanager.Config{
		URL: server.URL(), ResolveAfter: time.Hour, Clock: testingclock.NewFakePassiveClock(now),
	})
	if err != nil {
		t.Fatal(err)
	}
	single, resolved := messages.New("a", ""), messages.Grouped(9, true)
	single.FirstSeen, resolved.LastSeen = now.Add(9*time.Hour), now.Add(9*time.Hour)
	for i, m := range []message.Message{single, resolved} {
		if err := n.Send(t.Context(), "key", notifiers.Render(t, n, m)); err != nil {
			t.Fatal(err)
		}
		want := []time.Time{now.Add(time.Hour), now}[i]
		if got := only(t, server.Accepted()[i].Body); !got.EndsAt.Equal(want) || got.StartsAt.After(now) {
			t.Errorf("alert %d is from %s to %s, want an end at %s", i, got.StartsAt, got.EndsAt, want)
		}
	}
}

// Without an end, Alertmanager resolves an alert after its resolve_timeout, which is unknown
// here.
func TestAnAlertOfAGroupEndsAfterThreeIntervals(t *testing.T) {
	for name, tc := range map[string]struct {
		after, wantEnd, wantInterval time.Duration
	}{
		"by default":                 {0, 5 * time.Minute, 100 * time.Second},
		"the shortest":               {time.Minute, time.Minute, 20 * time.Second},
		"longer than Alertmanager's": {time.Hour, time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			server := sink.New(t)
			now := messages.Noon.Add(5 * time.Hour)
			n, err := alertmanager.New(notifiers.Client(t), alertmanager.Config{URL: server.URL(), ResolveAfter: tc.after, Clock: testingclock.NewFakePassiveClock(now)})
			if err != nil {
				t.Fatal(err)
			}
			open, single := messages.Grouped(4, false), messages.New("a", "")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(n.Send(t.Context(), "key", notifiers.Render(t, n, open)))
			must(n.SendAgain(t.Context(), []message.Message{open, open}))
			must(n.Send(t.Context(), "key", notifiers.Render(t, n, single)))
			first := only(t, server.Accepted()[0].Body)
			again, err := check(server.Accepted()[1].Body)
			must(err)
			if diff := cmp.Diff([]alert{first, first}, again); diff != "" {
				t.Errorf("the alert differs when it is sent again:\n%s", diff)
			}
			if !first.EndsAt.Equal(now.Add(tc.wantEnd)) || n.RepeatEvery() != tc.wantInterval {
				t.Errorf("it ends after %s and is sent again every %s", first.EndsAt.Sub(now), n.RepeatEvery())
			}
			if got := only(t, server.Accepted()[2].Body).EndsAt; got.IsZero() != (tc.after == 0) {
				t.Errorf("an alert without a group ends at %s", got)
			}
		})
	}
}

// Alertmanager handles the alerts of a request one after the other.
func TestABatchIsOneRequestWithTheAlertsInOrder(t *testing.T) {
	server := sink.New(t)
	now := messages.Noon.Add(5 * time.Hour)
	n, err := alertmanager.New(notifiers.Client(t), alertmanager.Config{URL: server.URL(), Clock: testingclock.NewFakePassiveClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	var batch []notify.BatchMessage
	for i, m := range []message.Message{messages.Grouped(4, false), messages.New("a", ""), messages.Grouped(9, true)} {
		batch = append(batch, notify.BatchMessage{Key: fmt.Sprint(i), Body: notifiers.Render(t, n, m)})
	}
	if err := n.SendBatch(t.Context(), "key", batch); err != nil {
		t.Fatal(err)
	}
	if got := len(server.Accepted()); got != 1 {
		t.Fatalf("%d requests, want 1", got)
	}
	alerts, err := check(server.Accepted()[0].Body)
	if err != nil || len(alerts) != 3 {
		t.Fatalf("%d alerts, %v", len(alerts), err)
	}
	for i, want := range []time.Time{now.Add(5 * time.Minute), {}, messages.Noon} {
		if got := alerts[i].EndsAt; !got.Equal(want) {
			t.Errorf("alert %d ends at %s, want %s", i, got, want)
		}
	}
	if diff := cmp.Diff(alerts[0].Labels, alerts[2].Labels); diff != "" {
		t.Errorf("the labels of the group differ:\n%s", diff)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("title", "text", "by", "value", int64(0))
	f.Add("", "", "9 \xff", "\x00", int64(1)<<40)
	f.Fuzz(func(t *testing.T, title, text, by, value string, since int64) {
		m := messages.New(title, text)
		m.Cluster, m.Events[0].Reason = value, value
		only(t, render(t, m))
		m.Group = &message.Group{Key: "k", By: []alarm.GroupValue{{Key: by, Value: value}}, Since: time.Unix(since%1e11, 0), Resolved: true}
		only(t, render(t, m))
	})
}

func TestSendPostsToTheAPI(t *testing.T) {
	server := sink.New(t)
	for _, prefix := range []string{"", "/prefix/"} {
		n := newNotifier(t, server.URL()+prefix, 0)
		if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
			t.Fatal(err)
		}
	}
	for i, prefix := range []string{"", "/prefix"} {
		if got, want := server.Accepted()[i].Path, "/services/T0/B0/secret"+prefix+"/api/v2/alerts"; got != want {
			t.Errorf("posted to %s, want %s", got, want)
		}
	}
	got := server.Accepted()[0]
	only(t, got.Body)
	if got.Header.Get("X-Scope-OrgID") != "shop" {
		t.Errorf("headers are %v", got.Header)
	}
	notifiers.ExpectFailures(t, newNotifier(t, server.URL(), 0), server, render(t, messages.New("a", "b")),
		notifiers.OnStatus(400, `{"code":601,"message":"secret"}`, notify.Reject, "refuses this message"))
}
