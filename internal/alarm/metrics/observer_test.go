package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
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
	"github.com/bongsu-io/bongsu/internal/kube"
)

// backOff returns an alarm for all BackOffs, modified by change.
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

// Each case checks all metrics, so that none changes without a reason.
func TestMetricsOfEachOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*v1alpha1.AlarmSpec)
		answer  error
		limit   time.Duration
		happens func(h *harness)
		want    map[string]float64
	}{
		"not matched": {
			change:  func(s *v1alpha1.AlarmSpec) { s.Match[0].Reasons = []string{"Evicted"} },
			happens: func(h *harness) { h.happens(3, "a", "b") },
			want:    map[string]float64{},
		},
		"delivered": {
			happens: func(h *harness) { h.happens(3, "a", "b") },
			want: map[string]float64{
				"occurrences_matched_total": 6, "occurrences_delivered_total": 6,
				"messages_delivered_total occurrence": 2, "delivery_latency_seconds": 2,
			},
		},
		"waiting in groups": {
			change:  byName,
			happens: func(h *harness) { h.happens(3, "a", "b", "a") },
			want:    map[string]float64{"occurrences_matched_total": 9, "held_occurrences": 3, "open_groups": 2},
		},
		"sent with its group": { // the waiting time of the group is not in the latency
			change: byName,
			happens: func(h *harness) {
				h.happens(3, "a", "b", "a")
				after(5 * time.Minute)
			},
			want: map[string]float64{
				"occurrences_matched_total": 9, "occurrences_delivered_total": 9, "occurrences_suppressed_total group": 1,
				"messages_delivered_total group": 2, "delivery_latency_seconds": 2, "open_groups": 2,
			},
		},
		"the group's next message waits for the interval": {
			change: byName,
			happens: func(h *harness) {
				h.happens(1, "a")
				after(5 * time.Minute)
				h.happens(1, "a", "a")
				after(10 * time.Minute)
			},
			want: map[string]float64{
				"occurrences_matched_total": 3, "occurrences_delivered_total": 3, "occurrences_suppressed_total group": 1,
				"messages_delivered_total group": 2, "delivery_latency_seconds": 2, "open_groups": 1,
			},
		},
		"below the threshold": {
			change: func(s *v1alpha1.AlarmSpec) {
				byName(s)
				s.Threshold = &v1alpha1.AlarmThreshold{Count: 3, WithinSeconds: 60}
			},
			happens: func(h *harness) { h.happens(2, "a", "b") },
			want:    map[string]float64{"occurrences_matched_total": 4, "occurrences_suppressed_total threshold": 4, "open_groups": 2, "open_windows": 2},
		},
		"the alarm is muted": {
			change: func(s *v1alpha1.AlarmSpec) {
				s.Mute = []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "00:00", End: "24:00"}}}}
			},
			happens: func(h *harness) { h.happens(2, "a") },
			want:    map[string]float64{"occurrences_matched_total": 2, "occurrences_suppressed_total mute": 2},
		},
		"a rate limit delays": {
			limit: time.Minute,
			happens: func(h *harness) {
				h.happens(1, "a", "b", "c")
				after(2 * time.Minute)
			},
			want: map[string]float64{
				"occurrences_matched_total": 3, "occurrences_delivered_total": 3, "delivery_latency_seconds": 2, "delivery_latency_seconds sum": 60,
				"messages_delivered_total occurrence": 1, "messages_delivered_total digest": 1,
			},
		},
		"the message is refused": {
			answer:  &notify.SendError{Class: notify.Reject},
			happens: func(h *harness) { h.happens(2, "a") },
			want: map[string]float64{
				"occurrences_matched_total": 2, "occurrences_dropped_total rejected": 2, "delivery_failures_total reject": 1,
			},
		},
		"the receiver is stopped": {
			answer: &notify.SendError{Class: notify.Stop},
			happens: func(h *harness) {
				h.happens(2, "a", "b")
				after(time.Hour)
			},
			want: map[string]float64{
				"occurrences_matched_total": 4, "delivery_failures_total stop": 1,
				"outbox_messages": 2, "outbox_oldest_message_seconds": 3600, "receivers_failing": 1,
			},
		},
		"the receiver was stopped": {
			answer: &notify.SendError{Class: notify.Stop},
			happens: func(h *harness) {
				h.happens(2, "a")
				after(time.Hour)
				h.Configure(notify.Receiver{Key: ops, Notifier: &receiver{}})
				after(time.Second)
			},
			want: map[string]float64{
				"occurrences_matched_total": 2, "delivery_failures_total stop": 1, "occurrences_delivered_total": 2,
				"messages_delivered_total occurrence": 1, "delivery_latency_seconds": 1, "delivery_latency_seconds sum": 3600,
			},
		},
		"the object is gone": {
			change: func(s *v1alpha1.AlarmSpec) {
				s.Match[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
			},
			happens: func(h *harness) { h.happens(2, "a") },
			want:    map[string]float64{"occurrences_unresolved_total": 2},
		},
		"the object cannot be read": {
			change:  func(s *v1alpha1.AlarmSpec) { s.Match[0].ObjectSelector = &metav1.LabelSelector{} },
			happens: func(h *harness) { h.happens(2, "unreadable") },
			want:    map[string]float64{"parked_occurrences": 1},
		},
		"the object cannot be read for long": {
			change: func(s *v1alpha1.AlarmSpec) { s.Match[0].ObjectSelector = &metav1.LabelSelector{} },
			happens: func(h *harness) {
				h.happens(2, "unreadable")
				after(2 * time.Hour)
			},
			want: map[string]float64{"occurrences_undecided_total": 2},
		},
		"an expression fails": {
			change:  func(s *v1alpha1.AlarmSpec) { s.Match[0].Expression = `int(event.note) > 0` },
			happens: func(h *harness) { h.happens(2, "a") },
			want:    map[string]float64{"expression_failures_total": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAlarm(t, backOff(tc.change), func(h *harness) {
				h.Configure(notify.Receiver{Key: ops, Notifier: &receiver{tc.answer}, Limits: []notify.Limit{{Every: tc.limit}}})
				tc.happens(h)
				if diff := cmp.Diff(tc.want, h.metrics()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// choosy refuses the messages about one object.
type choosy struct{ receiver }

func (c *choosy) Render(m message.Message) ([]byte, error) {
	return []byte(m.Events[0].Regarding.Name), nil
}

func (c *choosy) Send(_ context.Context, _ string, body []byte) error {
	if string(body) == "poison" {
		return &notify.SendError{Class: notify.Retry}
	}
	return nil
}

func TestMessagesThatAreSetAsideAreAMetric(t *testing.T) {
	withAlarm(t, backOff(nil), func(h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: &choosy{}})
		h.happens(1, "poison", "a")
		if got := h.metrics()["outbox_messages_set_aside"]; got != 0 {
			t.Errorf("%v are set aside before other messages were tried", got)
		}
		after(15 * time.Minute)
		if got := h.metrics()["outbox_messages_set_aside"]; got != 1 {
			t.Errorf("%v are set aside, want 1", got)
		}
	})
}

// unbatched refuses every batch, and accepts its messages alone.
type unbatched struct{ receiver }

func (*unbatched) MaxBatch() int { return 10 }

func (*unbatched) SendBatch(context.Context, string, []notify.BatchMessage) error {
	return &notify.SendError{Class: notify.Reject, Text: "refused"}
}

func TestABatchThatIsRefusedIsAFailure(t *testing.T) {
	withAlarm(t, backOff(nil), func(h *harness) {
		h.happens(1, "a", "b", "c")
		h.Configure(notify.Receiver{Key: ops, Notifier: &unbatched{}})
		after(time.Second)
		if got := h.metrics(); got["delivery_failures_total reject"] != 1 || got["messages_delivered_total occurrence"] != 3 {
			t.Errorf("metrics %v", got)
		}
	})
}

func TestTheLogNamesTheSizeOfABatchThatIsRefused(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	m := metrics.New(prometheus.NewPedanticRegistry(), metrics.Load{})
	r := metrics.NewObserver(counters.New(nil), m, nil, "", clock.RealClock{}, log)
	r.BatchRefused("AlarmReceiver/shop/team", 8, &notify.SendError{Class: notify.Reject, Reason: "MessageRejected", Text: "refused"})
	if len(lines) != 1 || !strings.Contains(lines[0], `"receiver"="AlarmReceiver/shop/team" "messages"=8`) {
		t.Errorf("logged %q", lines)
	}
}

// Messages that groups save are not suppressed occurrences.
func TestMergedOccurrencesAreNotSuppressedInStatus(t *testing.T) {
	withAlarm(t, backOff(byName), func(h *harness) {
		h.Configure(notify.Receiver{Key: ops, Notifier: &receiver{}})
		h.happens(1, "a", "a", "a")
		after(time.Minute)
		var status v1alpha1.AlarmStatus
		must(t, h.Apply(t.Context(), "ClusterAlarm//some", "uid", &status, func(context.Context) (*v1alpha1.AlarmStatus, error) {
			return &v1alpha1.AlarmStatus{}, nil
		}))
		if status.Matched != 3 || status.Delivered != 3 || status.SuppressedByThreshold+status.SuppressedByMute != 0 {
			t.Errorf("matched %d, delivered %d, suppressed %d", status.Matched, status.Delivered, status.SuppressedByThreshold+status.SuppressedByMute)
		}
	})
}

const ops = "ClusterAlarmReceiver//ops"

// harness runs everything from the source to a receiver, with one alarm, in a synctest
// bubble. It has no API server and no network.
type harness struct {
	t        *testing.T
	registry *prometheus.Registry
	*notify.Dispatcher
	*counters.Counters
	batches  batches
	position uint64
}

// withAlarm runs a test with one alarm.
func withAlarm(t *testing.T, spec v1alpha1.AlarmSpec, test func(h *harness)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := outbox.Open(t.Context(), dir, outbox.WithComposer(pipeline.ComposeGroup))
		must(t, err)
		h := &harness{t: t, registry: prometheus.NewPedanticRegistry(), Counters: counters.New(store), batches: make(batches)}
		m := metrics.New(h.registry, metrics.Load{
			Size:      store.Size,
			UsedBytes: func() float64 { return 0 }, LimitBytes: func() float64 { return 0 },
			OldestSeconds: func() float64 {
				since, err := store.Oldest(t.Context())
				must(t, err)
				if since.IsZero() {
					return 0
				}
				return clock.RealClock{}.Since(since).Seconds()
			},
		})
		observer := metrics.NewObserver(h.Counters, m, nil, "", clock.RealClock{}, logr.Discard())
		h.Dispatcher = notify.NewDispatcher(store, observer, clock.RealClock{}, logr.Discard(), notify.Options{})
		metrics.RegisterReceivers(h.registry, h.FailingReceivers, h.SetAsideByAll)
		p := pipeline.New(pipeline.Config{
			ClusterUID: "cluster", Source: h.batches, Outbox: store, Checkpoint: noCheckpoint{}, Dispatcher: h.Dispatcher,
			Alarms: activeAlarms(t, spec), Enricher: noContext{}, Reporter: observer,
			MaxAge:     time.Hour,
			Observe:    func(context.Context, []alarm.Occurrence) {},
			LoadAlarms: func(context.Context) error { return nil },
			Clock:      clock.RealClock{}, Log: logr.Discard(),
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Start(ctx) }()
		test(h)
		stop()
		must(t, <-done)
		must(t, store.Close())
	})
}

func activeAlarms(t *testing.T, spec v1alpha1.AlarmSpec) *pipeline.Alarms {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "some"}, UID: "uid", Spec: spec, Receivers: []string{ops},
	})
	must(t, err)
	alarms := pipeline.NewAlarms()
	alarms.Set("some", "1", compiled)
	return alarms
}

// happens sends a batch with an Event of each object, whose count increased by times.
func (h *harness) happens(times int64, names ...string) {
	h.t.Helper()
	var b source.Batch
	for _, name := range names {
		h.position++
		b.Occurrences = append(b.Occurrences, alarm.Occurrence{
			Event: alarm.Event{
				UID: fmt.Sprint(h.position), Count: times, Reason: "BackOff", Note: "it fails",
				Regarding: alarm.Reference{Kind: "Pod", Name: name},
			},
			Increase: times, Position: h.position, ObservedAt: clock.RealClock{}.Now(),
		})
	}
	b.Position = h.position
	h.batches <- b
	synctest.Wait()
}

// after waits for a time, and for everything that happens until then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// metrics returns all metrics that are not 0, without the prefix "bongsu_". Histograms are
// returned as their number of observations, and their sum in whole seconds.
func (h *harness) metrics() map[string]float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	must(h.t, err)
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

// batches is a source that yields the batches of a channel.
type batches chan source.Batch

func (c batches) Position(context.Context) (uint64, error) { return 1, nil }

func (c batches) Run(ctx context.Context, _ source.Start, handle source.Handler) error {
	for {
		select {
		case b := <-c:
			if err := handle(ctx, b); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// noCheckpoint is a checkpoint that keeps nothing.
type noCheckpoint struct{}

func (noCheckpoint) Read(context.Context) (checkpoint.Checkpoint, bool, error) {
	return checkpoint.Checkpoint{}, false, nil
}
func (noCheckpoint) Write(context.Context, checkpoint.Checkpoint) error { return nil }

type noContext struct{}

func (noContext) Context(_ context.Context, event *alarm.Event) alarm.Context {
	if event.Regarding.Name == "unreadable" {
		return alarm.Context{ObjectUnread: "the API server does not answer"}
	}
	return alarm.Context{}
}

func (noContext) Named(context.Context, *alarm.Event, []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	return alarm.Context{}, alarm.Resource{}, false
}

// receiver is a notifier that returns err.
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

func TestDroppedForLackOfSpaceIsOverBudgetOnTheAlarm(t *testing.T) {
	counts := counters.New(nil)
	m := metrics.New(prometheus.NewPedanticRegistry(), metrics.Load{})
	r := metrics.NewObserver(counts, m, nil, "", clock.RealClock{}, logr.Discard())
	r.Dropped("AlarmReceiver/shop/dead", outbox.Counts{"Alarm/shop/web": 3}, notify.DropOverflow, "too much waits")
	now := clock.RealClock{}.Now()
	for subject, reason := range map[string]string{"Alarm/shop/web": v1alpha1.ReasonOverBudget, "AlarmReceiver/shop/dead": v1alpha1.ReasonMessageDropped} {
		notices := counts.Notices(subject, now)
		if len(notices) != 1 || notices[0].Reason != reason || notices[0].Text != "too much waits" {
			t.Errorf("%s: %+v", subject, notices)
		}
	}
}

func TestAnObjectThatCannotBeReadIsReportedOnTheAlarm(t *testing.T) {
	counts := counters.New(nil)
	r := metrics.NewObserver(counts, metrics.New(prometheus.NewPedanticRegistry(), metrics.Load{}), nil, "", clock.RealClock{}, logr.Discard())
	r.Evaluated(kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "web"}, match.Undecided, errors.New("it cannot be read"), 3)
	notices := counts.Notices("Alarm/shop/web", clock.RealClock{}.Now())
	if len(notices) != 1 || notices[0].Reason != v1alpha1.ReasonObjectUnreadable || notices[0].Text != "it cannot be read" {
		t.Errorf("got %+v", notices)
	}
}
