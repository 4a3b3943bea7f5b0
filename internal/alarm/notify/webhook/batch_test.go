package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

var batchRequest = v1alpha1.WebhookRequest{Format: v1alpha1.WebhookCloudEvents, Batch: &v1alpha1.WebhookBatch{MaxMessages: 100}}

// readBatch parses a request in batched mode with the SDK, as a consumer does.
func readBatch(t testing.TB, r sink.Request) []cloudevents.Event {
	t.Helper()
	if !cehttp.IsHTTPBatch(r.Header) {
		t.Fatalf("the Content-Type is %q", r.Header.Get("Content-Type"))
	}
	request := &http.Request{Header: r.Header, Body: io.NopCloser(bytes.NewReader(r.Body))}
	events, err := cehttp.NewEventsFromHTTPRequest(request)
	if err != nil {
		t.Fatalf("not a batch: %v\n%s", err, r.Body)
	}
	for _, e := range events {
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
	}
	return events
}

func batch(t testing.TB, n notify.Notifier, messages ...message.Message) (all []notify.BatchMessage) {
	t.Helper()
	for i, m := range messages {
		all = append(all, notify.BatchMessage{Key: fmt.Sprint("key-", i), Body: notifiers.Render(t, n, m)})
	}
	return all
}

func TestTheCloudEventsSDKReadsABatch(t *testing.T) {
	schema := compileSchema(t)
	server := sink.New(t)
	n := newFrom(t, webhook.Config{URL: server.URL(), Request: batchRequest})
	other := example()
	other.Events[0].Regarding.Name = "web-1"
	if err := n.SendBatch(t.Context(), "batch-1", batch(t, n, example(), other, digest())); err != nil {
		t.Fatal(err)
	}
	r := server.Accepted()[0]
	if r.Key != "batch-1" || r.Header.Get("Content-Type") != "application/cloudevents-batch+json" {
		t.Errorf("Idempotency-Key is %q, Content-Type %q", r.Key, r.Header.Get("Content-Type"))
	}
	var got []string
	for _, e := range readBatch(t, r) {
		got = append(got, e.ID()+" "+e.Source()+" "+e.Subject())
		if err := validate(t, schema, e.Data()); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"key-0 /clusters/prod/namespaces/shop/alarms/crashes Pod/shop/web-0",
		"key-1 /clusters/prod/namespaces/shop/alarms/crashes Pod/shop/web-1",
		"key-2 /clusters/prod Pod/shop/web-0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A server need not distinguish two types of content.
func TestAMessageAloneIsABatchOfOne(t *testing.T) {
	server := sink.New(t)
	n := newFrom(t, webhook.Config{URL: server.URL(), Request: batchRequest})
	if err := n.Send(t.Context(), "key-0", notifiers.Render(t, n, example())); err != nil {
		t.Fatal(err)
	}
	r := server.Accepted()[0]
	if events := readBatch(t, r); len(events) != 1 || events[0].ID() != "key-0" || r.Key != "key-0" {
		t.Errorf("got %v with the key %q", events, r.Key)
	}
}

func TestARetriedBatchIsIdentical(t *testing.T) {
	server := sink.New(t)
	server.Script(sink.Status(503, ""))
	n := newFrom(t, webhook.Config{URL: server.URL(), Request: batchRequest})
	messages := batch(t, n, example(), digest())
	if n.SendBatch(t.Context(), "batch-1", messages) == nil {
		t.Fatal("a 503 is no failure")
	}
	if err := n.SendBatch(t.Context(), "batch-1", messages); err != nil {
		t.Fatal(err)
	}
	if r := server.Requests(); !bytes.Equal(r[0].Body, r[1].Body) || r[0].Key != r[1].Key {
		t.Error("the second request differs")
	}
}

func TestTheSignatureCoversABatch(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	server := sink.New(t)
	n := newFrom(t, webhook.Config{URL: server.URL(), Request: batchRequest, Sign: true, SigningKey: signingKey})
	if err := n.SendBatch(t.Context(), "batch-1", batch(t, n, example(), digest())); err != nil {
		t.Fatal(err)
	}
	r := server.Accepted()[0]
	if err := verifier.Verify(r.Body, r.Header); err != nil || r.Header.Get("Webhook-Id") != "batch-1" {
		t.Errorf("webhook-id %q: %v", r.Header.Get("Webhook-Id"), err)
	}
	if verifier.Verify(bytes.Replace(r.Body, []byte("key-1"), []byte("key-2"), 1), r.Header) == nil {
		t.Error("a batch with another id verifies")
	}
}

func TestOnlyAWebhookWithABatchHasBatches(t *testing.T) {
	for name, tc := range map[string]struct {
		request v1alpha1.WebhookRequest
		want    int
	}{
		"a batch":     {batchRequest, 100},
		"JSON":        {v1alpha1.WebhookRequest{Format: v1alpha1.WebhookJSON}, 0},
		"CloudEvents": {v1alpha1.WebhookRequest{Format: v1alpha1.WebhookCloudEvents}, 0},
		"binary mode": {v1alpha1.WebhookRequest{Format: v1alpha1.WebhookCloudEventsBinary, Batch: batchRequest.Batch}, 0},
	} {
		if got := newFrom(t, webhook.Config{URL: "https://a.example", Request: tc.request}).MaxBatch(); got != tc.want {
			t.Errorf("%s: %d messages, want %d", name, got, tc.want)
		}
	}
}
