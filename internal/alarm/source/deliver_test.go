package source

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

var errFull = errors.New("disk full")

func TestARefusedBatchIsOfferedAgainUnchanged(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays, added(event(1, 21, 1)), added(event(2, 22, 1))))
	clk := clocktesting.NewFakeClock(eventstream.Epoch)
	var lines atomic.Int32
	source, err := New(cfg, clk, funcr.New(func(string, string) { lines.Add(1) }, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	m, offered := newMemory(), make(chan Batch, 10)
	run(t, source, Start{Position: 20, CountsKnown: true}, func(ctx context.Context, b Batch) error {
		offered <- b
		if len(offered) < 3 {
			return errFull
		}
		return m.commit(ctx, b)
	})
	for range 2 {
		eventually(t, clk.HasWaiters).Should(gomega.BeTrue())
		if got := source.Healthy(); !errors.Is(got, errFull) || !source.State().HandlerFailing {
			t.Errorf("Healthy() = %v amid the failure, want %v", got, errFull)
		}
		clk.Step(30 * time.Second)
	}
	eventually(t, m.increases).Should(gomega.Equal(map[string]int64{nameOf(1): 1, nameOf(2): 1}))
	first := <-offered
	for range 2 {
		if diff := cmp.Diff(first, <-offered); diff != "" {
			t.Errorf("another batch was offered: %s", diff)
		}
	}
	eventually(t, source.Healthy).Should(gomega.Succeed())
	eventually(t, lines.Load).Should(gomega.Equal(int32(2))) // the failure and the recovery
}

// A disk that hangs returns no error. A slow commit, or Events that are old, are no problem.
func TestASourceIsStuckIfABatchIsNotCommittedForAMinute(t *testing.T) {
	for name, tc := range map[string]struct {
		commit func(ctx context.Context) error
		want   error
	}{
		"the commit hangs": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, ErrStuck},
		"the commit fails": {func(context.Context) error { return errFull }, errFull},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &Source{clock: clock.RealClock{}, log: logr.Discard(), backoff: apiwatch.Backoff, lag: newLag()}
				source.update(func(s *State) { s.ConnectedSince = source.clock.Now() })
				changes, release := make(chan change, 1), make(chan struct{})
				changes <- change{position: 1, since: source.clock.Now().Add(-time.Hour)}
				close(changes)
				var delivered sync.WaitGroup
				delivered.Go(func() {
					source.deliver(t.Context(), changes, func(ctx context.Context, _ Batch) error {
						select {
						case <-release:
							return nil
						default:
						}
						ctx, stop := context.WithTimeout(ctx, Patience+time.Second)
						defer stop()
						return tc.commit(ctx)
					})
				})
				<-source.clock.After(Patience - 1)
				if got := source.Healthy(); source.Stuck() || errors.Is(got, ErrStuck) {
					t.Errorf("stuck after less than %v: %v", Patience, got)
				}
				<-source.clock.After(1)
				if got := source.Healthy(); !source.Stuck() || !errors.Is(got, tc.want) {
					t.Errorf("stuck = %t, Healthy() = %v, want %v", source.Stuck(), got, tc.want)
				}
				close(release)
				delivered.Wait()
				if got := source.Healthy(); source.Stuck() || got != nil {
					t.Errorf("stuck = %t, Healthy() = %v after the commit", source.Stuck(), got)
				}
			})
		})
	}
}

func TestRetryWaitsAsLongAsTheAPIServerAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		asks int
		want time.Duration
	}{
		"seconds": {7, 7 * time.Second},
		"years":   {1 << 30, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			script, cfg := serve(t, 20, fails(apierrors.NewTooManyRequests("slow down", tc.asks)), stays)
			clk := clocktesting.NewFakeClock(eventstream.Epoch)
			source, err := New(cfg, clk, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			run(t, source, Start{Position: 20, CountsKnown: true}, newMemory().commit)
			eventually(t, clk.HasWaiters).Should(gomega.BeTrue())
			clk.Step(tc.want - 1)
			if !clk.HasWaiters() {
				t.Fatalf("it waits less than %v", tc.want)
			}
			clk.Step(1)
			eventually(t, script.asked).Should(gomega.HaveLen(2))
		})
	}
}

func TestASlowHandlerPausesTheWatch(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays, eventstream.Added(5*maxChanges)))
	release, first := make(chan struct{}), make(chan int64, 1)
	m, source := newMemory(), quick(t, cfg)
	stop := run(t, source, Start{Position: 20, CountsKnown: true}, func(ctx context.Context, b Batch) error {
		select {
		case first <- int64(len(b.Counts)):
		default:
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return m.commit(ctx, b)
	})
	// The batch of the handler, the full channel, and the change that waits for space.
	held := <-first + maxChanges + 1
	eventually(t, func() int64 { return source.State().Events }).Should(gomega.Equal(held))
	close(release)
	eventually(t, func() int64 { return source.State().Occurrences }).Should(gomega.Equal(int64(5 * maxChanges)))
	stop()
	for _, b := range m.batches {
		if len(b.Occurrences) > maxOccurrences {
			t.Errorf("%d occurrences in a batch", len(b.Occurrences))
		}
	}
}

func TestABatchKeepsTheLastCountOfEachLiveEvent(t *testing.T) {
	in := make(chan change, 10)
	in <- change{position: 1, count: alarm.EventCount{UID: "a", Count: 1}, occurrence: &alarm.Occurrence{Position: 1}}
	in <- change{position: 2, count: alarm.EventCount{UID: "b", Count: 1}}
	in <- change{position: 3, count: alarm.EventCount{UID: "a", Count: 2}}
	in <- change{position: 4, count: alarm.EventCount{UID: "c", Count: 1}}
	in <- change{position: 5, forget: "b"}
	in <- change{position: 6, count: alarm.EventCount{UID: "c", Count: 5}}
	in <- change{position: 7, time: second(7)}
	got, ok := (&batcher{in: in}).next(t.Context())
	want := Batch{
		Position: 7, Time: second(7),
		Occurrences: []alarm.Occurrence{{Position: 1}},
		Counts:      []alarm.EventCount{{UID: "a", Count: 2}, {UID: "c", Count: 5}},
		Forget:      []string{"b"},
	}
	if diff := cmp.Diff(want, got.batch); diff != "" || !ok {
		t.Error(diff)
	}
}

func TestABatchIsLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		change change
		want   int
	}{
		"occurrences": {change{occurrence: &alarm.Occurrence{}}, maxOccurrences},
		"changes":     {change{forget: "a"}, maxChanges},
	} {
		t.Run(name, func(t *testing.T) {
			in := make(chan change, 2*maxChanges)
			for range cap(in) {
				in <- tc.change
			}
			(&batcher{in: in}).next(t.Context())
			if got := cap(in) - len(in); got != tc.want {
				t.Errorf("%d changes in a batch, want %d", got, tc.want)
			}
		})
	}
}

// A reset lowers the positions that were committed before. It must not apply to Events of
// the new history, nor leave out those of the former one.
func TestAResetBeginsABatch(t *testing.T) {
	in := make(chan change, 10)
	in <- change{position: 500, occurrence: &alarm.Occurrence{Position: 500}}
	in <- change{position: alarm.ResetPosition, reset: &Reset{Reason: "restored"}}
	in <- change{position: alarm.ResetPosition, occurrence: &alarm.Occurrence{Position: 3}}
	close(in)
	var got []Batch
	for batches := (&batcher{in: in}); ; {
		g, ok := batches.next(t.Context())
		if !ok {
			break
		}
		got = append(got, g.batch)
	}
	want := []Batch{
		{Position: 500, Occurrences: []alarm.Occurrence{{Position: 500}}},
		{Position: alarm.ResetPosition, Reset: &Reset{Reason: "restored"}, Occurrences: []alarm.Occurrence{{Position: 3}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsShowTheState(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays, added(event(1, 21, 3))))
	source := quick(t, cfg)
	run(t, source, Start{Position: 20, CountsKnown: true}, newMemory().commit)
	eventually(t, func() uint64 { return source.State().Position }).Should(gomega.Equal(uint64(21)))
	got := numbers(t, source)
	for name, want := range map[string]float64{
		"position": 21, "occurrences_total": 3, "live": 1, "connects_total": 1, "commit_failing": 0, "behind_seconds": 0, "lag_seconds": 1,
	} {
		if got, ok := got["bongsu_events_"+name]; got != want || !ok {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// numbers returns the metrics of a source. The number of a histogram is its sample count.
func numbers(t *testing.T, source *Source) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(source)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return got
}

// An alert must see it while nothing can be committed.
func TestBehindGrowsUntilTheOldestChangeIsCommitted(t *testing.T) {
	_, cfg := serve(t, 20, brings(stays, added(event(30, 21, 1)), added(event(0, 22, 1))))
	clk := clocktesting.NewFakeClock(eventstream.Epoch.Add(time.Minute))
	source, err := New(cfg, clk, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	var full atomic.Bool
	full.Store(true)
	m := newMemory()
	run(t, source, Start{Position: 20, CountsKnown: true}, func(ctx context.Context, b Batch) error {
		if full.Load() {
			return errFull
		}
		return m.commit(ctx, b)
	})
	eventually(t, clk.HasWaiters).Should(gomega.BeTrue())
	before := source.State().Behind
	if before != time.Minute && before != 30*time.Second { // the batch contains one of them or both
		t.Errorf("behind by %v", before)
	}
	clk.Step(30 * time.Second) // the back-off is over
	eventually(t, clk.HasWaiters).Should(gomega.BeTrue())
	if got := source.State().Behind; got != before+30*time.Second {
		t.Errorf("behind by %v, want 30 s more than %v", got, before)
	}
	full.Store(false)
	clk.Step(30 * time.Second)
	eventually(t, m.at).Should(gomega.Equal(uint64(22)))
	eventually(t, func() time.Duration { return source.State().Behind }).Should(gomega.BeZero())
	if got := numbers(t, source)["bongsu_events_lag_seconds"]; got != 2 {
		t.Errorf("the lag histogram has %v samples, want 2", got)
	}
}
