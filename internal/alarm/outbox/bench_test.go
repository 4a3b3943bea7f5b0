package outbox

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// counts returns n counts of different Events.
func counts(n int) []alarm.EventCount {
	counts := make([]alarm.EventCount, n)
	for i := range counts {
		counts[i] = alarm.EventCount{UID: uuid.NewString(), Count: 1}
	}
	return counts
}

func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("entries=%d", size), func(b *testing.B) {
			s, position := open(b, b.TempDir()), 1
			for b.Loop() {
				batch := Change{Events: &EventStep{Position: uint64(position + size - 1), Counts: counts(size)}, Entries: entries("ClusterAlarmReceiver//ops", position, size)}
				position += size
				must(b, s.Commit(context.Background(), batch))
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkDeliver measures the delivery of one message while several receivers deliver
// at once.
func BenchmarkDeliver(b *testing.B) {
	for _, receivers := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("receivers=%d", receivers), func(b *testing.B) {
			s := open(b, b.TempDir())
			for position := 1; b.Loop(); position++ {
				b.StopTimer()
				batch := Change{Events: &EventStep{Position: uint64(position)}}
				for r := range receivers {
					batch.Entries = append(batch.Entries, entries(strconv.Itoa(r), position, 1)...)
				}
				must(b, s.Commit(context.Background(), batch))
				b.StartTimer()
				var all errgroup.Group
				for r := range receivers {
					all.Go(func() error { return deliver(s, strconv.Itoa(r)) })
				}
				must(b, all.Wait())
			}
			b.ReportMetric(float64(b.N*receivers)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// deliver prepares and acknowledges all pending entries of a receiver as one message.
func deliver(s *Store, receiver string) error {
	ctx := context.Background()
	pending, err := s.Pending(ctx, Query{Receiver: receiver, Lane: MainLane, Limit: 10})
	if err != nil {
		return err
	}
	a, err := s.Prepare(ctx, receiver, MainLane, idsOf(pending), pending[0].Key, payload)
	if err != nil {
		return err
	}
	_, err = s.Finish(ctx, a, Outcome{})
	return err
}

func BenchmarkEachCount(b *testing.B) {
	s := open(b, b.TempDir())
	must(b, s.Commit(context.Background(), Change{Events: &EventStep{Counts: counts(100_000)}}))
	for b.Loop() {
		for _, err := range s.EventCounts(context.Background()) {
			must(b, err)
		}
	}
}

// BenchmarkDigest prepares and acknowledges 100,000 entries, in digests of the maximum size.
func BenchmarkDigest(b *testing.B) {
	ctx, s := context.Background(), open(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		from := i*100_000 + 1
		must(b, s.Commit(ctx, Change{Events: &EventStep{Position: uint64(from + 99_999)}, Entries: entries("r", from, 100_000)}))
		b.StartTimer()
		for range 100_000 / MaxEntries {
			pending, err := s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: MaxEntries})
			must(b, err)
			a, err := s.Prepare(ctx, "r", MainLane, idsOf(pending), "digest", nil)
			must(b, err)
			_, err = s.Finish(ctx, a, Outcome{KeepEntries: true})
			must(b, err)
		}
	}
}

// BenchmarkOpen opens an outbox with 100,000 entries of 5,000 receivers and 100,000
// counts.
func BenchmarkOpen(b *testing.B) {
	ctx, dir := context.Background(), b.TempDir()
	s := open(b, dir)
	for r := range 5_000 {
		must(b, s.Commit(ctx, Change{Events: &EventStep{Position: uint64(20*r + 20)}, Entries: entries(fmt.Sprintf("AlarmReceiver/shop/r%d", r), 20*r+1, 20)}))
	}
	must(b, s.Commit(ctx, Change{Events: &EventStep{Position: 100_000, Counts: counts(100_000)}}))
	must(b, s.Close())
	for b.Loop() {
		s, err := Open(ctx, dir)
		must(b, err)
		must(b, s.Close())
	}
}
