package source

import (
	"context"
	"errors"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

func TestBeginningNowReportsOnlyWhatComesAfter(t *testing.T) {
	list := holds(20, event(1, 7, 3), event(2, 9, 1))
	_, cfg := serveList(t, list, brings(stays, modified(event(1, 21, 5)), added(event(3, 22, 2))))
	m := newMemory()
	run(t, quick(t, cfg), Start{}, m.commit)
	eventually(t, m.increases).Should(gomega.Equal(map[string]int64{nameOf(1): 2, nameOf(3): 2}))
	if len(m.counts) != 3 || !m.countsKnown() {
		t.Errorf("counts %v, complete %t: want all three", m.counts, m.countsKnown())
	}
}

// A crash between two batches of counts must not leave a part of them as complete.
func TestTheFirstCountsAreCompleteInTheLastBatch(t *testing.T) {
	events := make([]*eventsv1.Event, 2*maxChanges)
	for n := range events {
		events[n] = event(n, 7, 1)
	}
	_, cfg := serveList(t, holds(20, events...), stays)
	m := newMemory()
	run(t, quick(t, cfg), Start{}, m.commit)
	eventually(t, m.countsKnown).Should(gomega.BeTrue())
	counts := 0
	for _, b := range m.batches {
		if counts += len(b.Counts); b.CountsKnown && counts < len(events) || len(b.Counts) > maxChanges {
			t.Fatalf("a batch with %d counts, %d in all: complete is %t", len(b.Counts), counts, b.CountsKnown)
		}
	}
}

// A list of many Events takes longer than the API server keeps the position of its first
// page. It must not begin again, because that could repeat forever.
func TestAFirstListWhosePositionExpiresContinues(t *testing.T) {
	newer := apierrors.NewResourceExpired("the provided continue parameter is too old")
	newer.ErrStatus.Continue = "newer"
	pages := map[string]int{}
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		page := query.Get("continue")
		if query.Get("limit") == "500" {
			pages[page]++
		}
		switch page {
		case "second":
			return nil, newer
		case "newer":
			return holds(30, event(2, 15, 4), event(3, 25, 500), event(60, 27, 2))(query)
		}
		first, _ := holds(20, event(50, 18, 1), event(1, 12, 3))(query)
		first.Continue = "second"
		return first, nil
	}
	_, cfg := serveList(t, list, status(expired), brings(stays,
		added(event(1, 12, 3)), added(event(2, 15, 4)), added(event(3, 25, 500)), added(event(50, 18, 1)), added(event(60, 27, 2)), listEnd(40)))
	m := newMemory()
	run(t, quick(t, cfg), Start{}, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(40)))
	// 3 has changed during the list, and 60 is new.
	if diff := cmp.Diff(map[string]int64{nameOf(3): 1, nameOf(60): 2}, m.increases()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"": 1, "second": 1, "newer": 1}, pages); diff != "" {
		t.Errorf("pages: %s", diff)
	}
	if len(m.resets) != 0 {
		t.Errorf("resets %q", m.resets)
	}
}

// A tenant creates Events faster than pages are read, in a namespace that is listed last.
// The position of each page expires before the next one is read.
func TestAFirstListThatNeverEndsDoesNotDelayTheWatch(t *testing.T) {
	var pages atomic.Int32
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if query.Get("limit") == "1" {
			return holds(30)(query)
		}
		page := int(pages.Add(1))
		if query.Get("continue") == "older" {
			status := apierrors.NewResourceExpired("the provided continue parameter is too old")
			status.ErrStatus.Continue = "newer"
			return nil, status
		}
		l, _ := holds(uint64(20+page), event(1000+page, uint64(20+page), 1))(query)
		l.Continue = "older"
		return l, nil
	}
	_, cfg := serveList(t, list, status(expired), brings(stays,
		added(event(1, 12, 3)), added(event(2, 15, 4)), added(event(3, 25, 500)), listEnd(40), added(event(60, 41, 2))))
	m := newMemory()
	run(t, quick(t, cfg), Start{}, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(41)))
	// 3 has changed during the list. Nothing shows whether it is older than the list.
	if diff := cmp.Diff(map[string]int64{nameOf(3): 1, nameOf(60): 2}, m.increases()); diff != "" {
		t.Error(diff)
	}
	if got := pages.Load(); got > 2*apiwatch.MaxRenewals+2 {
		t.Errorf("%d pages were asked for, want %d at most", got, 2*apiwatch.MaxRenewals+2)
	}
}

func TestBeginningNowForgetsTheCountsOfAnotherCluster(t *testing.T) {
	_, cfg := serveList(t, holds(20, event(1, 7, 3)), stays)
	m := newMemory()
	m.counts["other"] = alarm.EventCount{UID: "other", Count: 1}
	start := m.start()
	start.Position = 0
	run(t, quick(t, cfg), start, m.commit)
	eventually(t, func() map[string]int64 { return m.start().asMap() }).Should(gomega.Equal(map[string]int64{string(eventstream.UID(1)): 3}))
}

func TestOnlyAnIncreaseOfTheCountIsAnOccurrence(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays,
		added(event(1, 21, 2)),    // a series begins at 2
		modified(event(1, 22, 2)), // a change of another field
		modified(event(1, 23, 6)),
		modified(event(1, 24, 4)), // lowered: remembered, not reported
		modified(event(1, 25, 5)),
		added(event(2, 26, 1)),
		deleted(event(2, 27, 1)),
		bookmark(30, nil),
	))
	m := newMemory()
	run(t, quick(t, cfg), Start{Position: 20, CountsKnown: true}, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(30)))
	var got []int64
	for _, o := range m.occurrences {
		got = append(got, o.Increase)
	}
	if diff := cmp.Diff([]int64{2, 4, 1, 1}, got); diff != "" {
		t.Errorf("increases: %s", diff)
	}
	if diff := cmp.Diff(map[string]int64{string(eventstream.UID(1)): 5}, m.start().asMap()); diff != "" {
		t.Errorf("counts: %s", diff)
	}
}

func TestNothingIsLostOrRepeatedWhen(t *testing.T) {
	resumed := brings(stays, modified(event(1, 23, 4)), added(event(3, 24, 1)))
	for name, tc := range map[string]struct {
		broken []eventstream.Watcher
		then   eventstream.Watcher
	}{
		"the watch closes":           {[]eventstream.Watcher{closes}, resumed},
		"the connection breaks":      {[]eventstream.Watcher{aborts}, resumed},
		"it breaks at once":          {[]eventstream.Watcher{closes, brings(aborts, nil)}, resumed},
		"there is garbage":           {[]eventstream.Watcher{brings(closes, []byte("HTTP/1.1 502 Bad Gateway\r\n"))}, resumed},
		"an entry is cut":            {[]eventstream.Watcher{brings(aborts, modified(event(1, 23, 4))[:40])}, resumed},
		"the API server fails":       {[]eventstream.Watcher{closes, fails(internal), fails(internal)}, resumed},
		"it is asked to wait":        {[]eventstream.Watcher{closes, fails(apierrors.NewTooManyRequests("slow down", 0))}, resumed},
		"an entry is repeated":       {[]eventstream.Watcher{closes}, brings(resumed, modified(event(1, 21, 2)), added(event(2, 22, 1)))},
		"the position has expired":   {[]eventstream.Watcher{closes, fails(expired)}, listed()},
		"it expires in the stream":   {[]eventstream.Watcher{status(expired)}, listed()},
		"the API server cannot read": {[]eventstream.Watcher{closes, status(internal)}, listed()},
		"it closes without a word":   {[]eventstream.Watcher{closes, closes}, listed()},
		"a list is cut":              {[]eventstream.Watcher{status(expired), brings(aborts, added(event(1, 23, 4)))}, listed()},
	} {
		t.Run(name, func(t *testing.T) {
			first := brings(tc.broken[0], added(event(1, 21, 2)), added(event(2, 22, 1)))
			watches := append([]eventstream.Watcher{first}, tc.broken[1:]...)
			_, cfg := serve(t, 22, append(watches, tc.then)...)
			m := newMemory()
			run(t, quick(t, cfg), Start{Position: 20, CountsKnown: true}, m.commit)
			eventually(t, m.at).Should(gomega.Equal(uint64(24)))
			want := map[string]int64{nameOf(1): 4, nameOf(2): 1, nameOf(3): 1}
			if diff := cmp.Diff(want, m.increases()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// listed is a streaming list of the Events of the other watches, and of one more.
func listed() eventstream.Watcher {
	return func(query url.Values, s *eventstream.Stream) {
		if query.Get("sendInitialEvents") == "" {
			s.Wait() // an API server that no longer has the position can do so
		}
		brings(stays, added(event(3, 24, 1)), added(event(2, 22, 1)), added(event(1, 23, 4)), listEnd(24))(query, s)
	}
}

func TestReadingAgainAfterAnUnfinishedListRepeatsNothing(t *testing.T) {
	_, cfg := serve(t, 24, brings(stays, modified(event(1, 22, 3)), modified(event(1, 23, 4)), modified(event(1, 24, 5))))
	m := newMemory()
	m.position = 20
	uid := string(eventstream.UID(1))
	m.counts[uid] = alarm.EventCount{UID: uid, Count: 4, Position: 23}
	run(t, quick(t, cfg), m.start(), m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(24)))
	if diff := cmp.Diff(map[string]int64{nameOf(1): 1}, m.increases()); diff != "" {
		t.Error(diff)
	}
}

func TestAPagedListReplacesAStreamingList(t *testing.T) {
	list := holds(24, event(3, 24, 1), event(2, 22, 1), event(1, 23, 4))
	_, cfg := serveList(t, list, status(expired), fails(errNoStreamingList), brings(stays, added(event(4, 25, 1))))
	m := newMemory()
	m.position = 22
	uid := string(eventstream.UID(2))
	m.counts[uid] = alarm.EventCount{UID: uid, Count: 1, Position: 22}
	run(t, quick(t, cfg), m.start(), m.commit)
	eventually(t, m.increases).Should(gomega.Equal(map[string]int64{nameOf(1): 4, nameOf(3): 1, nameOf(4): 1}))
}

func TestPositionStaysUntilTheListIsComplete(t *testing.T) {
	proceed := make(chan struct{})
	frames := make([][]byte, 0, listWindow+1)
	for n := listWindow; n >= 0; n-- { // sorted by name, not by position
		frames = append(frames, added(event(n, uint64(100+n), 1)))
	}
	half := brings(func(query url.Values, s *eventstream.Stream) {
		<-proceed
		brings(stays, listEnd(50_000))(query, s)
	}, frames...)
	_, cfg := serve(t, 50_000, status(expired), half)
	m := newMemory()
	run(t, quick(t, cfg), Start{Position: 20, CountsKnown: true}, m.commit)
	eventually(t, func() int { return len(m.increases()) }).Should(gomega.Equal(listWindow))
	if got := m.at(); got != 20 {
		t.Errorf("position %d during the list, want 20", got)
	}
	for i, o := range m.occurrences {
		if want := uint64(101 + i); o.Position != want {
			t.Fatalf("occurrence %d is at %d, want %d: in order", i, o.Position, want)
		}
	}
	close(proceed)
	eventually(t, m.at).Should(gomega.Equal(uint64(50_000)))
}

func TestPositionOfAnotherHistoryIsReset(t *testing.T) {
	restored := brings(stays, added(event(1, 12, 2)), added(event(2, 14, 3)), added(event(3, 13, 1)), added(event(90, 15, 1)), listEnd(15))
	_, cfg := serve(t, 15, restored)
	m := newMemory()
	m.position, m.time = 500, event(50, 1, 1).CreationTimestamp.Time
	for n, count := range map[int]int64{1: 2, 2: 1, 4: 1} {
		uid := string(eventstream.UID(n))
		m.counts[uid] = alarm.EventCount{UID: uid, Count: count, Position: 400}
	}
	source := quick(t, cfg)
	run(t, source, m.start(), m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(15)))
	// Event 2 increased by 2, and 90 is new. 3 is older than the newest Event read before.
	if diff := cmp.Diff(map[string]int64{nameOf(2): 2, nameOf(90): 1}, m.increases()); diff != "" {
		t.Error(diff)
	}
	if len(m.resets) != 1 || !strings.Contains(m.resets[0], "restored") {
		t.Errorf("resets %q, want one that says why", m.resets)
	}
	if _, ok := m.counts[string(eventstream.UID(4))]; ok || source.State().Resets != 1 {
		t.Errorf("counts %v, %d resets: want the deleted Event forgotten, and one reset", m.counts, source.State().Resets)
	}
}

// etcdutl's --bump-revision with --mark-compacted: the position has expired, and the API
// server is beyond it.
func TestARestoreThatRaisesThePositionIsReset(t *testing.T) {
	for name, restored := range map[string][]byte{
		"an Event is older":                 added(event(1, 12, 2)),
		"a deleted or expired Event exists": added(event(3, 17, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			watches := []eventstream.Watcher{
				status(expired),
				brings(aborts, restored),
				brings(stays, added(event(1, 12, 2)), added(event(3, 17, 1)), listEnd(9000), modified(event(1, 9001, 3))),
			}
			_, cfg := serve(t, 9000, watches...)
			m := newMemory()
			m.position, m.time = 20, event(50, 1, 1).CreationTimestamp.Time
			uid := string(eventstream.UID(1))
			m.counts[uid] = alarm.EventCount{UID: uid, Count: 8, Position: 20}
			run(t, quick(t, cfg), m.start(), m.commit)
			eventually(t, m.at).Should(gomega.Equal(uint64(9001)))
			if diff := cmp.Diff(map[string]int64{nameOf(1): 1}, m.increases()); diff != "" {
				t.Errorf("want the increase since the restore: %s", diff)
			}
			if len(m.resets) != 1 || !strings.Contains(m.resets[0], "restored") {
				t.Errorf("resets %q, want one that says why", m.resets)
			}
		})
	}
}

// The Events of an unfinished list belong to the former history, and their positions mean
// nothing in the new one.
func TestAnUnfinishedListIsSentBeforeAReset(t *testing.T) {
	var restored atomic.Bool
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if restored.Load() {
			return holds(15)(query)
		}
		return holds(510)(query)
	}
	cut := func(query url.Values, s *eventstream.Stream) {
		defer restored.Store(true)
		brings(aborts, added(event(60, 505, 1)))(query, s)
	}
	_, cfg := serveList(t, list, status(expired), cut, brings(stays, added(event(70, 12, 1)), listEnd(15)))
	m := newMemory()
	m.position, m.time = 500, event(50, 1, 1).CreationTimestamp.Time
	run(t, quick(t, cfg), m.start(), m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(15)))
	if diff := cmp.Diff(map[string]int64{nameOf(60): 1, nameOf(70): 1}, m.increases()); diff != "" {
		t.Error(diff)
	}
	reset := false
	for _, b := range m.batches {
		reset = reset || b.Reset != nil
		for _, o := range b.Occurrences {
			if former := o.Position > 15; former == reset {
				t.Errorf("an Event at %d after the reset: %t", o.Position, reset)
			}
		}
	}
}

func TestAnUnfinishedResetContinues(t *testing.T) {
	restored := brings(stays, added(event(1, 12, 2)), added(event(2, 14, 3)), listEnd(15))
	script, cfg := serve(t, 15, restored)
	m := newMemory()
	m.position = alarm.ResetPosition
	uid := string(eventstream.UID(2))
	m.counts[uid] = alarm.EventCount{UID: uid, Count: 1, Position: 400}
	run(t, quick(t, cfg), m.start(), m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(15)))
	if diff := cmp.Diff(map[string]int64{nameOf(1): 2, nameOf(2): 2}, m.increases()); diff != "" {
		t.Error(diff)
	}
	if len(m.resets) != 0 || script.asked()[0].Get("sendInitialEvents") != "true" {
		t.Errorf("resets %q, first watch %v: want a list at once, and no other reset", m.resets, script.asked()[0])
	}
}

func TestMissingCountsAreListedAtThePosition(t *testing.T) {
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) && query.Get("resourceVersion") == "20" {
			return holds(20, event(1, 12, 5))(query)
		}
		return holds(30, event(1, 29, 7))(query)
	}
	_, cfg := serveList(t, list, brings(stays, modified(event(1, 29, 7))))
	m := newMemory()
	run(t, quick(t, cfg), Start{Position: 20}, m.commit)
	eventually(t, m.increases).Should(gomega.Equal(map[string]int64{nameOf(1): 2}))
}

func TestCountsThatTheAPIServerNoLongerHasComeFromAList(t *testing.T) {
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if query.Get("resourceVersion") != "" {
			return nil, expired
		}
		return holds(30)(query)
	}
	_, cfg := serveList(t, list, brings(stays, added(event(1, 29, 7)), added(event(2, 19, 3)), added(event(60, 28, 4)), listEnd(30)))
	m := newMemory()
	start := Start{Position: 20, Time: event(50, 1, 1).CreationTimestamp.Time}
	run(t, quick(t, cfg), start, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(30)))
	if diff := cmp.Diff(map[string]int64{nameOf(1): 1, nameOf(60): 4}, m.increases()); diff != "" {
		t.Errorf("want one change of the older Event and the whole count of the newer: %s", diff)
	}
	if got := len(m.counts); got != 3 {
		t.Errorf("%d counts committed, want all 3", got)
	}
}

// A takeover replays from an old position for the sake of groups and thresholds. The
// position at which the last leader stopped is newer, and often still there.
func TestAReplayWhosePositionHasExpiredListsTheEventsAsOfItsEnd(t *testing.T) {
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		switch query.Get("resourceVersion") {
		case "20":
			return nil, expired
		case "30":
			return holds(30, event(1, 25, 500), event(2, 19, 3), event(60, 28, 4))(query)
		default:
			return holds(40)(query)
		}
	}
	script, cfg := serveList(t, list, brings(stays, modified(event(1, 31, 503)), modified(event(60, 32, 6))))
	m := newMemory()
	start := Start{Position: 20, Time: event(50, 1, 1).CreationTimestamp.Time, Until: 30, UntilTime: event(70, 1, 1).CreationTimestamp.Time}
	source := quick(t, cfg)
	run(t, source, start, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(32)))
	if diff := cmp.Diff(map[string]int64{nameOf(1): 1 + 3, nameOf(60): 4 + 2}, m.increases()); diff != "" {
		t.Errorf("want exact increases after the end of the replay: %s", diff)
	}
	if got := script.asked()[0].Get("resourceVersion"); got != "30" || source.State().Relists != 1 {
		t.Errorf("the first watch began at %s after %d lists, want 30 and 1", got, source.State().Relists)
	}
}

// A replay begins earlier than what must be sent, to restore thresholds and groups. If the API
// server has only what must be sent, Events that were deleted since are read all the same.
func TestAReplayWhosePositionHasExpiredContinuesWhereOccurrencesAreNeeded(t *testing.T) {
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		switch query.Get("resourceVersion") {
		case "20":
			return nil, expired
		case "25":
			return holds(25, event(2, 22, 3))(query)
		default:
			return holds(40)(query)
		}
	}
	script, cfg := serveList(t, list, brings(stays, added(event(60, 27, 2)), deleted(event(60, 28, 2)), modified(event(2, 32, 7))))
	m := newMemory()
	source := quick(t, cfg)
	run(t, source, Start{Position: 20, Time: event(1, 1, 1).CreationTimestamp.Time, Needed: 25, Until: 30}, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(32)))
	if diff := cmp.Diff(map[string]int64{nameOf(2): 3 + 4, nameOf(60): 2}, m.increases()); diff != "" {
		t.Error(diff)
	}
	if got := script.asked()[0].Get("resourceVersion"); got != "25" {
		t.Errorf("the first watch began at %s, want 25", got)
	}
}

// An old disk has the counts of the position. Without the list as of the end, the increase
// of an Event would contain what the last leader has sent.
func TestAReplayWithCountsContinuesAtItsEndToo(t *testing.T) {
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if query.Get("resourceVersion") == "30" {
			return holds(30, event(1, 25, 500))(query)
		}
		return holds(40)(query)
	}
	_, cfg := serveList(t, list, status(expired), brings(stays, modified(event(1, 31, 503))))
	m := newMemory()
	m.position = 20
	uid := string(eventstream.UID(1))
	m.counts[uid] = alarm.EventCount{UID: uid, Count: 490, Position: 20}
	start := m.start()
	start.Until = 30
	run(t, quick(t, cfg), start, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(31)))
	var got []int64
	for _, o := range m.occurrences {
		got = append(got, o.Increase)
	}
	if diff := cmp.Diff([]int64{10, 3}, got); diff != "" {
		t.Errorf("increases up to the end of the replay and after it: %s", diff)
	}
}

func TestAReplayWhoseEndHasExpiredTooListsTheEventsAsOfNow(t *testing.T) {
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if query.Get("resourceVersion") != "" {
			return nil, expired
		}
		return holds(40)(query)
	}
	listed := brings(stays, added(event(60, 31, 500)), added(event(61, 28, 4)), added(event(80, 32, 5)), listEnd(40))
	_, cfg := serveList(t, list, listed)
	m := newMemory()
	start := Start{Position: 20, Time: event(50, 1, 1).CreationTimestamp.Time, Until: 30, UntilTime: event(70, 1, 1).CreationTimestamp.Time}
	run(t, quick(t, cfg), start, m.commit)
	eventually(t, m.at).Should(gomega.Equal(uint64(40)))
	// 60 was read before and has changed since, 61 has not, and 80 is new.
	if diff := cmp.Diff(map[string]int64{nameOf(60): 1, nameOf(61): 4, nameOf(80): 5}, m.increases()); diff != "" {
		t.Error(diff)
	}
}

// What waits since a restore of etcd is read again from its beginning, by all later leaders.
func TestAReplayThatBeginsAtARestoreMissesNothing(t *testing.T) {
	changed := func(e *eventsv1.Event, at int) *eventsv1.Event {
		to := metav1.NewTime(eventstream.Epoch.Add(time.Duration(at) * time.Second))
		e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, Time: &to}}
		return e
	}
	// 1 has not changed since what waits, 2 has, and 60 is newer. 3 and 61 changed after the last leader.
	replayed := []*eventsv1.Event{event(1, 25, 500), changed(event(2, 26, 300), 55), event(60, 28, 4)}
	later := []*eventsv1.Event{changed(event(3, 31, 90), 80), changed(event(61, 32, 5), 81)}
	for name, tc := range map[string]struct {
		end  uint64
		asOf func(url.Values) (*eventsv1.EventList, *apierrors.StatusError) // the end of the replay
		now  []*eventsv1.Event
		want map[string]int64
	}{
		"its end has not expired": {30, holds(30, replayed...), nil, map[string]int64{nameOf(2): 1, nameOf(60): 4}},
		"its end has expired": {
			32, func(url.Values) (*eventsv1.EventList, *apierrors.StatusError) { return nil, expired },
			append(replayed, later...), map[string]int64{nameOf(2): 1, nameOf(60): 4, nameOf(3): 1, nameOf(61): 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
				switch query.Get("resourceVersion") {
				case "30":
					return tc.asOf(query)
				case "":
					return holds(40)(query)
				default:
					return nil, expired
				}
			}
			var frames [][]byte
			for _, e := range tc.now {
				frames = append(frames, added(e))
			}
			_, cfg := serveList(t, list, brings(stays, append(frames, listEnd(tc.end))...))
			m := newMemory()
			start := Start{Position: alarm.ResetPosition, Time: event(50, 1, 1).CreationTimestamp.Time, Until: 30, UntilTime: event(70, 1, 1).CreationTimestamp.Time}
			run(t, quick(t, cfg), start, m.commit)
			eventually(t, m.at).Should(gomega.Equal(tc.end))
			if diff := cmp.Diff(tc.want, m.increases()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAReplayNoticesARestoreBeforeItsEnd(t *testing.T) {
	for _, position := range []uint64{20, alarm.ResetPosition} {
		_, cfg := serve(t, 25, brings(stays, listEnd(25)))
		m := newMemory()
		run(t, quick(t, cfg), Start{Position: position, CountsKnown: true, Until: 30}, m.commit)
		eventually(t, m.at).Should(gomega.Equal(uint64(25)))
		if len(m.resets) != 1 {
			t.Errorf("from %d: resets %q, want one: the last leader was at 30", position, m.resets)
		}
	}
}

// A crash during the list must not leave a part of the counts as the complete counts.
func TestCountsAreNotKnownUntilTheListIsComplete(t *testing.T) {
	gone := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		if query.Get("resourceVersionMatch") != "" {
			return nil, expired
		}
		return holds(50_000)(query)
	}
	frames := make([][]byte, 0, listWindow)
	for n := range listWindow {
		frames = append(frames, added(event(n+1, uint64(100+n), 1)))
	}
	proceed := make(chan struct{})
	_, cfg := serveList(t, gone, brings(func(query url.Values, s *eventstream.Stream) {
		<-proceed
		brings(stays, listEnd(50_000))(query, s)
	}, frames...))
	m := newMemory()
	run(t, quick(t, cfg), Start{Position: 20}, m.commit)
	eventually(t, func() int { return len(m.increases()) }).Should(gomega.Equal(listWindow))
	if m.countsKnown() {
		t.Error("the counts are said to be known during the list")
	}
	close(proceed)
	eventually(t, m.countsKnown).Should(gomega.BeTrue())
}

func TestAMalformedEventIsSkipped(t *testing.T) {
	bad := eventstream.Frame(watch.Added, event(1, 21, 1))
	copy(bad[len(bad)-12:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	nowhere := event(2, 0, 1)
	_, cfg := serve(t, 20, brings(stays, bad, added(nowhere), added(event(3, 23, 1))))
	m := newMemory()
	source := quick(t, cfg)
	run(t, source, Start{Position: 20, CountsKnown: true}, m.commit)
	eventually(t, m.increases).Should(gomega.Equal(map[string]int64{nameOf(3): 1}))
	if got := source.State().Malformed; got != 2 {
		t.Errorf("%d malformed, want 2", got)
	}
}

// The outbox cannot store a position with more than 63 bits. The batch would be retried for ever.
func TestAPositionThatCannotBeStoredIsMalformed(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays, bookmark(1<<63, nil), added(event(1, 1<<64-1, 1)), added(event(2, 22, 1))))
	m := newMemory()
	source := quick(t, cfg)
	run(t, source, Start{Position: 20, CountsKnown: true}, m.commit)
	eventually(t, m.increases).Should(gomega.Equal(map[string]int64{nameOf(2): 1}))
	if m.at() != 22 || source.State().Malformed != 2 {
		t.Errorf("the position is %d, with %d malformed entries", m.at(), source.State().Malformed)
	}
}

func TestRunReturnsTheErrorOfTheCounts(t *testing.T) {
	_, cfg := serve(t, 20, stays)
	lost := errors.New("disk lost")
	start := Start{Position: 20, Counts: func(yield func(alarm.EventCount, error) bool) { yield(alarm.EventCount{}, lost) }}
	err := quick(t, cfg).Run(t.Context(), start, newMemory().commit)
	if !errors.Is(err, lost) {
		t.Errorf("Run: %v, want %v", err, lost)
	}
}

func TestRunLeavesNoGoroutine(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays, added(event(1, 21, 1))))
	ctx, cancel := context.WithCancel(t.Context())
	handling := func(ctx context.Context, _ Batch) error {
		cancel() // during a batch, which is then refused
		<-ctx.Done()
		return ctx.Err()
	}
	if err := quick(t, cfg).Run(ctx, Start{Position: 20, CountsKnown: true}, handling); err != nil {
		t.Errorf("Run: %v", err)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, part := range []string{"source.(*Source)", "source.(*reader)"} {
		if strings.Contains(string(stacks), part) {
			t.Errorf("still running: %s", stacks)
		}
	}
}
