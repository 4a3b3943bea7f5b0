package pipeline

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// What is remembered is shared out among so many alarms, each of a namespace of its own,
// so that none comes to its bound. A batch has so many occurrences, each of another group.
const benchGroupAlarms, benchGroupBatch = 100, 100

// BenchmarkGroups measures what an occurrence costs, from the matching until it is on
// disk, and the message of it, while so many groups, or windows of thresholds, are open;
// and what a group costs. What it holds the code to: at 100,000 no more than three times the
// processor's time that it takes at 100, 100 B on the heap and 1,000 B on disk for each.
func BenchmarkGroups(b *testing.B) {
	for _, kind := range []string{"groups", "windows"} {
		rates := map[int]float64{}
		for _, open := range []int{100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s=%d", kind, open), func(b *testing.B) { rates[open] = benchOpen(b, kind, open) })
		}
		demand(b, "100,000 "+kind+" beside 100", rates[100_000], rates[100], 1.0/3)
	}
}

// benchOpen returns how many occurrences, and their messages, a second of the
// processor's time is enough for. It is not the clock that is compared: half of what
// that tells is how busy the disk is, and the machine.
func benchOpen(b *testing.B, kind string, open int) float64 {
	g := newGroupBench(b, kind, open)
	disk, heap := g.onDisk(), heapInUse()
	g.occur(open)
	g.release()
	g.settle()
	disk, heap = g.onDisk()-disk, heapInUse()-heap

	var used time.Duration
	for b.Loop() {
		before := processorTime(b)
		g.occur(benchGroupBatch)
		g.release()
		used += processorTime(b) - before
		b.StopTimer()
		g.settle()
		b.StartTimer()
	}
	taken := float64(b.N * benchGroupBatch)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/taken, "ns/occurrence")
	b.ReportMetric(float64(used.Nanoseconds())/taken, "cpu-ns/occurrence")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perGroup(b, "on disk", disk, open, 1000), "diskB/group")
	b.ReportMetric(perGroup(b, "on the heap", heap, open, 100), "heapB/group")
	return taken / used.Seconds()
}

// processorTime is what the process has used of it.
func processorTime(b *testing.B) time.Duration {
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

// groupBench is a pipeline with a ledger, in which pods of all alarms' namespaces take
// turns.
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
		b: b, path: filepath.Join(b.TempDir(), outbox.FileName), clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)),
		open: open,
	}
	books, err := outbox.Open(b.Context(), filepath.Dir(g.path), outbox.WithClock(g.clock))
	must(b, err)
	b.Cleanup(func() { must(b, books.Close()) })
	compiler, err := match.NewCompiler()
	must(b, err)
	alarms := NewAlarms()
	for i := range benchGroupAlarms {
		id := alarm.ID{Kind: alarm.KindAlarm, Namespace: benchNamespace(i), Name: "crashes"}
		spec := v1alpha1.AlarmSpec{
			Match: []v1alpha1.EventMatch{{Reasons: []string{"BackOff"}}},
			Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32), IntervalSeconds: new(int32)},
		}
		if kind == "windows" { // that are never full
			spec.Threshold = &v1alpha1.AlarmThreshold{Count: 1 << 30, WithinSeconds: 3600}
		}
		compiled, err := compiler.Compile(match.Definition{ID: id, UID: id.Namespace, Spec: spec, Receivers: []string{benchReceiver(i)}})
		must(b, err)
		alarms.Set(id.Namespace, "1", compiled)
	}
	g.Pipeline = New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: books, Checkpoint: &diary{}, Alarms: alarms,
		Dispatcher: silent{}, Enricher: silent{}, Reporter: silent{}, Clock: g.clock, Log: logr.Discard(),
	})
	must(b, g.handle(b.Context(), source.Batch{Position: 1}))
	g.position = 1
	return g
}

func benchNamespace(i int) string { return fmt.Sprint("team-", i) }
func benchReceiver(i int) string  { return "AlarmReceiver/" + benchNamespace(i) + "/chat" }

// occur takes in a batch: something happens to the next pods.
func (g *groupBench) occur(n int) {
	var batch source.Batch
	for range n {
		pod := int(g.position) * 7919 % g.open // 7919 is a prime: all pods take turns, in no order
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

// release makes the messages of all that happened.
func (g *groupBench) release() {
	g.clock.Step(time.Second)
	_, err := g.Pipeline.releaseDue(g.b.Context())
	must(g.b, err)
}

// settle removes the messages.
func (g *groupBench) settle() {
	for i := range benchGroupAlarms {
		_, err := g.ledger.DropOlderThan(g.b.Context(), benchReceiver(i), g.clock.Now().Add(time.Second))
		must(g.b, err)
	}
	if size := g.ledger.Size(); size.Entries+size.Held > 0 || size.Groups+size.Windows != int64(g.open) {
		g.b.Fatalf("%+v, want %d groups and nothing that waits", size, g.open)
	}
}

// onDisk is how many bytes of the file are in use.
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
