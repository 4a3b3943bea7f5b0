package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/metrics"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/pipeline"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

const ops = "ClusterAlarmReceiver//ops"

// line is the whole way from the feed to a receiver, with one alarm, in a bubble of
// synctest. What is not there are the API server and the network.
type line struct {
	t        *testing.T
	registry *prometheus.Registry
	*notify.Dispatcher
	*counters.Counters
	feed     feed
	position uint64
}

// onLine runs a test of an alarm.
func onLine(t *testing.T, spec v1alpha1.AlarmSpec, test func(l *line)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := &line{t: t, registry: prometheus.NewPedanticRegistry(), Counters: counters.New(), feed: make(feed)}
		books, err := outbox.Open(t.Context(), dir)
		must(t, err)
		ms := metrics.New(l.registry, metrics.Load{
			Size: books.Size,
			OldestSeconds: func() float64 {
				since, err := books.Oldest(t.Context())
				must(t, err)
				if since.IsZero() {
					return 0
				}
				return clock.RealClock{}.Since(since).Seconds()
			},
		})
		accountant := metrics.NewRecorder(l.Counters, ms, nil, "", clock.RealClock{}, logr.Discard())
		l.Dispatcher = notify.NewDispatcher(books, accountant, clock.RealClock{}, logr.Discard(), notify.Options{})
		p := pipeline.New(pipeline.Config{
			ClusterUID: "cluster", Source: l.feed, Outbox: books, Checkpoint: &noMirror{}, Dispatcher: l.Dispatcher,
			Alarms: inForce(t, spec), Enricher: nothingKnown{}, Reporter: accountant,
			Observe:    func(context.Context, []alarm.Occurrence) {},
			LoadAlarms: func(context.Context) error { return nil },
			Clock:      clock.RealClock{}, Log: logr.Discard(),
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Start(ctx) }()
		test(l)
		stop()
		must(t, <-done)
		must(t, books.Close())
	})
}

func inForce(t *testing.T, spec v1alpha1.AlarmSpec) *pipeline.Alarms {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: alarm.ID{Kind: alarm.KindClusterAlarm, Name: "some"}, UID: "uid", Spec: spec, Receivers: []string{ops},
	})
	must(t, err)
	alarms := pipeline.NewAlarms()
	alarms.Set("some", "1", compiled)
	return alarms
}

// happens has Events read of objects, each of which happened so many times more.
func (l *line) happens(times int64, names ...string) {
	l.t.Helper()
	var b source.Batch
	for _, name := range names {
		l.position++
		b.Occurrences = append(b.Occurrences, alarm.Occurrence{
			Event: alarm.Event{
				UID: fmt.Sprint(l.position), Count: times, Reason: "BackOff", Note: "it fails",
				Regarding: alarm.Reference{Kind: "Pod", Name: name},
			},
			Increase: times, Position: l.position, ObservedAt: clock.RealClock{}.Now(),
		})
	}
	b.Position = l.position
	l.feed <- b
	synctest.Wait()
}

// after lets a time pass, and what happens by then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// metrics are all that are not 0, without "bongsu_". Of a histogram it is how much was
// observed, and the sum in whole seconds.
func (l *line) metrics() map[string]float64 {
	l.t.Helper()
	families, err := l.registry.Gather()
	must(l.t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "bongsu_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			all[name+" sum"] = float64(int64(m.GetHistogram().GetSampleSum()))
		}
	}
	for name, value := range all {
		if value == 0 {
			delete(all, name)
		}
	}
	return all
}

// feed hands out batches as they come.
type feed chan source.Batch

func (f feed) Run(ctx context.Context, _ source.Start, handle source.Handler) error {
	for {
		select {
		case b := <-f:
			if err := handle(ctx, b); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// noMirror is what another replica would never read.
type noMirror struct{}

func (*noMirror) Read(context.Context) (checkpoint.Checkpoint, bool, error) {
	return checkpoint.Checkpoint{}, false, nil
}
func (*noMirror) Write(context.Context, checkpoint.Checkpoint) error { return nil }

type nothingKnown struct{}

func (nothingKnown) Context(context.Context, *alarm.Event) alarm.Context { return alarm.Context{} }

// receiver answers what it is told to.
type receiver struct{ err error }

func (r *receiver) Format() string                             { return "test" }
func (r *receiver) Render(message.Message) ([]byte, error)     { return []byte("{}"), nil }
func (r *receiver) Send(context.Context, string, []byte) error { return r.err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
