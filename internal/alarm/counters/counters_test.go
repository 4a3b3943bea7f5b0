package counters

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// counted is an outbox of a leader. The API server has a status of the alarm web.
type counted struct {
	*outbox.Store
	*Counters
	t        *testing.T
	position uint64
	status   v1alpha1.AlarmStatus
	reads    int
}

const web = "Alarm/shop/web"

func newCounted(t *testing.T) *counted {
	t.Helper()
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return &counted{Store: store, Counters: New(store), t: t}
}

func (c *counted) count(change outbox.StatusCounts) {
	c.t.Helper()
	c.position++
	must(c.t, c.Commit(c.t.Context(), outbox.Change{Events: &outbox.EventStep{Position: c.position}, Status: map[string]outbox.StatusCounts{web: change}}))
}

// apply writes the status of the object with a UID. The cache is old: it has only zeros.
func (c *counted) apply(uid types.UID) v1alpha1.AlarmStatus {
	c.t.Helper()
	cached := v1alpha1.AlarmStatus{}
	must(c.t, c.Apply(c.t.Context(), web, uid, &cached, func(context.Context) (*v1alpha1.AlarmStatus, error) {
		c.reads++
		return &c.status, nil
	}))
	return cached
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCountsContinueFromTheStatus(t *testing.T) {
	c := newCounted(t)
	c.status = v1alpha1.AlarmStatus{Matched: 100, Delivered: 90}
	must(t, c.Confirm(t.Context()))
	if got := c.apply("uid"); c.reads != 0 || got.Matched != 0 {
		t.Errorf("nothing was counted, and the status is %+v after %d reads", got, c.reads)
	}
	c.count(outbox.StatusCounts{Matched: 3, LastMatch: noon})
	c.apply("uid")
	c.count(outbox.StatusCounts{Delivered: 2, Dropped: 1, Unresolved: 4, Undecided: 5, WithoutGroupKey: 6, LastDelivery: noon})
	c.apply("uid")

	at := metav1.NewTime(noon)
	want := v1alpha1.AlarmStatus{
		Matched: 103, Delivered: 92, Dropped: 1, Unresolved: 4, Undecided: 5, WithoutGroupKey: 6,
		LastMatchTime: &at, LastDeliveryTime: &at,
	}
	if diff := cmp.Diff(want, c.apply("uid")); diff != "" || c.reads != 1 {
		t.Errorf("%d reads of the status; %s", c.reads, diff)
	}
}

// Controllers start before it is known whether this replica had the last term.
func TestAnOldOutboxDoesNotChangeTheStatus(t *testing.T) {
	c := newCounted(t)
	c.count(outbox.StatusCounts{Matched: 3})
	c.MarkChanged("b")
	if got := c.takeChanged(); len(got) != 1 {
		t.Errorf("%v changed, want b only", got)
	}
	if got := c.apply("uid"); got.Matched != 0 || c.reads != 0 {
		t.Errorf("matched %d", got.Matched)
	}
	must(t, c.Replay(t.Context(), outbox.Replay{Position: 1})) // it did not
	must(t, c.Confirm(t.Context()))
	if got := c.apply("uid"); got.Matched != 0 || c.reads != 0 {
		t.Errorf("matched %d", got.Matched)
	}
}

func TestRecreatedObjectStartsAtZero(t *testing.T) {
	c := newCounted(t)
	must(t, c.Confirm(t.Context()))
	c.count(outbox.StatusCounts{Matched: 3})
	c.apply("uid")
	if got := c.apply("another"); got.Matched != 0 { // without a call of Forget
		t.Errorf("matched %d, want 0", got.Matched)
	}
	c.count(outbox.StatusCounts{Matched: 3})
	must(t, c.Forget(t.Context(), web))
	if got := c.apply("a third"); got.Matched != 0 {
		t.Errorf("matched %d after Forget, want 0", got.Matched)
	}
}

// Users with the right to write a status can write any number.
func TestAForgedStatusDoesNotStopCommits(t *testing.T) {
	c := newCounted(t)
	must(t, c.Confirm(t.Context()))
	c.status = v1alpha1.AlarmStatus{Matched: math.MaxInt64, Delivered: math.MinInt64}
	c.count(outbox.StatusCounts{Matched: 1, Delivered: 1})
	c.apply("uid")
	c.count(outbox.StatusCounts{Matched: 1, Delivered: 1})
	if got := c.apply("uid"); got.Matched <= 0 || got.Delivered != 2 {
		t.Errorf("matched %d, delivered %d", got.Matched, got.Delivered)
	}
}

func TestChangedSubjectsAreTakenOnce(t *testing.T) {
	c := newCounted(t)
	must(t, c.Confirm(t.Context()))
	c.count(outbox.StatusCounts{Matched: 1})
	c.count(outbox.StatusCounts{Matched: 1})
	c.MarkChanged("b")
	got := c.takeChanged()
	slices.Sort(got)
	if diff := cmp.Diff([]string{web, "b"}, got); diff != "" {
		t.Error(diff)
	}
	if again := c.takeChanged(); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
}

func TestFloodOfFailuresIsOneNotice(t *testing.T) {
	counters := New(nil)
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
