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

func TestCountsGoOnFromWhatTheStatusSaid(t *testing.T) {
	tally := New()
	before := metav1.NewTime(noon.Add(-time.Hour))
	status := v1alpha1.AlarmStatus{Matched: 100, Delivered: 90, LastMatchTime: &before, LastDeliveryTime: &before}

	// It matched before the controller first looked at the status.
	tally.Add("Alarm/shop/web", Change{Matched: 3, At: noon})
	tally.Apply("Alarm/shop/web", "uid", &status)
	tally.Add("Alarm/shop/web", Change{Delivered: 2, Dropped: 1, Unresolved: 4, At: noon})
	tally.Apply("Alarm/shop/web", "uid", &status)
	tally.Apply("Alarm/shop/web", "uid", &status) // twice is as good as once

	at := metav1.NewTime(noon)
	want := v1alpha1.AlarmStatus{
		Matched: 103, Delivered: 92, Dropped: 1, Unresolved: 4,
		LastMatchTime: &at, LastDeliveryTime: &at,
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
}

func TestAnObjectThatWasMadeAnewStartsAnew(t *testing.T) {
	tally := New()
	tally.Add("Alarm/shop/web", Change{Matched: 3, At: noon})
	tally.Apply("Alarm/shop/web", "uid", &v1alpha1.AlarmStatus{})
	var status v1alpha1.AlarmStatus
	tally.Apply("Alarm/shop/web", "another", &status) // its deletion went unseen
	if status.Matched != 0 {
		t.Errorf("matched %d, want 0", status.Matched)
	}
	tally.Add("Alarm/shop/web", Change{Matched: 3, At: noon})
	tally.Forget("Alarm/shop/web")
	tally.Apply("Alarm/shop/web", "a third", &status)
	if status.Matched != 0 {
		t.Errorf("matched %d after it was forgotten, want 0", status.Matched)
	}
}

func TestOnlyWhatChangedIsDirtyAndOnlyOnce(t *testing.T) {
	tally := New()
	tally.Add("a", Change{Matched: 1})
	tally.Add("a", Change{Matched: 1})
	tally.MarkChanged("b")
	got := tally.takeChanged()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Error(diff)
	}
	if again := tally.takeChanged(); len(again) != 0 {
		t.Errorf("dirty again: %v", again)
	}
}

func TestAFloodOfFailuresIsOneNotice(t *testing.T) {
	tally := New()
	for i := range 100 {
		tally.Notify("a", Notice{Reason: "MessageDropped", Text: "refused", Since: noon.Add(time.Duration(i) * time.Second)})
	}
	tally.Notify("a", Notice{Reason: "ExpressionFailed", Text: "too costly", Since: noon})

	if got := tally.Notices("a", noon.Add(time.Minute)); len(got) != 2 {
		t.Errorf("got %v, want one of each reason", got)
	}
	if got := tally.Notices("a", noon.Add(NoticeFor)); len(got) != 0 {
		t.Errorf("still said after fifty minutes: %v", got)
	}
	later := noon.Add(NoticeFor)
	tally.Notify("a", Notice{Reason: "MessageDropped", Text: "refused again", Since: later})
	if got := tally.Notices("a", later); len(got) != 1 || got[0].Text != "refused again" {
		t.Errorf("got %v, want the new one", got)
	}
}
