package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const (
	ops   = "ClusterAlarmReceiver//ops"
	shop  = "AlarmReceiver/shop/team"
	nodes = "ClusterAlarm//nodes"
)

// skipIfShort skips a test that needs SQLite for many seconds, and minutes under the race
// detector. Others have the same concurrency.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: it runs without -short")
	}
}

// openOutbox opens a real outbox. The caller closes it, within the synctest bubble in
// which it was opened.
func openOutbox(t testing.TB, dir string) *outbox.Store {
	t.Helper()
	store, err := outbox.Open(t.Context(), dir, outbox.WithComposer(describeGroup))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// commit stores entries for a receiver, with the names "node-FIRST" to "node-FIRST+N-1".
func commit(t testing.TB, store *outbox.Store, receiver string, first, n int) {
	t.Helper()
	batch := outbox.Change{Events: &outbox.EventStep{Position: store.State().Position + 1}}
	for i := first; i < first+n; i++ {
		batch.Entries = append(batch.Entries, entry(t, receiver, i, batch.Events.Position))
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func entry(t testing.TB, receiver string, i int, position uint64) outbox.Entry {
	t.Helper()
	name := fmt.Sprintf("node-%d", i)
	payload, err := json.Marshal(message.Message{
		Version: message.Version, Alarm: kube.Key{Kind: "ClusterAlarm", Name: "nodes"}, Title: name, Count: 1,
		Events: []message.Event{{Reason: "NodeReady", Count: 1, Regarding: message.Reference{Kind: "Node", Name: name}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Entry{
		Receiver: receiver, Alarm: nodes, Key: fmt.Sprintf("%s %d", receiver, i), Position: position, Count: 1,
		CreatedAt: clock.RealClock{}.Now(), Payload: payload,
	}
}

// harness runs a Dispatcher.
type harness struct {
	*notify.Dispatcher
	observer *observer
	stop     func()
}

// start runs a Dispatcher on the outbox, with the default options of production. stop
// ends it and waits for the end. The cleanup calls stop as well.
func start(t testing.TB, outbox notify.Store, opts notify.Options) *harness {
	t.Helper()
	recorded := &observer{}
	h := startWith(t, outbox, recorded, opts)
	h.observer = recorded
	return h
}

// startWith is start with another Observer.
func startWith(t testing.TB, outbox notify.Store, observer notify.Observer, opts notify.Options) *harness {
	t.Helper()
	return startAt(t, outbox, clock.RealClock{}, observer, opts)
}

// startAt is startWith with another clock.
func startAt(t testing.TB, outbox notify.Store, clk clock.Clock, observer notify.Observer, opts notify.Options) *harness {
	t.Helper()
	h := &harness{}
	h.Dispatcher = notify.NewDispatcher(outbox, observer, clk, logr.Discard(), opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// submit stores entries like commit, and wakes the Dispatcher.
func (h *harness) submit(t testing.TB, store *outbox.Store, receiver string, first, n int) {
	t.Helper()
	commit(t, store, receiver, first, n)
	h.Wake(receiver)
}

// inBubble runs a test with an outbox and a Dispatcher in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, store *outbox.Store, h *harness)) {
	t.Helper()
	inBubbleWith(t, notify.Options{}, test)
}

// inDirectory is inBubble for tests that also need the outbox's directory.
func inDirectory(t *testing.T, test func(t *testing.T, dir string, store *outbox.Store, h *harness)) {
	t.Helper()
	dir := t.TempDir()
	inBubbleAt(t, dir, notify.Options{}, func(t *testing.T, store *outbox.Store, h *harness) { test(t, dir, store, h) })
}

func inBubbleWith(t *testing.T, opts notify.Options, test func(t *testing.T, store *outbox.Store, h *harness)) {
	t.Helper()
	inBubbleAt(t, t.TempDir(), opts, test)
}

func inBubbleAt(t *testing.T, dir string, opts notify.Options, test func(t *testing.T, store *outbox.Store, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := openOutbox(t, dir)
		h := start(t, store, opts)
		test(t, store, h)
		h.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// wait returns when all goroutines wait for the clock.
func wait() { synctest.Wait() }

// after advances the clock by d, and waits.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// observer records all calls.
type observer struct {
	mu                   sync.Mutex
	delivered            int64
	deliveredAs          map[notify.Kind]int64
	droppedBy            map[notify.DropCause]int64
	failures, recoveries []string
	postponed            int
	lostThreads          []string
	// refused are the batches that the receiver refused.
	refused []string
}

func (o *observer) Delivered(_ string, d notify.Delivery, alarms outbox.Counts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.delivered += alarms[nodes]
	if o.deliveredAs == nil {
		o.deliveredAs = map[notify.Kind]int64{}
	}
	o.deliveredAs[d.Kind] += d.Messages
}

func (o *observer) Dropped(_ string, alarms outbox.Counts, cause notify.DropCause, _ string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.droppedBy == nil {
		o.droppedBy = map[notify.DropCause]int64{}
	}
	o.droppedBy[cause] += alarms[nodes]
}

func (o *observer) Failing(_ string, err *notify.SendError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = append(o.failures, err.Text)
}

func (o *observer) Changed(string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.postponed++
}

func (o *observer) Recovered(receiver string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recoveries = append(o.recoveries, receiver)
}

func (o *observer) BatchRefused(_ string, messages int64, err *notify.SendError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, fmt.Sprintf("%d: %s", messages, err.Text))
}

func (o *observer) ThreadLost(receiver, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lostThreads = append(o.lostThreads, receiver+": "+text)
}

func (o *observer) deliveredCount() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.delivered
}

// messages returns the numbers of delivered messages.
func (o *observer) messages() map[notify.Kind]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.deliveredAs)
}

func (o *observer) dropped(cause notify.DropCause) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.droppedBy[cause]
}

func (o *observer) statusChanges() (failures, recoveries []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.failures), slices.Clone(o.recoveries)
}

// pauses returns how many changes of the next attempt were reported.
func (o *observer) pauses() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.postponed
}

// sent is one call of a fake's Send.
type sent struct {
	Key, Body string
	At        time.Time
}

// fake is a Notifier without a network.
type fake struct {
	format string
	// answer returns the result of an attempt, counted from 0; nil accepts all.
	answer func(ctx context.Context, attempt int) error
	// render returns the body; by default the title, or "digest of N" for a digest.
	render func(m message.Message) string

	mu       sync.Mutex
	attempts []sent
}

func (f *fake) Format() string { return "fake" + f.format }

func (f *fake) Render(m message.Message) ([]byte, error) {
	switch {
	case f.render != nil:
		return []byte(f.render(m)), nil
	case m.Digest:
		return fmt.Appendf(nil, "digest of %d", m.Count), nil
	}
	return []byte(m.Title), nil
}

func (f *fake) Send(ctx context.Context, key string, body []byte) error {
	f.mu.Lock()
	attempt := len(f.attempts)
	f.attempts = append(f.attempts, sent{key, string(body), clock.RealClock{}.Now()})
	f.mu.Unlock()
	if f.answer == nil {
		return nil
	}
	return f.answer(ctx, attempt)
}

func (f *fake) all() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.attempts)
}

func (f *fake) bodies() []string {
	var bodies []string
	for _, s := range f.all() {
		bodies = append(bodies, s.Body)
	}
	return bodies
}

// answers returns the errors one after the other, and then accepts.
func answers(errs ...error) func(context.Context, int) error {
	return func(_ context.Context, attempt int) error {
		if attempt < len(errs) {
			return errs[attempt]
		}
		return nil
	}
}

func failure(class notify.Class, text string) error {
	return &notify.SendError{Class: class, Text: text}
}
