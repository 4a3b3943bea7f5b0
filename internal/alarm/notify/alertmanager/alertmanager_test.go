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
	n, err := alertmanager.New(notifiers.Client(t), alertmanager.Config{URL: url, ResolveAfter: after, Headers: map[string][]byte{"X-Scope-OrgID": []byte("shop")}})
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

func TestAGroupByTypeHasTheTypesSeverity(t *testing.T) {
	m := messages.Grouped(4, false)
	for kind, want := range map[string]string{"Warning": "warning", "Normal": "info"} {
		m.Group.By = []alarm.GroupValue{{Key: "type", Value: kind}}
		if got := only(t, render(t, m)).Labels["severity"]; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestResolveAfterEndsAnAlert(t *testing.T) {
	body := notifiers.Render(t, newNotifier(t, "http://alertmanager.example", time.Hour), messages.New("a", ""))
	if got := only(t, body).EndsAt; !got.Equal(messages.Noon.Add(time.Hour)) {
		t.Errorf("it ends at %s", got)
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
	notifiers.ExpectFailures(t, newNotifier(t, server.URL(), 0), server, nil,
		notifiers.OnStatus(400, `{"code":601,"message":"secret"}`, notify.Reject, "refuses this message"))
}
