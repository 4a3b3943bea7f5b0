package webhook_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

var cloudEventFormats = []v1alpha1.WebhookFormat{v1alpha1.WebhookCloudEvents, v1alpha1.WebhookCloudEventsBinary}

// read parses a request with the SDK, as a consumer does.
func read(t testing.TB, r sink.Request) *cloudevents.Event {
	t.Helper()
	message := cehttp.NewMessage(r.Header, io.NopCloser(bytes.NewReader(r.Body)))
	event, err := binding.ToEvent(t.Context(), message)
	if err != nil {
		t.Fatalf("not a CloudEvent: %v\n%v\n%s", err, r.Header, r.Body)
	}
	if err := event.Validate(); err != nil {
		t.Fatal(err)
	}
	return event
}

func send(t testing.TB, format v1alpha1.WebhookFormat, m message.Message) sink.Request {
	t.Helper()
	server := sink.Start()
	t.Cleanup(server.Close)
	n := newFrom(t, webhook.Config{URL: server.URL(), Request: v1alpha1.WebhookRequest{Format: format}})
	if err := n.Send(t.Context(), "key-1", notifiers.Render(t, n, m)); err != nil {
		t.Fatal(err)
	}
	return server.Accepted()[0]
}

func TestTheCloudEventsSDKReadsTheRequest(t *testing.T) {
	contentType := map[v1alpha1.WebhookFormat]string{
		v1alpha1.WebhookCloudEvents: "application/cloudevents+json", v1alpha1.WebhookCloudEventsBinary: "application/json",
	}
	for _, format := range cloudEventFormats {
		t.Run(string(format), func(t *testing.T) {
			r := send(t, format, example())
			if got := r.Header.Get("Content-Type"); got != contentType[format] || r.Key != "key-1" {
				t.Errorf("Content-Type is %q, Idempotency-Key %q", got, r.Key)
			}
			event := read(t, r)
			for name, pair := range map[string][2]string{
				"id":         {event.ID(), "key-1"},
				"type":       {event.Type(), "io.bongsu.alarm.v1"},
				"source":     {event.Source(), "/clusters/prod/namespaces/shop/alarms/crashes"},
				"subject":    {event.Subject(), "Pod/shop/web-0"},
				"time":       {event.Time().UTC().String(), noon.String()},
				"dataschema": {event.DataSchema(), "https://bongsu.io/schemas/webhook/v1.json"},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s is %q, want %q", name, pair[0], pair[1])
				}
			}
			if err := validate(t, compileSchema(t), event.Data()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The SDK reads data_base64 too. The guide promises data.
func TestTheDataOfACloudEventIsJSON(t *testing.T) {
	server := sink.New(t)
	want := string(notifiers.Render(t, newNotifier(t, server.URL(), nil), example()))
	for name, request := range map[string]v1alpha1.WebhookRequest{
		"structured mode": {Format: v1alpha1.WebhookCloudEvents}, "batched mode": batchRequest,
	} {
		n := newFrom(t, webhook.Config{URL: server.URL(), Request: request})
		if err := n.Send(t.Context(), "key-1", notifiers.Render(t, n, example())); err != nil {
			t.Fatal(err)
		}
		accepted := server.Accepted()
		if got := string(accepted[len(accepted)-1].Body); !strings.Contains(got, `"data":`+want) {
			t.Errorf("%s: the body is %s, want the data %s", name, got, want)
		}
	}
}

func TestADigestHasTheClusterAsSourceAndNoSubject(t *testing.T) {
	several := digest()
	several.Events[1].Regarding.Name = "web-1"
	event := read(t, send(t, v1alpha1.WebhookCloudEventsBinary, several))
	if event.Source() != "/clusters/prod" || event.Subject() != "" {
		t.Errorf("source is %q, subject %q", event.Source(), event.Subject())
	}
}

func TestARetriedRequestIsIdentical(t *testing.T) {
	for _, format := range cloudEventFormats {
		server := sink.New(t)
		n := newFrom(t, webhook.Config{URL: server.URL(), Request: v1alpha1.WebhookRequest{Format: format}})
		body := notifiers.Render(t, n, example())
		for range 2 {
			if err := n.Send(t.Context(), "key-1", body); err != nil {
				t.Fatal(err)
			}
		}
		first, second := server.Accepted()[0], server.Accepted()[1]
		if !bytes.Equal(first.Body, second.Body) || first.Header.Get("Ce-Id") != second.Header.Get("Ce-Id") {
			t.Errorf("%s: the second request differs", format)
		}
	}
}

func FuzzCloudEvents(f *testing.F) {
	f.Add("prod", "Pod", "shop", "web-0")
	f.Add("", "", "", "")
	f.Add("a b", "P\r\nX-Injected: 1", "%00", "봉수\x00\xff")
	f.Fuzz(func(t *testing.T, cluster, kind, namespace, name string) {
		m := example()
		m.Cluster = cluster
		m.Events[0].Regarding = message.Reference{Kind: kind, Namespace: namespace, Name: name}
		for _, format := range cloudEventFormats {
			r := send(t, format, m)
			read(t, r)
			if r.Header.Get("X-Injected") != "" || strings.ContainsAny(r.Header.Get("Ce-Subject"), "\r\n") {
				t.Errorf("a header was injected: %v", r.Header)
			}
		}
	})
}
