package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

func TestDecoderReadsTheFramesOfTheAPIServer(t *testing.T) {
	sent := [][]byte{added(eventstream.Event(1)), deleted(event(2, 7, 1)), eventstream.Frame(watch.Error, &expired.ErrStatus)}
	d := newDecoder(bytes.NewReader(bytes.Join(sent, nil)))
	if kind, err := d.next(); kind != watch.Added || err != nil {
		t.Fatal(kind, err)
	}
	if diff := cmp.Diff(eventstream.Event(1).Regarding, d.event.Regarding); diff != "" {
		t.Error(diff)
	}
	if kind, err := d.next(); kind != watch.Deleted || err != nil {
		t.Fatal(kind, err)
	}
	if diff := cmp.Diff(event(2, 7, 1).ObjectMeta.UID, d.event.UID); diff != "" || d.event.Note != "" {
		t.Errorf("the second Event contains data of the first: %+v", d.event)
	}
	if kind, err := d.next(); kind != watch.Error || err != nil || d.status.Code != 410 {
		t.Fatal(kind, err, d.status)
	}
	if _, err := d.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

func TestDecoderDistinguishesABadEntryFromABadStream(t *testing.T) {
	entry := added(event(1, 21, 1))
	for name, tc := range map[string]struct {
		stream []byte
		want   error
	}{
		"cut in the length": {entry[:3], io.ErrUnexpectedEOF},
		"cut in the entry":  {entry[:20], io.ErrUnexpectedEOF},
		"too large":         {[]byte("\x01\x00\x00\x01"), errFrameTooLarge},
		"no entry":          {[]byte("\x00\x00\x00\x02\xff\xff"), errMalformed},
		"no object":         {[]byte("\x00\x00\x00\x00"), errNoEnvelope},
		"unknown type":      {eventstream.Frame("RENAMED", event(1, 21, 1)), errMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newDecoder(bytes.NewReader(tc.stream)).next(); !errors.Is(err, tc.want) {
				t.Errorf("next: %v, want %v", err, tc.want)
			}
		})
	}
}

// A tenant can create Events that are almost as large as a request.
func TestAPageOfLargeEventsIsLimited(t *testing.T) {
	const n = 100
	note := strings.Repeat("x", 1<<20)
	pages := map[int]int64{} // the last page at each offset
	list := func(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
		from, _ := strconv.Atoi(query.Get("continue"))
		limit, _ := strconv.ParseInt(query.Get("limit"), 10, 64)
		pages[from] = limit
		list := &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "1000"}}
		for i := from; i < n && i < from+int(limit); i++ {
			e := event(i, uint64(100+i), 1)
			if e.Note = note; i >= n/2 {
				e.Note = ""
			}
			list.Items = append(list.Items, *e)
			if i+1 < n {
				list.Continue = strconv.Itoa(i + 1)
			} else {
				list.Continue = ""
			}
		}
		return list, nil
	}
	_, cfg := serveList(t, list, stays)
	c, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if _, _, err := c.List(t.Context(), metav1.ListOptions{}, func(page *eventsv1.EventList) error {
		for i := range page.Items {
			got = append(got, page.Items[i].Name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != n || len(slices.Compact(slices.Sorted(slices.Values(got)))) != n {
		t.Errorf("got %d Events, want each of %d once: %v", len(got), n, got)
	}
	for from, limit := range pages {
		if from+int(limit) <= n/2 && limit >= 16 || from == 0 && limit >= 16 {
			t.Errorf("a page with %d Events of 1 MiB was read", limit)
		}
	}
}

// FuzzEvent decodes any bytes as an Event, and follows them to the batch.
func FuzzEvent(f *testing.F) {
	for _, e := range []runtime.Object{eventstream.Event(1), event(1, 21, 1)} {
		d := newDecoder(bytes.NewReader(eventstream.Frame(watch.Added, e)))
		if _, err := d.next(); err != nil {
			f.Fatal(err)
		}
		f.Add(d.object.Raw, false)
		f.Add(d.object.Raw, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, listing bool) {
		object, err := (&runtime.Unknown{Raw: raw}).Marshal()
		if err != nil {
			t.Skip("the input is nothing that can be sent")
		}
		entry := metav1.WatchEvent{Type: string(watch.Added), Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), object...)}}
		d := newDecoder(nil)
		if d.frame, err = entry.Marshal(); err != nil || d.decodeFrame() != nil {
			t.Skip("the frame is no entry of a watch")
		}
		out := make(chan change, 1)
		r := newReader(&Source{clock: clock.RealClock{}, log: logr.Discard()}, Start{Position: 20, CountsKnown: true}, &counts{}, out)
		r.listing = listing
		if err := r.handle(context.Background(), watch.Added, &d.event); err != nil {
			t.Fatal(err)
		}
		close(out)
		for c := range out {
			r.window = append(r.window, c)
		}
		for _, c := range r.window {
			if c.occurrence != nil && c.occurrence.Increase < 1 {
				t.Errorf("an occurrence without an increase: %+v", c.occurrence)
			}
		}
	})
}
