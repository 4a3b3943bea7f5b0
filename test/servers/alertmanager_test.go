package servers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/alertmanager"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// alertmanagerBinary is what `make e2e-servers` builds.
var alertmanagerBinary = filepath.Join("..", "..", "bin", "e2e", "alertmanager-0.28.1", "alertmanager")

// pager is a running Alertmanager, and what it notified.
type pager struct {
	t        *testing.T
	url      string
	notified *sink.Sink
	read     int
}

// startAlertmanager skips the test if Alertmanager is missing. It resolves alerts without an end
// after an hour.
func startAlertmanager(t *testing.T) *pager {
	t.Helper()
	binary, err := filepath.Abs(alertmanagerBinary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("no Alertmanager: run `make e2e-servers`, which builds it: %v", err)
	}
	p := &pager{t: t, notified: sink.New(t)}
	config := filepath.Join(t.TempDir(), "alertmanager.yml")
	err = os.WriteFile(config, fmt.Appendf(nil, `
global: {resolve_timeout: 1h}
route: {receiver: test, group_by: ["..."], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: test, webhook_configs: [{url: %q, send_resolved: true}]}]
`, p.notified.URL()), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + start(t, "/-/ready", nil, func(host, port string) []string {
		return []string{binary, "--config.file=" + config, "--storage.path=" + t.TempDir(), "--web.listen-address=" + host + ":" + port, "--cluster.listen-address="}
	})
	return p
}

func (p *pager) notifier(resolveAfter time.Duration) *alertmanager.Notifier {
	p.t.Helper()
	n, err := alertmanager.New(notifiers.Client(p.t), alertmanager.Config{URL: p.url, ResolveAfter: resolveAfter, Clock: clock.RealClock{}})
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *pager) send(n *alertmanager.Notifier, m message.Message) {
	p.t.Helper()
	if err := n.Send(p.t.Context(), "key", notifiers.Render(p.t, n, m)); err != nil {
		p.t.Fatal(err)
	}
}

// news returns the statuses that Alertmanager notified since the last call.
func (p *pager) news() (statuses []string) {
	p.t.Helper()
	requests := p.notified.Accepted()
	for _, r := range requests[p.read:] {
		var body struct{ Status string }
		if err := json.Unmarshal(r.Body, &body); err != nil {
			p.t.Fatal(err)
		}
		statuses = append(statuses, body.Status)
	}
	p.read = len(requests)
	return statuses
}

func (p *pager) await(status string) {
	p.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		if news := p.news(); len(news) > 1 || len(news) == 1 && news[0] != status {
			p.t.Fatalf("Alertmanager notified %v, want one %s", news, status)
		} else if len(news) == 1 {
			return
		}
	}
	p.t.Fatalf("Alertmanager notified nothing in %v, want %s", patience, status)
}

// The Events are days old, as after an outage, or are from the future, as those of a node with a
// wrong clock.
func TestAlertmanagerNotifiesOfAGroupUntilItIsResolved(t *testing.T) {
	t.Parallel()
	for name, shift := range map[string]time.Duration{"after an outage": -48 * time.Hour, "from the future": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startAlertmanager(t)
			n := p.notifier(0)
			open, resolved := messages.Grouped(4, false), messages.Grouped(5, true)
			for _, m := range []*message.Message{&open, &resolved} {
				m.Group.Since = time.Now().Add(shift - time.Hour)
				m.FirstSeen, m.LastSeen = m.Group.Since, time.Now().Add(shift)
			}
			p.send(n, open)
			p.await("firing")
			p.send(n, resolved)
			p.await("resolved")
			p.send(n, open) // it begins again
			p.await("firing")
		})
	}
}

func TestAlertmanagerKeepsAnAlertWhileItIsSentAgain(t *testing.T) {
	t.Parallel()
	p := startAlertmanager(t)
	const validity = 8 * time.Second
	n, open := p.notifier(validity), messages.Grouped(4, false)
	p.send(n, open)
	p.await("firing")
	for begun := time.Now(); time.Since(begun) < 2*validity; time.Sleep(validity / 8) {
		if err := n.SendAgain(t.Context(), []message.Message{open}); err != nil {
			t.Fatal(err)
		}
		if news := p.news(); len(news) > 0 {
			t.Fatalf("while the group is open, Alertmanager notified %v", news)
		}
	}
	p.await("resolved") // the operator is gone
}
