package source

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

func second(n int64) time.Time           { return time.Unix(n, 0).UTC() }
func metaTime(n int64) metav1.Time       { return metav1.NewTime(second(n)) }
func microTime(n int64) metav1.MicroTime { return metav1.NewMicroTime(second(n)) }

func TestTheCountOfTheSeriesComesFirstAndAMissingCountIsOne(t *testing.T) {
	for name, tc := range map[string]struct {
		event eventsv1.Event
		want  int32
	}{
		"nothing":                {want: 1},
		"deprecated":             {event: eventsv1.Event{DeprecatedCount: 7}, want: 7},
		"series":                 {event: eventsv1.Event{Series: &eventsv1.EventSeries{Count: 2}}, want: 2},
		"series over deprecated": {event: eventsv1.Event{DeprecatedCount: 7, Series: &eventsv1.EventSeries{Count: 2}}, want: 2},
		"empty series":           {event: eventsv1.Event{Series: &eventsv1.EventSeries{}}, want: 1},
		"negative":               {event: eventsv1.Event{DeprecatedCount: -3}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := countOf(&tc.event); got != tc.want {
				t.Errorf("countOf = %d, want %d", got, tc.want)
			}
		})
	}
}

// yearTenThousand is the begin of the year 10000.
const yearTenThousand = 253_402_300_800

func TestTimesAreTakenFromTheFirstFieldThatIsSet(t *testing.T) {
	created := metav1.ObjectMeta{CreationTimestamp: metaTime(1)}
	for name, tc := range map[string]struct {
		event       eventsv1.Event
		first, last time.Time
	}{
		"nothing": {},
		"created": {event: eventsv1.Event{ObjectMeta: created}, first: second(1), last: second(1)},
		"deprecated": {
			event: eventsv1.Event{ObjectMeta: created, DeprecatedFirstTimestamp: metaTime(2), DeprecatedLastTimestamp: metaTime(3)},
			first: second(2), last: second(3),
		},
		"event time": {
			event: eventsv1.Event{ObjectMeta: created, EventTime: microTime(4), DeprecatedLastTimestamp: metaTime(3)},
			first: second(4), last: second(4),
		},
		"series": {
			event: eventsv1.Event{ObjectMeta: created, EventTime: microTime(4), Series: &eventsv1.EventSeries{LastObservedTime: microTime(9)}},
			first: second(4), last: second(9),
		},
		"series without time": {
			event: eventsv1.Event{ObjectMeta: created, EventTime: microTime(4), Series: &eventsv1.EventSeries{Count: 2}},
			first: second(4), last: second(4),
		},
		// JSON has no form for these times. The API server accepts them.
		"after the year 9999": {
			event: eventsv1.Event{
				ObjectMeta: created, DeprecatedFirstTimestamp: metaTime(yearTenThousand), DeprecatedLastTimestamp: metaTime(1 << 60),
				EventTime: microTime(4), Series: &eventsv1.EventSeries{LastObservedTime: microTime(yearTenThousand)},
			},
			first: second(4), last: second(4),
		},
		"before the year 1": {
			event: eventsv1.Event{ObjectMeta: created, DeprecatedFirstTimestamp: metaTime(-1 << 60), DeprecatedLastTimestamp: metaTime(-62_135_596_801)},
			first: second(1), last: second(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstSeen(&tc.event); !got.Equal(tc.first) {
				t.Errorf("firstSeen = %v, want %v", got, tc.first)
			}
			if got := lastSeen(&tc.event); !got.Equal(tc.last) {
				t.Errorf("lastSeen = %v, want %v", got, tc.last)
			}
		})
	}
}

func TestObservedAtIsTheNewestTimeThatTheAPIServerStamped(t *testing.T) {
	old, recent := metaTime(5), metaTime(8)
	e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metaTime(4)}}
	if got := observedAt(e); !got.Equal(second(4)) {
		t.Errorf("without managed fields: %v, want the creation time", got)
	}
	e.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &old}, {Time: &recent}, {}}
	if got := observedAt(e); !got.Equal(second(8)) {
		t.Errorf("with managed fields: %v, want the newest", got)
	}
}

func TestAnOccurrenceContainsAnEventOfEitherAPI(t *testing.T) {
	regarding := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "u", FieldPath: "f"}
	reference := alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "u", FieldPath: "f"}
	meta := metav1.ObjectMeta{Namespace: "a", Name: "e", UID: "id", CreationTimestamp: metaTime(1)}
	for name, tc := range map[string]struct {
		event eventsv1.Event
		want  alarm.Event
	}{
		"events.k8s.io": {
			event: eventsv1.Event{
				ObjectMeta: meta, Type: "Warning", Reason: "BackOff", Action: "Restart", Note: "n", Regarding: regarding,
				ReportingController: "kubelet", ReportingInstance: "node", EventTime: microTime(2),
			},
			want: alarm.Event{
				Namespace: "a", Name: "e", UID: "id", Type: "Warning", Reason: "BackOff", Action: "Restart", Note: "n", Regarding: reference,
				ReportingController: "kubelet", ReportingInstance: "node", Count: 1, FirstSeen: second(2), LastSeen: second(2),
			},
		},
		"core": {
			event: eventsv1.Event{
				ObjectMeta: meta, Regarding: regarding, DeprecatedCount: 3, DeprecatedFirstTimestamp: metaTime(2), DeprecatedLastTimestamp: metaTime(4),
				DeprecatedSource: corev1.EventSource{Component: "kubelet", Host: "node"},
			},
			want: alarm.Event{
				Namespace: "a", Name: "e", UID: "id", Regarding: reference,
				ReportingController: "kubelet", ReportingInstance: "node", Count: 3, FirstSeen: second(2), LastSeen: second(4),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := newOccurrence(&tc.event, 12, 2)
			want := &alarm.Occurrence{Event: tc.want, Increase: 2, Position: 12, ObservedAt: second(1)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPositionIsAWellFormedResourceVersion(t *testing.T) {
	for version, want := range map[string]uint64{"1": 1, "18446744073709551615": 18446744073709551615} {
		if got, err := apiwatch.ParsePosition(version); err != nil || got != want {
			t.Errorf("ParsePosition(%q) = %d, %v", version, got, err)
		}
	}
	for _, version := range []string{"", "0", "007", "-1", "1a", "18446744073709551616"} {
		if got, err := apiwatch.ParsePosition(version); err == nil {
			t.Errorf("ParsePosition(%q) = %d, want an error", version, got)
		}
	}
}

// Writers of Events through core/v1 could otherwise fill the memory.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("봉", 100_000)
	e := newOccurrence(&eventsv1.Event{
		Type: long, Reason: long, Action: long, Note: long, ReportingController: long, ReportingInstance: long,
		Regarding: corev1.ObjectReference{APIVersion: long, Kind: long, Namespace: long, Name: long, UID: types.UID(long), FieldPath: long},
	}, 1, 1).Event
	r := e.Regarding
	for name, text := range map[string]string{
		"type": e.Type, "reason": e.Reason, "action": e.Action, "note": e.Note,
		"reportingController": e.ReportingController, "reportingInstance": e.ReportingInstance,
		"apiVersion": r.APIVersion, "kind": r.Kind, "namespace": r.Namespace, "name": r.Name, "uid": r.UID, "fieldPath": r.FieldPath,
	} {
		if len(text) > 1024 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
			t.Errorf("%s has %d bytes, valid: %v: %.10s", name, len(text), utf8.ValidString(text), text)
		}
	}
	whole := strings.Repeat("봉", 1024/3) + "a"
	if got := newOccurrence(&eventsv1.Event{Note: whole}, 1, 1).Event.Note; got != whole {
		t.Errorf("a note of 1,024 bytes became one of %d", len(got))
	}
}
