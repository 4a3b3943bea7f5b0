package mute

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

var now = time.Date(2026, 11, 23, 9, 0, 0, 500_000_000, time.UTC)

func at(hour, minute, second int) *metav1.Time {
	return new(metav1.NewTime(time.Date(2026, 11, 23, hour, minute, second, 0, time.UTC)))
}

func TestSetMutesFromNowOnOrKeepsTheBeginOfAMuteThatLasts(t *testing.T) {
	for name, tc := range map[string]struct{ before, want v1alpha1.AlarmSpec }{
		"not muted": {
			want: v1alpha1.AlarmSpec{MuteFrom: at(9, 0, 0), MuteUntil: at(11, 0, 1), MuteReason: "deployment"},
		},
		"a mute that lasts": {
			before: v1alpha1.AlarmSpec{MuteFrom: at(8, 0, 0), MuteUntil: at(10, 0, 0), MuteReason: "earlier"},
			want:   v1alpha1.AlarmSpec{MuteFrom: at(8, 0, 0), MuteUntil: at(11, 0, 1), MuteReason: "deployment"},
		},
		"a mute without a begin": {
			before: v1alpha1.AlarmSpec{MuteUntil: at(10, 0, 0)},
			want:   v1alpha1.AlarmSpec{MuteUntil: at(11, 0, 1), MuteReason: "deployment"},
		},
		"a mute that has ended": {
			before: v1alpha1.AlarmSpec{MuteFrom: at(7, 0, 0), MuteUntil: at(8, 0, 0)},
			want:   v1alpha1.AlarmSpec{MuteFrom: at(9, 0, 0), MuteUntil: at(11, 0, 1), MuteReason: "deployment"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.before
			if err := Set(&got, now, 2*time.Hour, "deployment"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetKeepsAMuteThatIsPlanned(t *testing.T) {
	planned := v1alpha1.AlarmSpec{MuteFrom: at(10, 0, 0), MuteUntil: at(12, 0, 0), MuteReason: "migration"}
	got := planned
	err := Set(&got, now, 2*time.Hour, "deployment")
	const want = "muted from 2026-11-23T10:00:00Z until 2026-11-23T12:00:00Z: unmute it first"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if diff := cmp.Diff(planned, got); diff != "" {
		t.Error(diff)
	}
}

func TestEndKeepsThePastOfTheMute(t *testing.T) {
	for name, tc := range map[string]struct {
		before, want v1alpha1.AlarmSpec
		ended        bool
	}{
		"not muted": {},
		"a mute that lasts": {
			before: v1alpha1.AlarmSpec{MuteFrom: at(8, 0, 0), MuteUntil: at(10, 0, 0), MuteReason: "deployment"},
			want:   v1alpha1.AlarmSpec{MuteFrom: at(8, 0, 0), MuteUntil: at(9, 0, 1)}, ended: true,
		},
		"a mute that has ended": {
			before: v1alpha1.AlarmSpec{MuteUntil: at(8, 0, 0), MuteReason: "deployment"},
			want:   v1alpha1.AlarmSpec{MuteUntil: at(8, 0, 0), MuteReason: "deployment"},
		},
		"a mute that has not begun": {
			before: v1alpha1.AlarmSpec{MuteFrom: at(10, 0, 0), MuteUntil: at(12, 0, 0), MuteReason: "deployment"},
			ended:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.before
			if ended := End(&got, now); ended != tc.ended {
				t.Errorf("ended: %v", ended)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
