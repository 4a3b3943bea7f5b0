package pipeline

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// benchEvents is the number of Events, in 100 namespaces. Ten alarms match 2 % of them; all
// others match none.
const benchEvents = 20_000

// BenchmarkSourceAndMatch measures the rate from the wire to the match result, and that
// of only decoding the same stream (alarms=decode). The limits hold for 2 cores. 1,000
// alarms must reach 0.5 of the rate of decoding. 10,000 alarms must reach 0.7 of the rate
// with 10.
func BenchmarkSourceAndMatch(b *testing.B) {
	stream := eventstream.Added(benchEvents)
	cfg := eventstream.New(b, eventstream.Empty("999"), func(_ url.Values, s *eventstream.Stream) {
		s.Write(stream)
		s.Wait()
	})
	var decode float64
	b.Run("alarms=decode", func(b *testing.B) { decode = benchDecode(b, cfg) })
	rates := map[int]float64{}
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("alarms=%d", n), func(b *testing.B) { rates[n] = benchMatch(b, cfg, n) })
	}
	checkRatio(b, "1,000 alarms compared to decoding", rates[1_000], decode, 0.5)
	checkRatio(b, "10,000 alarms compared to 10", rates[10_000], rates[10], 0.7)
}

// checkRatio fails if a rate is less than limit times the base rate. It ignores rates that
// -bench excluded.
func checkRatio(b *testing.B, what string, rate, base, limit float64) {
	b.Helper()
	if rate > 0 && base > 0 && size.Exceeds(limit*base, rate) {
		b.Errorf("%s: %.2f of the rate, the limit is %.2f", what, rate/base, limit)
	}
}

func benchDecode(b *testing.B, cfg *rest.Config) float64 {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	must(b, err)
	for b.Loop() {
		w, err := client.EventsV1().Events("").Watch(b.Context(), metav1.ListOptions{ResourceVersion: "999"})
		must(b, err)
		for range benchEvents {
			<-w.ResultChan()
		}
		w.Stop()
	}
	return reportRate(b)
}

func benchMatch(b *testing.B, cfg *rest.Config, alarms int) float64 {
	events, err := source.New(cfg, clock.RealClock{}, logr.Discard())
	must(b, err)
	m := newMatcher(benchAlarms(b, alarms), nil, noop{}, clock.RealClock{})
	matched := 0
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		seen := 0
		start := source.Start{Position: eventstream.First - 1, CountsKnown: true}
		_ = events.Run(ctx, start, func(ctx context.Context, batch source.Batch) error {
			evaluations, _, err := m.match(ctx, batch.Occurrences, progress.Offsets{})
			for i := range evaluations {
				matched += len(evaluations[i])
			}
			if seen += len(batch.Occurrences); seen == benchEvents {
				cancel()
			}
			return err
		})
		cancel()
	}
	b.ReportMetric(float64(matched)/float64(b.N)/benchEvents, "matches/event")
	return reportRate(b)
}

func reportRate(b *testing.B) float64 {
	rate := float64(b.N) * benchEvents / b.Elapsed().Seconds()
	b.ReportMetric(rate, "events/s")
	b.ReportMetric(0, "ns/op")
	return rate
}

// benchAlarms returns ten alarms that match and others that do not. They are typical, ten
// in each namespace.
func benchAlarms(b *testing.B, n int) *Alarms {
	b.Helper()
	compiler, err := match.NewCompiler()
	must(b, err)
	alarms := NewAlarms()
	for i := range n {
		id := kube.Key{Kind: alarm.KindAlarm, Namespace: fmt.Sprint("team-", i%1000), Name: fmt.Sprint("alarm-", i)}
		spec := v1alpha1.EventMatch{
			Kinds: []string{"Pod"}, Reasons: []string{benchReasons[i%len(benchReasons)]}, Names: []string{"db-*"},
		}
		if i < 10 {
			spec = v1alpha1.EventMatch{Kinds: []string{"Pod"}, Reasons: []string{"BackOff"}, Expression: `event.count > 0`}
		}
		compiled, err := compiler.Compile(match.Definition{
			ID: id, UID: id.Name, Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{spec}},
		})
		must(b, err)
		alarms.Set(id.Name, "1", compiled)
	}
	return alarms
}

var benchReasons = []string{
	"BackOff", "Created", "Started", "Killing", "Pulled", "Scheduled", "Unhealthy", "FailedMount",
	"FailedScheduling", "Evicted", "Failed", "FailedCreate", "SuccessfulCreate",
}

// Each of the alarms has its own namespace, so that none reaches its limit of groups. Each
// occurrence of a batch belongs to another group.
const benchGroupAlarms, benchGroupBatch = 100, 100

// BenchmarkGroups measures the cost of an occurrence and of its message, from matching
// until they are on disk. Many groups or threshold windows are open meanwhile. It also
// measures the size of a group. With 100,000 groups, the limit is three times the CPU
// time of 100 groups. Each group may use 100 B on the heap and 1,000 B on disk.
func BenchmarkGroups(b *testing.B) {
	for _, kind := range []string{"groups", "windows"} {
		rates := map[int]float64{}
		for _, open := range []int{100, size.Scaled(10_000), size.Scaled(100_000)} {
			b.Run(fmt.Sprintf("%s=%d", kind, open), func(b *testing.B) { rates[open] = benchOpen(b, kind, open) })
		}
		checkRatio(b, "100,000 "+kind+" compared to 100", rates[size.Scaled(100_000)], rates[100], 1.0/3)
	}
}

// benchOpen returns the number of occurrences, with their messages, for each second of CPU
// time. Elapsed time would include the load of the disk and the machine.
func benchOpen(b *testing.B, kind string, open int) float64 {
	g := newGroupBench(b, kind, open)
	disk, heap := g.onDisk(), heapInUse()
	g.addBatch(open)
	g.release()
	g.clear()
	disk, heap = g.onDisk()-disk, heapInUse()-heap

	var used time.Duration
	for b.Loop() {
		before := cpuTime(b)
		g.addBatch(benchGroupBatch)
		g.release()
		used += cpuTime(b) - before
		b.StopTimer()
		g.clear()
		b.StartTimer()
	}
	occurrences := float64(b.N * benchGroupBatch)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/occurrences, "ns/occurrence")
	b.ReportMetric(float64(used.Nanoseconds())/occurrences, "cpu-ns/occurrence")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perGroup(b, "on disk", disk, open, 1000), "diskB/group")
	b.ReportMetric(perGroup(b, "on the heap", heap, open, 100), "heapB/group")
	return occurrences / used.Seconds()
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func perGroup(b *testing.B, where string, bytes int64, open int, limit float64) float64 {
	b.Helper()
	each := float64(bytes) / float64(open)
	if open == 100_000 && each > limit {
		b.Errorf("%.0f B %s for a group, the limit is %.0f", each, where, limit)
	}
	return each
}

// groupBench is a pipeline with an outbox. Its Events regard the pods of all alarms'
// namespaces in turn.
type groupBench struct {
	*Pipeline
	b        *testing.B
	path     string
	clock    *clocktesting.FakeClock
	open     int
	position uint64
}

func newGroupBench(b *testing.B, kind string, open int) *groupBench {
	b.Helper()
	g := &groupBench{
		b: b, path: filepath.Join(b.TempDir(), file.Name), clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)),
		open: open,
	}
	store, err := outbox.Open(b.Context(), filepath.Dir(g.path), outbox.WithClock(g.clock))
	must(b, err)
	b.Cleanup(func() { must(b, store.Close()) })
	compiler, err := match.NewCompiler()
	must(b, err)
	alarms := NewAlarms()
	for i := range benchGroupAlarms {
		id := kube.Key{Kind: alarm.KindAlarm, Namespace: benchNamespace(i), Name: "crashes"}
		spec := v1alpha1.AlarmSpec{
			Match: []v1alpha1.EventMatch{{Reasons: []string{"BackOff"}}},
			Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32), IntervalSeconds: new(int32)},
		}
		if kind == "windows" { // with a threshold that is never reached
			spec.Threshold = &v1alpha1.AlarmThreshold{Count: 1 << 30, WithinSeconds: 3600}
		}
		compiled, err := compiler.Compile(match.Definition{ID: id, UID: id.Namespace, Spec: spec, Receivers: []string{benchReceiver(i)}})
		must(b, err)
		alarms.Set(id.Namespace, "1", compiled)
	}
	g.Pipeline = New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
		Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{}, Clock: g.clock, Log: logr.Discard(),
	})
	must(b, g.handle(b.Context(), source.Batch{Position: 1}))
	g.position = 1
	return g
}

func benchNamespace(i int) string { return fmt.Sprint("team-", i) }
func benchReceiver(i int) string  { return "AlarmReceiver/" + benchNamespace(i) + "/chat" }

// addBatch handles a batch with occurrences of the next n pods.
func (g *groupBench) addBatch(n int) {
	var batch source.Batch
	for range n {
		pod := int(g.position) * 7919 % g.open // 7919 is a prime, so every pod has its turn
		g.position++
		namespace := benchNamespace(pod % benchGroupAlarms)
		batch.Occurrences = append(batch.Occurrences, alarm.Occurrence{
			Increase: 1, Position: g.position, ObservedAt: g.clock.Now(),
			Event: alarm.Event{
				Namespace: namespace, UID: fmt.Sprint("event-", pod), Count: int64(g.position), Type: "Warning", Reason: "BackOff",
				Note:      "Back-off restarting failed container app in pod web",
				Regarding: alarm.Reference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("web-%d-7d4b9c6f5d-x2x8q", pod)},
			},
		})
	}
	batch.Position = g.position
	must(g.b, g.handle(g.b.Context(), batch))
}

// release releases the messages of all groups.
func (g *groupBench) release() {
	g.clock.Step(time.Second)
	_, err := g.Pipeline.releaseDue(g.b.Context())
	must(g.b, err)
}

// clear removes the messages.
func (g *groupBench) clear() {
	for i := range benchGroupAlarms {
		_, err := g.Outbox.DropOlderThan(g.b.Context(), benchReceiver(i), outbox.MainLane, g.clock.Now().Add(time.Second))
		must(g.b, err)
	}
	// A group also counts what a threshold keeps from being sent.
	if size := g.Outbox.Size(); size.Entries+size.Held > 0 || size.Groups != int64(g.open) {
		g.b.Fatalf("%+v, want %d groups and no messages", size, g.open)
	}
}

// onDisk returns the number of used bytes in the file.
func (g *groupBench) onDisk() (n int64) {
	db, err := sql.Open("sqlite", g.path)
	must(g.b, err)
	defer func() { must(g.b, db.Close()) }()
	must(g.b, db.QueryRowContext(g.b.Context(), `SELECT (page_count - freelist_count) * page_size
		FROM pragma_page_count, pragma_freelist_count, pragma_page_size`).Scan(&n))
	return n
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
