package notify_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

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
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test", Guard: dialguard.New(allowed...)})
	t.Cleanup(client.Close)
	return client
}

// The test sends 5,000 messages over real HTTP. The server answers 429 with
// Retry-After, then 500 and 503, then hangs, resets connections, and recovers.
func TestEveryMessageArrivesOnceAtASinkThatFailsInEveryWay(t *testing.T) {
	g := gomega.NewWithT(t)
	const messages = 5000
	server := sink.New(t)
	server.Script(slices.Repeat([]sink.Behaviour{sink.Accept()}, messages/2)...)
	server.Script(sink.TooMany(1))
	server.Script(slices.Repeat([]sink.Behaviour{sink.Status(500, "oops"), sink.Status(503, "")}, 20)...)
	release := make(chan struct{})
	server.Script(sink.Hold(release, sink.Reset()))
	const requestsUntilItHangs = messages/2 + 1 + 2*20 + 1
	server.Script(slices.Repeat([]sink.Behaviour{sink.Reset()}, 10)...)
	store := openOutbox(t, t.TempDir())
	t.Cleanup(func() { _ = store.Close() })
	h := start(t, store, notify.Options{
		MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
		// Other tests check the timeout. Here a busy machine could exceed a short one,
		// and accepted messages would be sent twice.
		RequestTimeout: time.Hour,
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
	if got := h.observer.deliveredCount(); got != messages {
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
	n, err := slack.New(guardedClient(t), server.URL())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	h.Configure(notify.Receiver{Key: shop, Notifier: n, Limit: n.Limit()})
	h.submit(t, store, shop, 0, 1)

	g.Eventually(func() *notify.SendError { return h.Failure(shop) }).WithTimeout(patience).ShouldNot(gomega.BeNil())
	failure := h.Failure(shop)
	if diff := cmp.Diff([]any{notify.Park, v1alpha1.ReasonAddressNotAllowed}, []any{failure.Class, failure.Reason}); diff != "" {
		t.Error(diff)
	}
	if requests := len(server.Requests()); requests != 0 || store.Backlog(shop).Entries != 1 {
		t.Errorf("%d requests, %d entries left", requests, store.Backlog(shop).Entries)
	}
}
