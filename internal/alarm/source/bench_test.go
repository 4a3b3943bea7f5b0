package source

import (
	"context"
	"net/url"
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	contenttype "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

const benchEvents = 10_000

// streamServer serves the same watch to every client.
func streamServer(tb testing.TB) *rest.Config {
	stream := eventstream.Added(benchEvents)
	return eventstream.New(tb, eventstream.Empty("999"), func(_ url.Values, s *eventstream.Stream) {
		s.Write(stream)
		s.Wait()
	})
}

func reportRate(b *testing.B) {
	b.ReportMetric(float64(b.N)*benchEvents/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDecode is the baseline for BenchmarkSource: the watch of client-go, without
// any processing.
func BenchmarkDecode(b *testing.B) {
	cfg := streamServer(b)
	cfg.ContentType, cfg.AcceptContentTypes = contenttype.ContentTypeProtobuf, contenttype.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w, err := client.EventsV1().Events("").Watch(b.Context(), metav1.ListOptions{ResourceVersion: "999"})
		if err != nil {
			b.Fatal(err)
		}
		for range benchEvents {
			<-w.ResultChan()
		}
		w.Stop()
	}
	reportRate(b)
}

// BenchmarkSource reads the same stream through a source, with a handler that does
// nothing.
func BenchmarkSource(b *testing.B) {
	source, err := New(streamServer(b), clock.RealClock{}, logr.Discard())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		seen := 0
		_ = source.Run(ctx, Start{Position: eventstream.First - 1, CountsKnown: true}, func(_ context.Context, batch Batch) error {
			if seen += len(batch.Occurrences); seen == benchEvents {
				cancel()
			}
			return nil
		})
		cancel()
	}
	reportRate(b)
}

// BenchmarkCounts measures the memory for each live Event.
func BenchmarkCounts(b *testing.B) {
	const live = 100_000
	uids := make([]string, live)
	for i := range uids {
		uids[i] = string(eventstream.UID(i))
	}
	for b.Loop() {
		before := heap()
		c := &counts{}
		for i, uid := range uids {
			c.set(uid, known{position: uint64(i), count: 1})
		}
		b.ReportMetric(float64(heap()-before)/live, "B/event")
		runtime.KeepAlive(c)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
