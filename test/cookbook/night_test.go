package cookbook

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
)

func mute(e entry) bool {
	_, found, _ := unstructured.NestedSlice(e.alarm.Object, "spec", "mute")
	return found
}

// nightly is the name of the same alarm where it is night.
func nightly(e entry) string { return e.alarm.GetName() + "-at-night" }

// atNight returns the same alarm in a time zone in which it is mute now, and for as
// long as the test may take.
func (tr *trial) atNight() *unstructured.Unstructured {
	tr.Helper()
	for hours := -14; hours <= 12; hours++ {
		night := tr.entry.alarm.DeepCopy()
		night.SetName(nightly(tr.entry))
		windows, _, _ := unstructured.NestedSlice(night.Object, "spec", "mute")
		for _, w := range windows {
			w.(map[string]any)["timeZone"] = fmt.Sprintf("Etc/GMT%+d", hours)
		}
		if err := unstructured.SetNestedSlice(night.Object, windows, "spec", "mute"); err != nil {
			tr.Fatal(err)
		}
		if now := time.Now(); tr.muteAt(windows, now) && tr.muteAt(windows, now.Add(2*patience)) {
			return night
		}
	}
	tr.Fatal("it is night nowhere")
	return nil
}

func (tr *trial) muteAt(windows []any, at time.Time) bool {
	tr.Helper()
	for _, w := range windows {
		var spec v1alpha1.MuteWindow
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.(map[string]any), &spec); err != nil {
			tr.Fatal(err)
		}
		window, err := calendar.New(&spec)
		if err != nil {
			tr.Fatal(err)
		}
		if window.Contains(at) {
			return true
		}
	}
	return false
}
