package notify_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/pagerduty"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// roundTrip is the time until the server of the benchmark answers.
	roundTrip = 50 * time.Millisecond
	// leastRatio is the limit for the messages per second with batches, compared with those
	// without.
	leastRatio = 25
	// leastSooner is the limit for the delay of an incident behind repeats of others without
	// combined messages, compared with that with them.
	leastSooner = 15
)

// slowServer returns the URL of a server that accepts each request after 50 ms.
func slowServer(b *testing.B) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(roundTrip)
		w.WriteHeader(http.StatusOK)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// BenchmarkWebhookBatch measures how many messages that wait in the outbox a webhook receives
// per second, if the server answers after 50 ms. It compares batches of 100 messages with one
// message in each request, in the same run. A body of the user's own cannot be in a batch.
func BenchmarkWebhookBatch(b *testing.B) {
	url := slowServer(b)
	alone := v1alpha1.WebhookRequest{Format: v1alpha1.WebhookCloudEvents}
	batch := alone
	batch.Batch = &v1alpha1.WebhookBatch{MaxMessages: 100}
	own := v1alpha1.WebhookRequest{Body: `{"text": "${message.title}"}`}
	for b.Loop() {
		b.ReportMetric(deliveryRate(b, url, own, 100), "own/s")
		without := deliveryRate(b, url, alone, 100)
		with := deliveryRate(b, url, batch, 5000)
		b.ReportMetric(without, "alone/s")
		b.ReportMetric(with, "batched/s")
		b.ReportMetric(with/without, "ratio")
		b.ReportMetric(leastRatio, "limit")
		b.ReportMetric(0, "ns/op")
		if with < leastRatio*without {
			b.Errorf("%.0f messages per second in batches, %.1f without: want at least %d times as many", with, without, leastRatio)
		}
	}
}

// deliveryRate returns how many of n messages a receiver gets per second.
func deliveryRate(b *testing.B, url string, request v1alpha1.WebhookRequest, n int) float64 {
	b.Helper()
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	defer client.Close()
	notifier, err := webhook.New(client, webhook.Config{URL: url, Request: request})
	if err != nil {
		b.Fatal(err)
	}
	return float64(n) / deliveryTime(b, notifier, n, func(store *outbox.Store) {
		for first := 0; first < n; first += 100 {
			commit(b, store, ops, first, 100)
		}
	}).Seconds()
}

// deliveryTime returns how long the delivery of n messages takes that wait.
func deliveryTime(b *testing.B, notifier notify.Notifier, n int, commit func(*outbox.Store)) time.Duration {
	b.Helper()
	store := openOutbox(b, b.TempDir())
	defer func() { _ = store.Close() }()
	finished := &finish{done: make(chan time.Time, 1), left: int64(n)}
	h := startWith(b, store, finished, notify.Options{})
	defer h.stop()
	commit(store)
	begin := time.Now()
	h.Configure(notify.Receiver{Key: ops, Notifier: notifier})
	return (<-finished.done).Sub(begin)
}

// each hides the other methods of a Notifier, so that each message is a request.
type each struct{ notify.Notifier }

// BenchmarkIncidentBehindRepeats measures when the message of a new incident arrives, if 100
// messages wait before it that are about four others. The server answers after 50 ms. It compares
// this with one request for each message, in the same run.
func BenchmarkIncidentBehindRepeats(b *testing.B) {
	const repeats = 100
	url := slowServer(b)
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	b.Cleanup(client.Close)
	incidents, err := pagerduty.New(client, pagerduty.Config{URL: url, RoutingKey: strings.Repeat("k", 32)})
	if err != nil {
		b.Fatal(err)
	}
	alerts, err := alertmanager.New(client, alertmanager.Config{URL: url, Clock: clock.RealClock{}})
	if err != nil {
		b.Fatal(err)
	}
	for name, notifier := range map[string]notify.Notifier{"pagerDuty": incidents, "alertmanager": alerts} {
		b.Run(name, func(b *testing.B) {
			wait := func(n notify.Notifier) time.Duration {
				return deliveryTime(b, n, repeats+1, func(store *outbox.Store) { commitRepeats(b, store, repeats) })
			}
			for b.Loop() {
				alone, combined := wait(each{notifier}), wait(notifier)
				ratio := alone.Seconds() / combined.Seconds()
				b.ReportMetric(alone.Seconds()*1000, "alone-ms")
				b.ReportMetric(combined.Seconds()*1000, "combined-ms")
				b.ReportMetric(ratio, "ratio")
				b.ReportMetric(leastSooner, "limit")
				b.ReportMetric(0, "ns/op")
				if ratio < leastSooner {
					b.Errorf("the new incident arrives after %s, and after %s if each message is a request: want at least %d times as soon", combined, alone, leastSooner)
				}
			}
		})
	}
}

// commitRepeats stores messages about four objects in turns, and then one about a new object.
func commitRepeats(b *testing.B, store *outbox.Store, repeats int) {
	b.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: 1}}
	for i := range repeats + 1 {
		about := i % 4
		if i == repeats {
			about = 4
		}
		e := entry(b, ops, about, 1)
		e.Subject, e.Key = e.Key, fmt.Sprint("repeat ", i)
		batch.Entries = append(batch.Entries, e)
	}
	if err := store.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
}

// finish is an Observer that waits for a number of deliveries.
type finish struct {
	observer
	left int64
	done chan time.Time
}

func (f *finish) Delivered(_ string, _ notify.Delivery, alarms outbox.Counts) {
	if f.left -= alarms[nodes]; f.left == 0 {
		f.done <- time.Now()
	}
}
