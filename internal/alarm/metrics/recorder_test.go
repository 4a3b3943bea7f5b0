package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// backOff is an alarm of all BackOffs, but for a change.
func backOff(change func(*v1alpha1.AlarmSpec)) v1alpha1.AlarmSpec {
	spec := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{"BackOff"}}}}
	if change != nil {
		change(&spec)
	}
	return spec
}

func byName(s *v1alpha1.AlarmSpec) {
	s.Group = &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(30)), IntervalSeconds: new(int32(600))}
}

// Of everything that happens all is counted that belongs to it, and nothing else.
func TestEachMetricMovesWhenItsThingHappens(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*v1alpha1.AlarmSpec)
		answer  error
		limit   time.Duration
		happens func(l *line)
		want    map[string]float64
	}{
		"nobody wants to know": {
			change:  func(s *v1alpha1.AlarmSpec) { s.Match[0].Reasons = []string{"Evicted"} },
			happens: func(l *line) { l.happens(3, "a", "b") },
			want:    map[string]float64{},
		},
		"it is delivered": {
			happens: func(l *line) { l.happens(3, "a", "b") },
			want: map[string]float64{
				"occurrences_matched_total": 6, "occurrences_delivered_total": 6,
				"messages_delivered_total occurrence": 2, "delivery_latency_seconds": 2,
			},
		},
		"it waits in groups": {
			change:  byName,
			happens: func(l *line) { l.happens(3, "a", "b", "a") },
			want:    map[string]float64{"occurrences_matched_total": 9, "held_occurrences": 3, "open_groups": 2},
		},
		"it is told in its group": { // what the group waits is not in the latency
			change: byName,
			happens: func(l *line) {
				l.happens(3, "a", "b", "a")
				after(5 * time.Minute)
			},
			want: map[string]float64{
				"occurrences_matched_total": 9, "occurrences_delivered_total": 9, "occurrences_suppressed_total group": 1,
				"messages_delivered_total group": 2, "delivery_latency_seconds": 2, "open_groups": 2,
			},
		},
		"the group's next message waits for the interval": {
			change: byName,
			happens: func(l *line) {
				l.happens(1, "a")
				after(5 * time.Minute)
				l.happens(1, "a", "a")
				after(10 * time.Minute)
			},
			want: map[string]float64{
				"occurrences_matched_total": 3, "occurrences_delivered_total": 3, "occurrences_suppressed_total group": 1,
				"messages_delivered_total group": 2, "delivery_latency_seconds": 2, "open_groups": 1,
			},
		},
		"it is not often enough": {
			change: func(s *v1alpha1.AlarmSpec) {
				byName(s)
				s.Threshold = &v1alpha1.AlarmThreshold{Count: 3, WithinSeconds: 60}
			},
			happens: func(l *line) { l.happens(2, "a", "b") },
			want:    map[string]float64{"occurrences_matched_total": 4, "occurrences_suppressed_total threshold": 4, "open_windows": 2},
		},
		"the alarm is mute": {
			change: func(s *v1alpha1.AlarmSpec) {
				s.Mute = []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "00:00", End: "24:00"}}}}
			},
			happens: func(l *line) { l.happens(2, "a") },
			want:    map[string]float64{"occurrences_matched_total": 2, "occurrences_suppressed_total mute": 2},
		},
		"a rate limit holds back": {
			limit: time.Minute,
			happens: func(l *line) {
				l.happens(1, "a", "b", "c")
				after(2 * time.Minute)
			},
			want: map[string]float64{
				"occurrences_matched_total": 3, "occurrences_delivered_total": 3, "delivery_latency_seconds": 2, "delivery_latency_seconds sum": 60,
				"messages_delivered_total occurrence": 1, "messages_delivered_total digest": 1,
			},
		},
		"the message is refused": {
			answer:  &notify.SendError{Class: notify.Reject},
			happens: func(l *line) { l.happens(2, "a") },
			want: map[string]float64{
				"occurrences_matched_total": 2, "occurrences_dropped_total rejected": 2, "delivery_failures_total reject": 1,
			},
		},
		"the receiver is parked": {
			answer: &notify.SendError{Class: notify.Park},
			happens: func(l *line) {
				l.happens(2, "a", "b")
				after(time.Hour)
			},
			want: map[string]float64{
				"occurrences_matched_total": 4, "delivery_failures_total park": 1,
				"outbox_messages": 2, "outbox_oldest_message_seconds": 3600,
			},
		},
		"the receiver was parked": {
			answer: &notify.SendError{Class: notify.Park},
			happens: func(l *line) {
				l.happens(2, "a")
				after(time.Hour)
				l.Configure(notify.Receiver{Key: ops, Notifier: &receiver{}})
				after(time.Second)
			},
			want: map[string]float64{
				"occurrences_matched_total": 2, "delivery_failures_total park": 1, "occurrences_delivered_total": 2,
				"messages_delivered_total occurrence": 1, "delivery_latency_seconds": 1, "delivery_latency_seconds sum": 3600,
			},
		},
		"the object is gone": {
			change: func(s *v1alpha1.AlarmSpec) {
				s.Match[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
			},
			happens: func(l *line) { l.happens(2, "a") },
			want:    map[string]float64{"occurrences_unresolved_total": 2},
		},
		"an expression fails": {
			change:  func(s *v1alpha1.AlarmSpec) { s.Match[0].Expression = `int(event.note) > 0` },
			happens: func(l *line) { l.happens(2, "a") },
			want:    map[string]float64{"expression_failures_total": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLine(t, backOff(tc.change), func(l *line) {
				l.Configure(notify.Receiver{Key: ops, Notifier: &receiver{tc.answer}, Limit: notify.Limit{Every: tc.limit}})
				tc.happens(l)
				if diff := cmp.Diff(tc.want, l.metrics()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// What groups save is no occurrence that its owner was not told of.
func TestWhatIsToldInAGroupIsNotSuppressedInStatus(t *testing.T) {
	onLine(t, backOff(byName), func(l *line) {
		l.Configure(notify.Receiver{Key: ops, Notifier: &receiver{}})
		l.happens(1, "a", "a", "a")
		after(time.Minute)
		var status v1alpha1.AlarmStatus
		l.Apply("ClusterAlarm//some", "uid", &status)
		if status.Matched != 3 || status.Delivered != 3 || status.Suppressed != 0 {
			t.Errorf("matched %d, delivered %d, suppressed %d", status.Matched, status.Delivered, status.Suppressed)
		}
	})
}

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
