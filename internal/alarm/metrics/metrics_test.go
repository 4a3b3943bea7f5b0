package metrics_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
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
