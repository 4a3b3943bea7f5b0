package notify_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// patience is the maximum time of a single step.
const patience = time.Minute

func guardedClient(t *testing.T, allowed ...netip.Prefix) *httppost.Client {
	t.Helper()
	guard := dialguard.New(clock.RealClock{}, dialguard.Config{Allowed: allowed})
	// Other tests check the timeout. Here a busy machine could exceed a short one, and
	// accepted messages would be sent twice.
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test", Guard: guard, Timeout: time.Hour})
	t.Cleanup(client.Close)
	return client
}

// The test sends 5,000 messages over real HTTP. The server answers 429 with
// Retry-After, then 500 and 503, then hangs, resets connections, and recovers.
func TestEveryMessageArrivesOnceAtASinkThatFailsInEveryWay(t *testing.T) {
	g := gomega.NewWithT(t)
	messages := 5000
	if testing.Short() {
		messages = 500
	}
	server := sink.New(t)
	server.Script(slices.Repeat([]sink.Behaviour{sink.Accept()}, messages/2)...)
	server.Script(sink.TooMany(1))
	server.Script(slices.Repeat([]sink.Behaviour{sink.Status(500, "oops"), sink.Status(503, "")}, 20)...)
	release := make(chan struct{})
	server.Script(sink.Hold(release, sink.Reset()))
	requestsUntilItHangs := messages/2 + 1 + 2*20 + 1
	server.Script(slices.Repeat([]sink.Behaviour{sink.Reset()}, 10)...)
	store := openOutbox(t, t.TempDir())
	t.Cleanup(func() { _ = store.Close() })
	h := start(t, store, notify.Options{
		MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
	})
	n, err := webhook.New(guardedClient(t, netip.MustParsePrefix("127.0.0.0/8")), webhook.Config{URL: server.URL()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	h.Configure(notify.Receiver{Key: shop, Notifier: n})
	h.submit(t, store, shop, 0, messages)

	g.Expect(progress.UntilNoneIsLeft(patience, func() int { return requestsUntilItHangs - len(server.Requests()) })).To(gomega.Succeed())
	close(release)
	g.Expect(progress.UntilNoneIsLeft(patience, func() int64 { return store.Backlog(shop).Entries })).To(gomega.Succeed())
	var expected []string
	for i := range messages {
		expected = append(expected, entry(t, shop, i, 1).Key)
	}
	report := server.Audit(expected, sink.ByKey)
	t.Logf("%s in %d requests", report, len(server.Requests()))
	if len(report.Lost) > 0 || report.DuplicateCount() > 0 || len(report.Unexpected) > 0 {
		t.Errorf("%s, want all delivered once", report)
	}
	assertRetriesAreIdentical(t, server.Requests())
	if got := h.observer.deliveredCount(); got != int64(messages) {
		t.Errorf("%d counted as delivered", got)
	}
}

// The server also rejects requests with a batch. It can reject single messages, which only it
// drops.
func TestEveryMessageOfABatchArrivesAtASinkThatFailsInEveryWay(t *testing.T) {
	g := gomega.NewWithT(t)
	messages := 5000
	if testing.Short() {
		messages = 1000
	}
	server := sink.New(t)
	for range 5 {
		server.Script(slices.Repeat([]sink.Behaviour{sink.Accept()}, 5)...)
		server.Script(sink.Status(413, ""), sink.Accept(), sink.TooMany(1), sink.Accept(), sink.Reset(), sink.Status(500, ""), sink.Status(503, ""), sink.Reset())
	}
	store := openOutbox(t, t.TempDir())
	t.Cleanup(func() { _ = store.Close() })
	h := start(t, store, notify.Options{MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	n, err := webhook.New(guardedClient(t, netip.MustParsePrefix("127.0.0.0/8")), webhook.Config{
		URL: server.URL(), Request: v1alpha1.WebhookRequest{
			Format: v1alpha1.WebhookCloudEvents, Batch: &v1alpha1.WebhookBatch{MaxMessages: 100},
		},
	})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	h.submit(t, store, shop, 0, messages)
	h.Configure(notify.Receiver{Key: shop, Notifier: n})
	g.Expect(progress.UntilNoneIsLeft(patience, func() int64 { return store.Backlog(shop).Entries })).To(gomega.Succeed())

	var expected []string
	for i := range messages {
		expected = append(expected, entry(t, shop, i, 1).Key)
	}
	report := server.Audit(expected, sink.ByID)
	requests := server.Requests()
	t.Logf("%s in %d requests", report, len(requests))
	rejected := h.observer.dropped(notify.DropRejected)
	if int64(len(report.Lost)) != rejected || report.DuplicateCount() > 0 || len(report.Unexpected) > 0 {
		t.Errorf("%s, and %d rejected, want all others delivered once", report, rejected)
	}
	assertRetriesAreIdentical(t, requests)
	var order []string
	for _, r := range server.Accepted() {
		order = append(order, sink.ByID(r)...)
		if len(sink.Batch(r)) > 100 {
			t.Errorf("a request of %d messages", len(sink.Batch(r)))
		}
	}
	if !slices.IsSortedFunc(order, func(a, b string) int { return slices.Index(expected, a) - slices.Index(expected, b) }) {
		t.Error("the messages came in another order")
	}
	if got := h.observer.deliveredCount(); got != int64(messages)-rejected {
		t.Errorf("%d counted as delivered", got)
	}
}

func assertRetriesAreIdentical(t *testing.T, requests []sink.Request) {
	t.Helper()
	bodies := map[string]string{}
	for _, r := range requests {
		if first, ok := bodies[r.Key]; ok && first != string(r.Body) {
			t.Errorf("the key %s carries two bodies", r.Key)
		}
		bodies[r.Key] = string(r.Body)
	}
}

func TestAReceiverAtAForbiddenAddressIsParked(t *testing.T) {
	g := gomega.NewWithT(t)
	server := sink.New(t)
	store := openOutbox(t, t.TempDir())
	t.Cleanup(func() { _ = store.Close() })
	h := start(t, store, notify.Options{})
	n, err := slack.New(guardedClient(t), server.URL(), nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	h.Configure(notify.Receiver{Key: shop, Notifier: n, Limits: []notify.Limit{n.Limit()}})
	h.submit(t, store, shop, 0, 1)

	g.Eventually(func() *notify.SendError { return h.Failure(shop) }).WithTimeout(patience).ShouldNot(gomega.BeNil())
	failure := h.Failure(shop)
	if diff := cmp.Diff([]any{notify.Stop, v1alpha1.ReasonAddressNotAllowed}, []any{failure.Class, failure.Reason}); diff != "" {
		t.Error(diff)
	}
	if requests := len(server.Requests()); requests != 0 || store.Backlog(shop).Entries != 1 {
		t.Errorf("%d requests, %d entries left", requests, store.Backlog(shop).Entries)
	}
}
