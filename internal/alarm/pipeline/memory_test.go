package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// manyEvents is the number of live Events of BenchmarkManyLiveEvents. manyLimit is the limit
// of the memory of the process with them, in bytes.
const manyEvents, manyLimit = 2_000_000, 300 << 20

// These variables are the environment of the process that BenchmarkManyLiveEvents measures.
// They are the address of the API server, the directory of the outbox, and the position that
// it must reach.
const benchServer, benchDir, benchPosition = "BONGSU_BENCH_SERVER", "BONGSU_BENCH_DIR", "BONGSU_BENCH_POSITION"

// benchReplay is set in the environment of the process that BenchmarkTakeover measures.
const benchReplay = "BONGSU_BENCH_REPLAY"

// BenchmarkManyLiveEvents measures the memory of the event source, the pipeline, and the
// outbox with two million live Events, in a process of its own. The first start reads the
// counts from the API server, and the second one from the outbox. The third finds that its
// position has expired, and compares all Events with what it remembers. A start with ten
// Events shows what the process itself needs.
func BenchmarkManyLiveEvents(b *testing.B) {
	if server := os.Getenv(benchServer); server != "" {
		want, err := strconv.ParseUint(os.Getenv(benchPosition), 10, 64)
		must(b, err)
		readManyEvents(b, server, os.Getenv(benchDir), want)
		return
	}
	var server manyServer
	cfg := eventstream.New(b, server.list, server.watch)
	baseline := server.measure(b, cfg, 10, b.TempDir()).peak
	dir := b.TempDir()
	for _, phase := range []string{"start=first", "start=again", "position=expired"} {
		b.Run(phase, func(b *testing.B) {
			server.expired = phase == "position=expired"
			for b.Loop() {
				m := server.measure(b, cfg, size.Scaled(manyEvents), dir)
				b.ReportMetric(float64(baseline)/(1<<20), "baseline-MB")
				b.ReportMetric(float64(m.resident)/(1<<20), "MB")
				b.ReportMetric(float64(m.peak)/(1<<20), "peak-MB")
				if m.peak > manyLimit {
					b.Errorf("the process needs %d MB, the limit is %d MB", m.peak>>20, manyLimit>>20)
				}
			}
			b.ReportMetric(float64(size.Scaled(manyEvents)*b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// replayedEvents is the number of Events of BenchmarkTakeover. takeoverLimit is the limit of the
// CPU time until all are read.
const replayedEvents, takeoverLimit = 100_000, 10 * time.Second

// BenchmarkTakeover measures how long a new leader without an outbox needs until it has read all
// Events, and its memory. The last leader stopped now. The replay begins an hour earlier, for
// groups. The API server no longer has that position, and all Events are newer. The time includes
// neither the Lease nor the start of the process.
func BenchmarkTakeover(b *testing.B) {
	server := manyServer{compacted: true}
	cfg := eventstream.New(b, server.list, server.watch)
	b.Setenv(benchReplay, "true")
	baseline := server.measure(b, cfg, 10, b.TempDir()).peak
	for b.Loop() {
		m := server.measure(b, cfg, size.Scaled(replayedEvents), b.TempDir())
		b.ReportMetric(float64(baseline)/(1<<20), "baseline-MB")
		b.ReportMetric(float64(m.peak)/(1<<20), "peak-MB")
		b.ReportMetric(m.took.Seconds(), "s/takeover")
		b.ReportMetric(m.cpu.Seconds(), "cpu-s/takeover")
		if m.cpu > takeoverLimit {
			b.Errorf("a takeover needs %s of CPU time, the limit is %s", m.cpu, takeoverLimit)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// manyServer is an API server with many Events. If expired is set, it has a newer position,
// and lists Events only. If compacted is set, it has its present state only.
type manyServer struct {
	live      int
	expired   bool
	compacted bool
}

func (m *manyServer) position() string {
	if m.expired {
		return strconv.Itoa(eventstream.First + m.live + 1)
	}
	return strconv.Itoa(eventstream.First + m.live)
}

// list serves a page. Its token is the number of the first Event.
func (m *manyServer) list(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
	if m.compacted && query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) && query.Get("resourceVersion") != m.position() {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, _ := strconv.Atoi(query.Get("continue"))
	end := min(from+limit, m.live)
	list := &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: m.position()}}
	for n := from; n < end; n++ {
		list.Items = append(list.Items, *eventstream.Event(n))
	}
	if end < m.live {
		list.Continue = strconv.Itoa(end)
	}
	return list, nil
}

func (m *manyServer) watch(query url.Values, s *eventstream.Stream) {
	switch {
	case query.Get("sendInitialEvents") != "":
		m.streamAll(s)
	case m.expired, m.compacted && query.Get("resourceVersion") != m.position():
		s.Fail(apierrors.NewResourceExpired("too old resource version"))
		return
	}
	s.Wait()
}

func (m *manyServer) streamAll(s *eventstream.Stream) {
	var frames bytes.Buffer
	for n := range m.live {
		frames.Write(eventstream.Frame(watch.Added, eventstream.Event(n)))
		if n%500 == 0 {
			s.Write(frames.Bytes())
			frames.Reset()
		}
	}
	s.Write(frames.Bytes())
	s.Send(watch.Bookmark, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: m.position(),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

var measured = regexp.MustCompile(`live=(\d+) resident=(\d+) peak=(\d+) took=(\S+)`)

// measurement is what a process needs. took is the time until all Events are read. The memory is
// in bytes.
type measurement struct {
	took, cpu      time.Duration
	resident, peak int64
}

// measure runs BenchmarkManyLiveEvents in another process.
func (m *manyServer) measure(b *testing.B, cfg *rest.Config, live int, dir string) measurement {
	b.Helper()
	m.live = live
	return measureProcess(b, "BenchmarkManyLiveEvents", live, benchServer+"="+cfg.Host, benchDir+"="+dir, benchPosition+"="+m.position())
}

// measureProcess runs a benchmark in another process, which calls printMemory.
func measureProcess(b *testing.B, name string, live int, env ...string) measurement {
	b.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^"+name+"$", "-test.benchtime=1x")
	child.Env = append(os.Environ(), env...)
	out, err := child.CombinedOutput()
	found := measured.FindStringSubmatch(string(out))
	if err != nil || found == nil || found[1] != strconv.Itoa(live) {
		b.Fatalf("want %d live, got %v: %s", live, err, out)
	}
	r := measurement{cpu: child.ProcessState.UserTime() + child.ProcessState.SystemTime()}
	r.resident, _ = strconv.ParseInt(found[2], 10, 64)
	r.peak, _ = strconv.ParseInt(found[3], 10, 64)
	r.took, _ = time.ParseDuration(found[4])
	return r
}

// printMemory prints the memory of this process, and then what live counts.
func printMemory(b *testing.B, live func() int, took time.Duration) {
	b.Helper()
	resident, peak := memoryOf(b, "VmRSS"), memoryOf(b, "VmHWM")
	fmt.Printf("live=%d resident=%d peak=%d took=%s\n", live(), resident, peak, took)
}

// readManyEvents reads all Events into an outbox, up to a position, and prints the memory of
// this process. It collects garbage like the operator.
func readManyEvents(b *testing.B, server, dir string, want uint64) {
	b.Helper()
	debug.SetGCPercent(50)
	store, err := outbox.Open(b.Context(), dir)
	must(b, err)
	defer func() { must(b, store.Close()) }()
	events, err := source.New(&rest.Config{Host: server}, clock.RealClock{}, logr.Discard())
	must(b, err)
	p := New(Config{
		Source: events, Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: NewAlarms(),
		Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(b.Context())
	state := store.State()
	start := source.Start{Position: state.Position, Time: state.Time, CountsKnown: state.CountsKnown, Counts: p.Outbox.EventCounts(ctx)}
	if os.Getenv(benchReplay) != "" {
		start = source.Start{Position: eventstream.First, Until: want}
	}
	done, begun := make(chan error, 1), time.Now()
	go func() { done <- events.Run(ctx, start, p.handle) }()
	for !store.State().CountsKnown || store.State().Position != want || events.State().ConnectedSince.IsZero() {
		if time.Sleep(10 * time.Millisecond); time.Since(begun) > 10*time.Minute {
			b.Fatalf("not read after ten minutes: %+v", events.State())
		}
	}
	printMemory(b, func() (live int) {
		for _, err := range store.EventCounts(ctx) {
			must(b, err)
			live++
		}
		return live
	}, time.Since(begun))
	cancel()
	must(b, <-done)
}

// memoryOf reads a value of this process from the kernel, in bytes.
func memoryOf(b *testing.B, name string) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skipf("this system does not report the memory of a process: %v", err)
	}
	_, rest, _ := bytes.Cut(status, []byte(name+":"))
	var kilobytes int64
	_, err = fmt.Sscan(string(rest), &kilobytes)
	must(b, err)
	return kilobytes << 10
}
