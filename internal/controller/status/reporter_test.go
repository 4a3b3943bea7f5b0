package status_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/kstatus"
)

func TestAFailureIsReportedOnceAsConditionAndEvent(t *testing.T) {
	name := metav1.ObjectMeta{Name: "reported"}
	inDefault := metav1.ObjectMeta{Name: "reported", Namespace: metav1.NamespaceDefault}
	match := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Kinds: []string{"Pod"}}}}
	for kind, object := range map[string]status.AlarmObject{
		"Alarm": &v1alpha1.Alarm{ObjectMeta: inDefault, Spec: v1alpha1.NamespacedAlarmSpec{
			AlarmSpec: match, Receivers: []v1alpha1.ReceiverReference{{Name: "ops"}},
		}},
		"ClusterAlarm": &v1alpha1.ClusterAlarm{ObjectMeta: name, Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec: match, Receivers: []v1alpha1.ClusterReceiverReference{{Name: "ops"}},
		}},
		"AlarmReceiver": &v1alpha1.AlarmReceiver{ObjectMeta: inDefault, Spec: v1alpha1.AlarmReceiverSpec{
			Log: &v1alpha1.LogReceiver{},
		}},
		"ClusterAlarmReceiver": &v1alpha1.ClusterAlarmReceiver{ObjectMeta: name, Spec: v1alpha1.ClusterAlarmReceiverSpec{
			AlarmReceiverSpec: v1alpha1.AlarmReceiverSpec{Log: &v1alpha1.LogReceiver{}},
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorldOf(t, kind, object)
			if _, writes := w.reconcile(t, fails); writes != 2 {
				t.Errorf("%d requests were written, want one for the status and one for the Event", writes)
			}
			wantCondition := &metav1.Condition{
				Type: "Ready", Status: metav1.ConditionFalse, Reason: fails.Reason, Message: fails.Message,
				ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(noon.Local()),
			}
			if diff := cmp.Diff(wantCondition, w.ready(t)); diff != "" {
				t.Error(diff)
			}
			if got := w.status(t).ObservedGeneration; got != 1 {
				t.Errorf("observedGeneration is %d", got)
			}
			wantEvents := []eventsv1.Event{{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
				EventTime:  metav1.NewMicroTime(noon.Local()), Type: corev1.EventTypeWarning,
				ReportingController: strings.ToLower(kind) + "-controller", Action: "Reconcile", Reason: fails.Reason, Note: fails.Message,
				Regarding: corev1.ObjectReference{
					APIVersion: "bongsu.io/v1alpha1", Kind: kind, Namespace: object.GetNamespace(), Name: "reported", UID: object.GetUID(),
				},
			}}
			ignored := cmp.Options{
				cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Name", "UID", "ResourceVersion", "CreationTimestamp", "ManagedFields"),
				cmpopts.IgnoreFields(eventsv1.Event{}, "ReportingInstance"),
				cmpopts.IgnoreFields(corev1.ObjectReference{}, "ResourceVersion"),
			}
			if diff := cmp.Diff(wantEvents, w.events(t), ignored); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	for name, result := range map[string]status.Result{"well": well, "failing": fails, "suspended": suspended} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.count(t, outbox.StatusCounts{Matched: 1, LastMatch: noon})
			w.reconcile(t, result)
			w.clock.SetTime(noon.Add(10 * time.Minute))
			for range 3 {
				if _, writes := w.reconcile(t, result); writes != 0 {
					t.Errorf("%d requests were written", writes)
				}
			}
		})
	}
}

func TestCountsAreWrittenOnceAndContinueAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		lost bool
		want int64
	}{
		"with its disk": {false, 8},
		"without it":    {true, 3}, // the rest is read again, or was sent
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWorld(t), t.TempDir()
			w.restartOn(t, dir)
			w.reconcile(t, well)
			w.count(t, outbox.StatusCounts{Matched: 3, LastMatch: noon})
			if _, writes := w.reconcile(t, well); writes != 1 {
				t.Errorf("%d requests were written, want one", writes)
			}
			w.count(t, outbox.StatusCounts{Matched: 5}) // killed before it is in the status
			if tc.lost {
				dir = t.TempDir()
			}
			w.restartOn(t, dir)
			w.count(t, outbox.StatusCounts{Delivered: 2, LastDelivery: noon})
			w.reconcile(t, well)
			if got := w.status(t); got.Matched != tc.want || got.Delivered != 2 || got.LastMatchTime == nil {
				t.Errorf("matched %d, last at %v, delivered %d, want %d and 2", got.Matched, got.LastMatchTime, got.Delivered, tc.want)
			}
		})
	}
}

func TestTheConditionSaysWhyEventsOfDeletedObjectsAreNotSent(t *testing.T) {
	w := newWorld(t)
	w.reconcile(t, well)
	if got := w.ready(t).Message; got != "in force" {
		t.Errorf("before: %s", got)
	}
	w.count(t, outbox.StatusCounts{Unresolved: 2})
	w.reconcile(t, well)
	if c := w.ready(t); c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "in force; status.unresolved counts Events that were not sent, because their object was deleted") {
		t.Errorf("%+v", c)
	}
}

func TestRecoveryIsReportedOnlyAfterAWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		results []status.Result
		want    map[string]int
	}{
		"well from the start":    {[]status.Result{well, well}, map[string]int{}},
		"after a failure":        {[]status.Result{fails, well, well}, map[string]int{"Warning ReceiverNotFound": 1, "Normal Recovered": 1}},
		"after it was suspended": {[]status.Result{well, suspended, well}, map[string]int{}},
		"suspended in a failure": {[]status.Result{fails, suspended, well}, map[string]int{"Warning ReceiverNotFound": 1}},
		"twice": {
			[]status.Result{fails, well, fails, well},
			map[string]int{"Warning ReceiverNotFound": 2, "Normal Recovered": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i, result := range tc.results {
				w.clock.SetTime(noon.Add(time.Duration(i) * time.Minute))
				w.reconcile(t, result)
			}
			if diff := cmp.Diff(tc.want, w.counts(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALastingFailureIsReportedEveryFiftyMinutes(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		after, again time.Duration
		want         int
	}{
		{0, 50 * time.Minute, 1},
		{20 * time.Minute, 30 * time.Minute, 1},
		{50*time.Minute - time.Second, time.Second, 1},
		{50 * time.Minute, 50 * time.Minute, 2},
		{50 * time.Minute, 50 * time.Minute, 2},
		{99 * time.Minute, time.Minute, 2},
		{100 * time.Minute, 50 * time.Minute, 3},
	} {
		w.clock.SetTime(noon.Add(tc.after))
		result, _ := w.reconcile(t, fails)
		if result.RequeueAfter != tc.again {
			t.Errorf("after %v it comes back in %v, want %v", tc.after, result.RequeueAfter, tc.again)
		}
		if got := len(w.events(t)); got != tc.want {
			t.Errorf("after %v there are %d Events, want %d", tc.after, got, tc.want)
		}
	}
}

// An Event of the first cause must not be repeated when the cause returns, also if the
// operator was restarted.
func TestAlternatingCausesOfOneFailureAreReportedOnceEach(t *testing.T) {
	w := newWorld(t)
	other := status.Result{Reason: v1alpha1.ReasonReceiverNotReady, Message: "AlarmReceiver ops is not ready"}
	for i := range 6 {
		w.clock.SetTime(noon.Add(time.Duration(i) * time.Minute))
		w.reconcile(t, []status.Result{fails, other}[i%2])
		w.restart(t)
	}
	if diff := cmp.Diff(map[string]int{"Warning ReceiverNotFound": 1, "Warning ReceiverNotReady": 1}, w.counts(t)); diff != "" {
		t.Error(diff)
	}
	if got := w.ready(t).LastTransitionTime; !got.Equal(new(metav1.NewTime(noon))) {
		t.Errorf("lastTransitionTime of Ready is %v, want the time of the first failure", got)
	}
	if got := w.status(t).FailingSince; got == nil || !got.Equal(new(metav1.NewTime(noon))) {
		t.Errorf("failingSince is %v", got)
	}
}

func TestTheStateSummarizesTheStatusAndKstatusAgrees(t *testing.T) {
	notice := counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: "refused: 400", Since: noon}
	for name, tc := range map[string]struct {
		result  status.Result
		notice  bool
		want    v1alpha1.Summary
		ready   bool
		kstatus string
	}{
		"ready":     {result: well, want: v1alpha1.Summary{State: v1alpha1.StateReady}, ready: true, kstatus: "Current"},
		"suspended": {result: suspended, want: v1alpha1.Summary{State: v1alpha1.StateSuspended}, kstatus: "Current"},
		"degraded": {
			result: well, notice: true, want: v1alpha1.Summary{State: v1alpha1.StateDegraded, Reason: notice.Reason},
			ready: true, kstatus: "Current",
		},
		"failing": {
			result: fails, want: v1alpha1.Summary{State: v1alpha1.StateFailing, Reason: fails.Reason, FailingSince: new(metav1.NewTime(noon.Local()))},
			ready: true, kstatus: "InProgress",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reconcile(t, fails) // every state follows a failure
			w.reconcile(t, tc.result)
			if tc.notice {
				w.counters.Notify(w.key.String(), notice)
				w.reconcile(t, tc.result)
			}
			got := w.status(t)
			if diff := cmp.Diff(tc.want, got.Summary); diff != "" {
				t.Error(diff)
			}
			if exists := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady) != nil; exists != tc.ready {
				t.Errorf("there is a Ready condition: %v", exists)
			}
			if got := kstatus.Compute(t, w.object); string(got) != tc.kstatus {
				t.Errorf("kstatus says %s, want %s", got, tc.kstatus)
			}
		})
	}
}

func TestAReadyOrSuspendedObjectIsNotRequeued(t *testing.T) {
	w := newWorld(t)
	for _, reported := range []status.Result{well, suspended} {
		if result, _ := w.reconcile(t, reported); result.RequeueAfter != 0 {
			t.Errorf("%v comes back in %v", reported, result.RequeueAfter)
		}
	}
}

// delivered returns the status and the reason of the condition Delivered.
func (w *world) delivered(t *testing.T) (is metav1.ConditionStatus, reason string) {
	t.Helper()
	c := meta.FindStatusCondition(w.status(t).Conditions, v1alpha1.ConditionDelivered)
	if c == nil {
		return "", ""
	}
	return c.Status, c.Reason
}

func TestTheStatusShowsWhetherTheLastMessageWasDelivered(t *testing.T) {
	refused := &status.Delivery{Attempted: true, Reason: v1alpha1.ReasonDeliveryFailing, Message: "the receiver answered 403"}
	w := newWorldOf(t, "AlarmReceiver", &v1alpha1.AlarmReceiver{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Shared(t).Namespace(t, nil), Name: "ops"},
		Spec:       v1alpha1.AlarmReceiverSpec{Log: &v1alpha1.LogReceiver{}},
	})
	for _, tc := range []struct {
		name     string
		before   func()
		delivery *status.Delivery
		want     metav1.ConditionStatus
		reason   string
		writes   int64
	}{
		{name: "new", delivery: &status.Delivery{}, want: metav1.ConditionUnknown, reason: v1alpha1.ReasonNothingSent, writes: 1},
		{name: "unchanged", delivery: &status.Delivery{}, want: metav1.ConditionUnknown, reason: v1alpha1.ReasonNothingSent},
		{name: "accepted", delivery: &status.Delivery{Attempted: true}, want: metav1.ConditionTrue, reason: v1alpha1.ReasonAccepted, writes: 1},
		{name: "accepted again", delivery: &status.Delivery{Attempted: true}, want: metav1.ConditionTrue, reason: v1alpha1.ReasonAccepted},
		{
			name: "restarted", before: func() { w.restart(t) }, delivery: &status.Delivery{},
			want: metav1.ConditionTrue, reason: v1alpha1.ReasonAccepted,
		},
		{name: "refused", delivery: refused, want: metav1.ConditionFalse, reason: v1alpha1.ReasonDeliveryFailing, writes: 1},
		{name: "the Secret changed", delivery: &status.Delivery{}, want: metav1.ConditionFalse, reason: v1alpha1.ReasonDeliveryFailing},
		{
			name: "the spec changed", before: func() { w.changeSpec(t) }, delivery: &status.Delivery{},
			want: metav1.ConditionUnknown, reason: v1alpha1.ReasonNothingSent, writes: 1,
		},
		{name: "a test is wanted", delivery: &status.Delivery{Attempted: true, Wanted: "a"}, want: metav1.ConditionUnknown, reason: v1alpha1.ReasonSendingTest, writes: 1},
		{
			name: "it was sent", delivery: &status.Delivery{Attempted: true, Wanted: "a", Test: "a", TestedAt: noon},
			want: metav1.ConditionTrue, reason: v1alpha1.ReasonAccepted, writes: 2, // the status and an Event
		},
		{
			name: "restarted after the test", before: func() { w.restart(t) }, delivery: &status.Delivery{Wanted: "a"},
			want: metav1.ConditionTrue, reason: v1alpha1.ReasonAccepted,
		},
		{name: "another is wanted", delivery: &status.Delivery{Wanted: "b"}, want: metav1.ConditionUnknown, reason: v1alpha1.ReasonSendingTest, writes: 1},
	} {
		if tc.before != nil {
			tc.before()
		}
		_, writes := w.reconcile(t, status.Result{Delivery: tc.delivery})
		if got, reason := w.delivered(t); got != tc.want || reason != tc.reason || writes != tc.writes {
			t.Errorf("%s: Delivered is %s (%s) after %d writes, want %s (%s) after %d", tc.name, got, reason, writes, tc.want, tc.reason, tc.writes)
		}
	}
}

func TestTheResultOfATestMessageIsAnEventAndSurvivesARestart(t *testing.T) {
	w := newWorldOf(t, "AlarmReceiver", &v1alpha1.AlarmReceiver{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Shared(t).Namespace(t, nil), Name: "ops"},
		Spec:       v1alpha1.AlarmReceiverSpec{Log: &v1alpha1.LogReceiver{}},
	})
	first := status.Result{Delivery: &status.Delivery{Attempted: true, Test: "a", TestedAt: noon}}
	w.reconcile(t, first)
	if _, writes := w.reconcile(t, first); writes != 0 || w.status(t).HandledTest != "a" {
		t.Errorf("%d writes, handled %q", writes, w.status(t).HandledTest)
	}
	w.restart(t)
	if _, writes := w.reconcile(t, status.Result{Delivery: &status.Delivery{}}); writes != 0 || w.status(t).HandledTest != "a" {
		t.Errorf("after a restart: %d writes, handled %q", writes, w.status(t).HandledTest)
	}
	w.reconcile(t, status.Result{Delivery: &status.Delivery{
		Attempted: true, Reason: v1alpha1.ReasonDeliveryFailing, Message: "no answer", Test: "b", TestedAt: noon, TestFailure: "no answer",
	}})
	if got, _ := w.delivered(t); got != metav1.ConditionFalse || w.status(t).HandledTest != "b" {
		t.Errorf("Delivered is %s, handled %q", got, w.status(t).HandledTest)
	}
	if diff := cmp.Diff(map[string]int{"Normal AcceptedTest": 1, "Warning FailedTest": 1}, w.counts(t)); diff != "" {
		t.Error(diff)
	}
}

// A user who removes the annotation bongsu.io/drop, and sets the same value later, drops again.
func TestAHandledDropIsForgottenWithItsAnnotation(t *testing.T) {
	w := newWorldOf(t, "AlarmReceiver", &v1alpha1.AlarmReceiver{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Shared(t).Namespace(t, nil), Name: "ops", Annotations: map[string]string{v1alpha1.AnnotationDrop: "all"}},
		Spec:       v1alpha1.AlarmReceiverSpec{Log: &v1alpha1.LogReceiver{}},
	})
	for _, tc := range []struct{ name, annotation, handled, want string }{
		{"handled", "all", "all", "all"},
		{"after a restart", "all", "", "all"},
		{"removed", "", "", ""},
		{"set again", "all", "", ""},
	} {
		w.annotate(t, v1alpha1.AnnotationDrop, tc.annotation)
		w.reconcile(t, status.Result{HandledDrop: tc.handled, Delivery: &status.Delivery{}})
		if got := w.status(t).HandledDrop; got != tc.want {
			t.Errorf("%s: handledDrop is %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestTheStatusShowsAMuteWhileItLasts(t *testing.T) {
	w := newWorld(t)
	muted := status.Result{MuteFrom: noon.Add(time.Hour), MuteUntil: noon.Add(3 * time.Hour)}
	for _, tc := range []struct {
		at, again time.Duration
		shown     bool
		writes    int64
	}{
		{at: 0, again: time.Hour, writes: 1}, // the state
		{at: time.Hour, again: 2 * time.Hour, shown: true, writes: 1},
		{at: 2 * time.Hour, again: time.Hour, shown: true},
		{at: 3 * time.Hour, writes: 1},
		{at: 4 * time.Hour},
	} {
		w.clock.SetTime(noon.Add(tc.at))
		result, writes := w.reconcile(t, muted)
		until := w.status(t).MutedUntil
		if shown := until != nil && until.Time.Equal(muted.MuteUntil); shown != tc.shown || until != nil != tc.shown {
			t.Errorf("after %v mutedUntil is %v", tc.at, until)
		}
		if result.RequeueAfter != tc.again || writes != tc.writes {
			t.Errorf("after %v: %d writes, want %d; it comes back in %v, want %v", tc.at, writes, tc.writes, result.RequeueAfter, tc.again)
		}
	}
}

func TestTheStatusShowsOpenGroupsAndWhoAcknowledgedThem(t *testing.T) {
	w := newWorld(t)
	ack := v1alpha1.AlarmAcknowledgement{Group: strings.Repeat("a", 32), Since: metav1.NewTime(noon), By: "ana", Time: metav1.NewTime(noon)}
	acknowledged := group.Acknowledgement{Token: match.AcknowledgementToken(&ack), Until: noon}
	var entries []outbox.Entry
	for i := range 40 {
		key := fmt.Sprintf("%032d", i)
		if i == 0 {
			key = ack.Group
		}
		entries = append(entries, outbox.Entry{
			Receiver: "r", Alarm: w.key.String(), Key: key, Position: 1, Count: 3,
			Member: &outbox.Membership{Group: key, Name: fmt.Sprint("Pod/shop/web-", i), Event: group.Event{At: noon.Add(time.Duration(i) * time.Second)}},
		})
	}
	ctx := t.Context()
	if err := w.outbox.Commit(ctx, outbox.Change{Events: &outbox.EventStep{Position: 1}, Entries: entries}); err != nil {
		t.Fatal(err)
	}
	notice := entries[0]
	notice.Member = &outbox.Membership{Group: ack.Group, Event: group.Event{Kind: group.Notice, Message: group.Suppressed, At: noon, Acknowledgement: &acknowledged}}
	if err := w.outbox.Commit(ctx, outbox.Change{Entries: []outbox.Entry{notice}}); err != nil {
		t.Fatal(err)
	}
	result, _ := w.reconcile(t, status.Result{Acknowledgements: []v1alpha1.AlarmAcknowledgement{ack}})
	got := w.status(t)
	if len(got.OpenGroups) != v1alpha1.MaxAcknowledgements || got.OpenGroupCount != 40 {
		t.Fatalf("%d of %d groups are shown", len(got.OpenGroups), got.OpenGroupCount)
	}
	first, second := got.OpenGroups[0], got.OpenGroups[1]
	if first.Key != ack.Group || first.Name != "Pod/shop/web-0" || first.Occurrences != 3 || !first.Since.Equal(&ack.Since) || first.AcknowledgedBy != "ana" || !first.AcknowledgedTime.Equal(&ack.Time) {
		t.Errorf("the first is %+v", first)
	}
	if second.Name != "Pod/shop/web-39" || second.AcknowledgedBy != "" {
		t.Errorf("the second is %+v", second)
	}
	if result.RequeueAfter != time.Hour+time.Second {
		t.Errorf("it comes back in %v, want when the first group ends", result.RequeueAfter)
	}
	if w.reconcile(t, well); w.status(t).OpenGroups[0].AcknowledgedBy != "" {
		t.Error("it counts as acknowledged, and the spec has no acknowledgement")
	}
	w.clock.SetTime(noon.Add(2 * time.Hour))
	if w.reconcile(t, well); w.status(t).OpenGroupCount != 0 || len(w.status(t).OpenGroups) > 0 {
		t.Error("groups are shown that ended an hour ago")
	}
}

func TestTheTimeOfTheNextAttemptIsWrittenOnceForEachPause(t *testing.T) {
	w := newWorld(t)
	w.reconcile(t, fails)
	failing := fails
	for i := range 3 {
		next := noon.Add(time.Duration(i)*5*time.Minute + time.Millisecond)
		failing.NextAttempt = next
		for repeat, want := range []int64{1, 0, 0} {
			if _, writes := w.reconcile(t, failing); writes != want {
				t.Errorf("reconcile %d of pause %d: %d requests were written, want %d", repeat, i, writes, want)
			}
		}
		if got := w.status(t).NextAttemptTime; got == nil || got.Sub(next) != time.Second-time.Millisecond {
			t.Errorf("nextAttemptTime is %v, want the second after %v", got, next)
		}
	}
	w.reconcile(t, well)
	if got := w.status(t).NextAttemptTime; got != nil {
		t.Errorf("it is ready, and nextAttemptTime is %v", got)
	}
}

func TestARestartRepeatsNoEvent(t *testing.T) {
	w := newWorld(t)
	w.counters.Notify(w.key.String(), counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: "refused", Since: noon})
	w.reconcile(t, fails)
	want := w.counts(t)
	for i := range 3 {
		w.clock.SetTime(noon.Add(time.Duration(i+1) * time.Minute))
		w.restart(t)
		if _, writes := w.reconcile(t, fails); writes > 1 {
			t.Errorf("%d requests were written, want at most the Event that there is already", writes)
		}
	}
	if diff := cmp.Diff(want, w.counts(t)); diff != "" {
		t.Error(diff)
	}
}

func TestAChangedMessageIsReportedUnlessOnlyNumbersChanged(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		message string
		want    int
	}{
		{"connection refused, 3 attempts", 1},
		{"connection refused, 4 attempts", 1},
		{"the server answered 500", 2},
	} {
		w.reconcile(t, status.Result{Reason: v1alpha1.ReasonDeliveryFailing, Message: tc.message})
		if got := w.ready(t).Message; got != tc.message {
			t.Errorf("the condition says %q, want %q", got, tc.message)
		}
		if got := len(w.events(t)); got != tc.want {
			t.Errorf("%q: there are %d Events, want %d", tc.message, got, tc.want)
		}
	}
}

func TestANoticeIsReportedOnceAndTheObjectStaysReady(t *testing.T) {
	w := newWorld(t)
	w.counters.Notify(w.key.String(), counters.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: "no such key", Since: noon.Add(-time.Minute)})
	w.counters.Notify(w.key.String(), counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: "refused: 400", Since: noon})
	for range 2 {
		w.reconcile(t, well)
	}
	if diff := cmp.Diff(map[string]int{"Warning MessageDropped": 1, "Warning ExpressionFailed": 1}, w.counts(t)); diff != "" {
		t.Error(diff)
	}
	if got := w.ready(t).Status; got != metav1.ConditionTrue {
		t.Errorf("Ready is %s", got)
	}
	want := &metav1.Condition{
		Type: "Degraded", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMessageDropped, Message: "refused: 400",
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(noon.Local()),
	}
	if diff := cmp.Diff(want, w.degraded(t)); diff != "" {
		t.Error(diff)
	}
}

func TestDegradedEndsFiftyMinutesAfterTheLastNoticeAlsoAfterARestart(t *testing.T) {
	for name, restart := range map[string]bool{"the same operator": false, "a new one": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.counters.Notify(w.key.String(), counters.Notice{Reason: v1alpha1.ReasonMessageDropped, Text: "refused: 400", Since: noon})
			w.reconcile(t, well)
			if restart {
				w.restart(t)
			}
			w.clock.SetTime(noon.Add(20 * time.Minute))
			result, _ := w.reconcile(t, well)
			if w.degraded(t) == nil || result.RequeueAfter != 30*time.Minute {
				t.Errorf("after 20 minutes it is %v and comes back in %v", w.degraded(t), result.RequeueAfter)
			}
			// The time of the condition stays, whatever happens meanwhile.
			w.clock.SetTime(noon.Add(30 * time.Minute))
			w.counters.Notify(w.key.String(), counters.Notice{Reason: v1alpha1.ReasonExpressionFailed, Text: "no such key", Since: noon.Add(30 * time.Minute)})
			w.reconcile(t, well)
			if restart {
				w.restart(t)
			}
			w.clock.SetTime(noon.Add(50 * time.Minute))
			result, _ = w.reconcile(t, well)
			if got := w.degraded(t); got == nil || !got.LastTransitionTime.Equal(new(metav1.NewTime(noon))) || result.RequeueAfter != 30*time.Minute {
				t.Errorf("20 minutes after the second it is %v and comes back in %v", got, result.RequeueAfter)
			}
			w.clock.SetTime(noon.Add(80 * time.Minute))
			result, _ = w.reconcile(t, well)
			if got := w.degraded(t); got != nil || result.RequeueAfter != 0 {
				t.Errorf("50 minutes after the last it is %v and comes back in %v", got, result.RequeueAfter)
			}
		})
	}
}

func TestAResultForAnOldStateIsNotReported(t *testing.T) {
	w := newWorld(t)
	result, err := w.try(t, func(ctx context.Context, _ string) (status.Result, error) {
		changed := w.object.DeepCopyObject().(*v1alpha1.Alarm)
		changed.Spec.Suspend = true
		return fails, w.cluster.Client.Update(ctx, changed)
	})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %v, %v, want another try and no error", result, err)
	}
	if got := w.counts(t); len(got) > 0 {
		t.Errorf("reported: %v", got)
	}
}

func TestAFailedConfigurationChangesNothing(t *testing.T) {
	w := newWorld(t)
	failure := errors.New("no answer")
	_, err := w.try(t, func(context.Context, string) (status.Result, error) { return fails, failure })
	if !errors.Is(err, failure) || w.writes.Load() != 0 {
		t.Errorf("got %v after %d writes", err, w.writes.Load())
	}
}

func TestADeletedObjectIsForgotten(t *testing.T) {
	w := newWorld(t)
	key := kube.Key{Kind: "Alarm", Namespace: w.key.Namespace, Name: "gone"}
	w.key, w.object = key, &v1alpha1.Alarm{}
	w.count(t, outbox.StatusCounts{Matched: 3})
	var gone []string
	_, err := w.reporter.Reconcile(t.Context(), key, &v1alpha1.Alarm{},
		func(key string) { gone = append(gone, key) },
		func(context.Context, string) (status.Result, error) { return well, errors.New("it was evaluated") })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{key.String()}, gone); diff != "" {
		t.Error(diff)
	}
	if counts, _, counted := w.outbox.Statuses.Counts(key.String(), ""); counted {
		t.Errorf("still counted: %+v", counts)
	}
}
