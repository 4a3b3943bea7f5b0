package counters

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestCountsContinueFromTheStatus(t *testing.T) {
	counters := New()
	before := metav1.NewTime(noon.Add(-time.Hour))
	status := v1alpha1.AlarmStatus{Matched: 100, Delivered: 90, LastMatchTime: &before, LastDeliveryTime: &before}

	// It matched before the controller read the status.
	counters.Add("Alarm/shop/web", Change{Matched: 3, At: noon})
	counters.Apply("Alarm/shop/web", "uid", &status)
	counters.Add("Alarm/shop/web", Change{Delivered: 2, Dropped: 1, Unresolved: 4, At: noon})
	counters.Apply("Alarm/shop/web", "uid", &status)
	counters.Apply("Alarm/shop/web", "uid", &status) // Apply is idempotent

	at := metav1.NewTime(noon)
	want := v1alpha1.AlarmStatus{
		Matched: 103, Delivered: 92, Dropped: 1, Unresolved: 4,
		LastMatchTime: &at, LastDeliveryTime: &at,
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
}

func TestRecreatedObjectStartsAtZero(t *testing.T) {
	counters := New()
	counters.Add("Alarm/shop/web", Change{Matched: 3, At: noon})
	counters.Apply("Alarm/shop/web", "uid", &v1alpha1.AlarmStatus{})
	var status v1alpha1.AlarmStatus
	counters.Apply("Alarm/shop/web", "another", &status) // without a call of Forget
	if status.Matched != 0 {
		t.Errorf("matched %d, want 0", status.Matched)
	}
	counters.Add("Alarm/shop/web", Change{Matched: 3, At: noon})
	counters.Forget("Alarm/shop/web")
	counters.Apply("Alarm/shop/web", "a third", &status)
	if status.Matched != 0 {
		t.Errorf("matched %d after Forget, want 0", status.Matched)
	}
}

func TestChangedSubjectsAreTakenOnce(t *testing.T) {
	counters := New()
	counters.Add("a", Change{Matched: 1})
	counters.Add("a", Change{Matched: 1})
	counters.MarkChanged("b")
	got := counters.takeChanged()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Error(diff)
	}
	if again := counters.takeChanged(); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
}

func TestFloodOfFailuresIsOneNotice(t *testing.T) {
	counters := New()
	for i := range 100 {
		counters.Notify("a", Notice{Reason: "MessageDropped", Text: "refused", Since: noon.Add(time.Duration(i) * time.Second)})
	}
	counters.Notify("a", Notice{Reason: "ExpressionFailed", Text: "too costly", Since: noon})

	if got := counters.Notices("a", noon.Add(time.Minute)); len(got) != 2 {
		t.Errorf("got %v, want one of each reason", got)
	}
	if got := counters.Notices("a", noon.Add(NoticeFor)); len(got) != 0 {
		t.Errorf("still there after fifty minutes: %v", got)
	}
	later := noon.Add(NoticeFor)
	counters.Notify("a", Notice{Reason: "MessageDropped", Text: "refused again", Since: later})
	if got := counters.Notices("a", later); len(got) != 1 || got[0].Text != "refused again" {
		t.Errorf("got %v, want the new one", got)
	}
}
