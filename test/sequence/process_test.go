package sequence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/metrics"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// process is one process of the operator: the parts from the event source to the receivers,
// on the disk of a replica.
type process struct {
	w       *world
	replica int
	// dead: the process was killed, and has no effect any more.
	dead atomic.Bool
	// foreign: the outbox is not that of the last leader. It becomes false with the first
	// write of the checkpoint.
	foreign bool
	// restored: etcd was restored while it led. It then ends if another process wrote the checkpoint.
	restored bool
	// led: it has written the checkpoint.
	led bool
	// started is when it began to lead, in whole seconds.
	started time.Time

	store      *outbox.Store
	source     *source.Source
	dispatcher *notify.Dispatcher
	alarms     *pipeline.Alarms
	cancel     context.CancelFunc
	ended      chan struct{}
	err        error
}

// start starts the operator on a replica, which becomes the leader.
func (w *world) start(replica int) *process {
	w.starts++
	p := &process{w: w, replica: replica, started: time.Now().Truncate(time.Second), ended: make(chan struct{}), alarms: pipeline.NewAlarms()}
	var err error
	p.store, err = outbox.Open(w.ctx, w.disks[replica], outbox.WithComposer(pipeline.ComposeGroup))
	w.must(err)
	p.foreign = !w.ownsTerm(p.store.State()) || w.newest >= 0 && w.newest != replica
	w.resumes(p)
	w.cluster.written = func() { w.checkpointWritten(p) }
	counts := counters.New(p.store)
	api := &writer{cluster: w.cluster, process: p}
	load := metrics.Load{
		Size: func() outbox.Size { return outbox.Size{} }, UsedBytes: func() float64 { return 0 },
		LimitBytes: func() float64 { return 0 }, OldestSeconds: func() float64 { return 0 },
	}
	observer := metrics.NewObserver(counts, metrics.New(prometheus.NewRegistry(), load),
		events.NewRecorder(api, clock.RealClock{}, "bongsu"), "bongsu", clock.RealClock{}, logr.Discard())
	p.dispatcher = notify.NewDispatcher(p.store, observer, clock.RealClock{}, logr.Discard(), notify.Options{Orphaned: p.orphaned})
	p.source, err = source.New(w.cluster.config(), clock.RealClock{}, logr.Discard())
	w.must(err)
	for _, e := range w.receivers {
		if !e.isDeleted() {
			p.configure(e)
		}
	}
	leader := pipeline.New(pipeline.Config{
		ClusterUID: "cluster", Source: p.source, Outbox: p.store, Checkpoint: checkpoint.NewStore(api, "bongsu"),
		Dispatcher: p.dispatcher, Alarms: p.alarms, Namespaces: noNamespaces{}, Enricher: w, Reporter: observer, MaxAge: 24 * time.Hour,
		Observe: func(context.Context, []alarm.Occurrence) {}, Clock: clock.RealClock{}, Log: logr.Discard(),
		Receiver: p.receiver,
		LoadAlarms: func(context.Context) error {
			for _, a := range w.alarms {
				p.apply(a)
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(w.ctx)
	p.cancel = cancel
	go func() {
		defer close(p.ended)
		var flushing sync.WaitGroup
		flushing.Go(func() {
			_ = counts.Flush(ctx, clock.RealClock{}, func(subject string) { p.writeStatus(ctx, counts, subject) })
		})
		err := leader.Start(ctx)
		cancel()
		flushing.Wait()
		if !p.dead.Load() {
			for _, a := range w.alarms {
				p.writeStatus(w.ctx, counts, a.key)
			}
		}
		p.err = errors.Join(err, p.store.Close())
	}()
	return p
}

// resumes reports to the model where a process begins to read.
func (w *world) resumes(p *process) {
	defer w.lock()()
	position := p.store.State().Position
	if p.foreign {
		position = w.cluster.needed()
	}
	w.model.resumes(position, w.cluster.compacted)
}

// writeStatus does what the controllers do for the counts of an alarm or a receiver.
func (p *process) writeStatus(ctx context.Context, counts *counters.Counters, subject string) {
	if p.dead.Load() || p.w.cluster.isDown() {
		return
	}
	m := p.w.model
	m.mu.Lock()
	stored := m.statuses[subject]
	m.mu.Unlock()
	status := stored
	live := func(context.Context) (*v1alpha1.AlarmStatus, error) { return &stored, nil }
	if err := counts.Apply(ctx, subject, types.UID("uid of "+subject), &status, live); err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.statuses[subject] = status
}

// apply does what the controller of alarms does.
func (p *process) apply(a *alarmState) {
	if a.suspended {
		p.alarms.Delete(a.key)
		return
	}
	p.alarms.Set(a.key, fmt.Sprint("resumed at ", a.definition.ResumedAt), a.compiled)
}

// configure does what the controller of receivers does.
func (p *process) configure(e *endpoint) {
	p.dispatcher.Configure(notify.Receiver{
		Key: e.key, UID: e.uid, Fingerprint: e.uid, Notifier: &notifier{process: p, endpoint: e}, Namespace: e.namespace(), Limits: e.limits,
	})
}

// receiver does what the operator does with its cache of the receivers.
func (p *process) receiver(key string) (pipeline.Receiver, bool) {
	p.w.model.mu.Lock()
	defer p.w.model.mu.Unlock()
	e := p.w.receivers[key]
	since := e.created.Truncate(time.Second).Add(time.Second)
	if since.After(p.started) {
		since = p.started
	}
	return pipeline.Receiver{ID: alarm.ReceiverID(key, e.uid), Since: since}, !e.isDeleted()
}

// orphaned does what the operator does to learn whether a receiver exists.
func (p *process) orphaned(id string) bool {
	key, uid := alarm.SplitReceiver(id)
	if p.w.cluster.isDown() {
		return false
	}
	p.w.model.mu.Lock()
	defer p.w.model.mu.Unlock()
	e := p.w.receivers[key]
	return e.isDeleted() || e.uid != uid
}

// ownsTerm reports whether the outbox had the last term, by the tokens of outbox and
// checkpoint.
func (w *world) ownsTerm(state outbox.State) bool {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	last := w.cluster.decoded().Epoch
	return last == "" || last == state.Epoch || last == state.NextEpoch
}

// stop ends the process as SIGTERM does.
func (w *world) stop() {
	w.read = w.position()
	p := w.leader
	w.leader = nil
	p.cancel()
	<-p.ended
	w.model.ended(p)
	if p.err != nil && !errors.Is(p.err, context.Canceled) && !w.cluster.isDown() && !p.restored {
		w.failf("error: %v", p.err)
	}
}

// kill ends the process as SIGKILL does: the disk of the replica is as it was.
func (w *world) kill() {
	synctest.Wait()
	w.read = w.position()
	p := w.leader
	w.leader = nil
	p.dead.Store(true)
	former := w.disks[p.replica]
	w.disks[p.replica] = w.newDisk()
	for _, name := range []string{file.Name, file.Name + "-wal"} {
		data, err := os.ReadFile(filepath.Join(former, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		w.must(err)
		w.must(os.WriteFile(filepath.Join(w.disks[p.replica], name), data, 0o600))
	}
	w.model.ended(p)
	p.cancel()
	w.killed = append(w.killed, p)
}

// revive starts a process again that has ended with an error.
func (w *world) revive() {
	if w.leader == nil {
		return
	}
	select {
	case <-w.leader.ended:
		w.leader = w.start(w.leader.replica)
	default:
	}
}

// endpoint is a receiver, one of several that had its key after another.
type endpoint struct {
	key, uid string
	limits   []notify.Limit
	// behaviour is read and written with the model's mutex locked. poison is the last
	// occurrence that existed when the receiver began to refuse some.
	behaviour behaviour
	poison    int
	// created is zero for those that exist from the beginning. deleted is zero for those that
	// exist.
	created, deleted time.Time
	// recreated: another one of its name existed before. unobserved: no leader ran when this one was
	// created. read is the position of the leader then.
	recreated, unobserved bool
	read                  uint64
}

func (e *endpoint) isDeleted() bool { return !e.deleted.IsZero() }

func (e *endpoint) namespace() string { return strings.Split(e.key, "/")[1] }

// behaviour is what a receiver does with a request.
type behaviour int

const (
	accepts    behaviour = iota
	fails                // 503
	unknown              // 404
	hangs                // no answer within 10 seconds
	late                 // it accepts the message, but answers too late
	rejects              // 400 for one occurrence in five, and only for that
	poisoned             // 503 for one occurrence in five, and only for that
	behaviours           // their number
)

// timeout is the default time limit of a request.
const timeout = 10 * time.Second

// maxBatch is the number of messages that a request to the receiver backup can have. The others
// have one.
const maxBatch = 10

// notifier sends to an endpoint. It implements notify.Batcher.
type notifier struct {
	process  *process
	endpoint *endpoint
}

// Format implements notify.Notifier.
func (n *notifier) Format() string { return "test" }

// Render implements notify.Notifier.
func (n *notifier) Render(m message.Message) ([]byte, error) { return message.Encode(m) }

// MaxBatch implements notify.Batcher.
func (n *notifier) MaxBatch() int {
	if n.endpoint.key == backup {
		return maxBatch
	}
	return 0
}

// Send implements notify.Notifier.
func (n *notifier) Send(ctx context.Context, key string, body []byte) error {
	return n.SendBatch(ctx, key, []notify.BatchMessage{{Key: key, Body: body}})
}

// SendBatch implements notify.Batcher.
func (n *notifier) SendBatch(ctx context.Context, _ string, batch []notify.BatchMessage) error {
	if err := pause(ctx, latency); err != nil {
		return err
	}
	if n.process.dead.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	messages := make([]message.Message, len(batch))
	for i := range batch {
		n.process.w.must(json.Unmarshal(batch[i].Body, &messages[i]))
	}
	b, accepted := n.process.w.model.request(n.endpoint, messages)
	switch b {
	case accepts, behaviours:
	case fails, poisoned:
		return &notify.SendError{Class: notify.Retry, Reason: v1alpha1.ReasonDeliveryFailing, Text: "503"}
	case unknown:
		return &notify.SendError{Class: notify.Stop, Reason: v1alpha1.ReasonDeliveryFailing, Text: "404"}
	case rejects:
		return &notify.SendError{Class: notify.Reject, Reason: v1alpha1.ReasonDeliveryFailing, Text: "400"}
	case hangs, late:
		if err := pause(ctx, timeout); err != nil {
			return err
		}
		return &notify.SendError{Class: notify.Retry, Reason: v1alpha1.ReasonDeliveryFailing, Text: "timeout"}
	}
	if err := pause(ctx, latency); err != nil {
		return err // the request is cut off, and will be repeated
	}
	if !n.process.dead.Load() {
		for i, a := range accepted {
			n.process.w.model.answered(a, &messages[i])
		}
	}
	return nil
}

// serialOf returns the number of the occurrence that an Event of a message is about. It is
// in the note of the Event.
func serialOf(note string) int {
	_, number, _ := strings.Cut(note, "#")
	serial, err := strconv.Atoi(number)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return serial
}

// noNamespaces implements match.Namespaces: the alarms here do not select by labels.
type noNamespaces struct{}

func (noNamespaces) Labels(string) (map[string]string, bool, alarm.Unread) { return nil, true, "" }

// Context implements pipeline.Enricher.
func (w *world) Context(_ context.Context, event *alarm.Event) alarm.Context {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	if w.model.unreadable[event.Regarding.Name] {
		return alarm.Context{ObjectUnread: "not now"}
	}
	return alarm.Context{Resolved: true}
}

func (*world) Named(context.Context, *alarm.Event, []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	return alarm.Context{}, alarm.Resource{}, false
}
