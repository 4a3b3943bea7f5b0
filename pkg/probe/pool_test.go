package probe_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/pkg/probe"
)

const (
	period  = 10 * time.Second
	timeout = 2 * time.Second
)

// reports collects the reported results by key, as "UID result" in order.
type reports struct {
	mu sync.Mutex
	by map[string][]string
}

func (r *reports) add(_ context.Context, key types.NamespacedName, uid types.UID, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string][]string{}
	}
	r.by[key.Name] = append(r.by[key.Name], fmt.Sprintf("%s %s", uid, result))
}

func (r *reports) of(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[name]
}

// pool is a running pool in a synctest bubble.
type pool struct {
	*probe.Pool[string]
	reports
	stop func() error
}

func startPool(t *testing.T, workers int) *pool {
	t.Helper()
	p := &pool{}
	p.Pool = probe.NewPool(workers, clock.RealClock{}, p.add)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func check(name, uid string, run func(ctx context.Context) string) probe.Check[string] {
	return probe.Check[string]{
		Key:    types.NamespacedName{Namespace: "team", Name: name},
		PodUID: types.UID(uid),
		Period: period, Timeout: timeout,
		Run:     run,
		Overdue: func() string { return "overdue" },
	}
}

func answer(result string) func(context.Context) string {
	return func(context.Context) string { return result }
}

// recorder records the times of its runs.
type recorder struct {
	mu    sync.Mutex
	times []time.Time
}

func (r *recorder) run(context.Context) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, time.Now())
	return "ok"
}

func (r *recorder) gaps() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(r.times); i++ {
		gaps = append(gaps, r.times[i].Sub(r.times[i-1]))
	}
	return gaps
}

// hang returns a run that ignores its context until release is closed.
func hang(release <-chan struct{}) func(context.Context) string {
	return func(context.Context) string {
		<-release
		return "late"
	}
}

func TestChecksRunPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		var r recorder
		p.Put(check("a", "1", r.run))
		time.Sleep(5 * period)
		if diff := cmp.Diff([]time.Duration{period, period, period, period}, r.gaps()); diff != "" {
			t.Error(diff)
		}
		if got := p.of("a"); len(got) != 5 || got[0] != "1 ok" {
			t.Errorf("reported %q", got)
		}
	})
}

func TestFirstRunWaitsForTheInitialDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		c := check("a", "1", answer("ok"))
		c.InitialDelay = time.Hour
		p.Put(c)
		time.Sleep(time.Hour - 1)
		if got := p.of("a"); got != nil {
			t.Errorf("reported %q before the delay was over", got)
		}
		time.Sleep(period)
		if got := p.of("a"); len(got) != 1 {
			t.Errorf("reported %q after the delay", got)
		}
	})
}

func TestPuttingACheckAgainKeepsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		var r recorder
		p.Put(check("a", "1", r.run))
		for range 50 { // much more often than it runs
			time.Sleep(time.Second)
			p.Put(check("a", "1", r.run))
		}
		if diff := cmp.Diff([]time.Duration{period, period, period, period}, r.gaps()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLastPutReplacesTheRunFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		p.Put(check("a", "1", answer("old")))
		time.Sleep(period)
		p.Put(check("a", "1", answer("new")))
		time.Sleep(period)
		if diff := cmp.Diff([]string{"1 old", "1 new"}, p.of("a")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestChangedTimingTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		slow := check("a", "1", answer("ok"))
		slow.Period = time.Hour
		p.Put(slow)
		p.Put(check("a", "1", answer("ok")))
		time.Sleep(3 * period)
		if got := p.of("a"); len(got) != 3 {
			t.Errorf("reported %q, want three", got)
		}
	})
}

func TestResultForAReplacedPodIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		begun := make(chan struct{})
		p.Put(check("a", "old", func(ctx context.Context) string {
			close(begun)
			<-ctx.Done() // it returns a result after its context has ended
			return "of the former"
		}))
		<-begun
		p.Put(check("a", "new", answer("ok")))
		time.Sleep(period)
		if diff := cmp.Diff([]string{"new ok"}, p.of("a")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResultForARemovedPodIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		begun := make(chan struct{}, 1)
		c := check("a", "1", func(ctx context.Context) string {
			begun <- struct{}{}
			<-ctx.Done()
			return "of the former"
		})
		p.Put(c)
		<-begun
		p.Remove(c.Key)
		p.Put(check("a", "1", answer("ok"))) // the same pod, but a new check
		time.Sleep(period)
		if diff := cmp.Diff([]string{"1 ok"}, p.of("a")); diff != "" {
			t.Error(diff)
		}
		p.Remove(c.Key)
		p.Remove(c.Key)
		time.Sleep(5 * period)
		if got := p.of("a"); len(got) != 1 || p.Len() != 0 {
			t.Errorf("reported %q after it was removed; %d checks are left", got, p.Len())
		}
	})
}

func TestRunEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 1)
		p.Put(check("a", "1", func(ctx context.Context) string {
			start := time.Now()
			<-ctx.Done()
			return fmt.Sprintf("%s after %s", ctx.Err(), time.Since(start))
		}))
		time.Sleep(period + timeout)
		if diff := cmp.Diff([]string{"1 context deadline exceeded after 2s"}, p.of("a")[:1]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHungRunDoesNotDelayOtherChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 1) // a single hung run could block it
		release := make(chan struct{})
		defer close(release)
		p.Put(check("hung", "1", hang(release)))
		var other recorder
		p.Put(check("other", "2", other.run))
		time.Sleep(20 * period)
		for _, gap := range other.gaps() {
			if gap < period-timeout-time.Second || gap > period+timeout+time.Second {
				t.Errorf("the other check was run after %s", gap)
			}
		}
		if got := len(other.gaps()); got < 18 {
			t.Errorf("the other check was run %d times in 20 periods", got+1)
		}
	})
}

func TestAtMostOneRunPerPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		release := make(chan struct{})
		var runs atomic.Int32
		run := func(context.Context) string {
			runs.Add(1)
			<-release
			return "late"
		}
		p.Put(check("a", "1", run))
		time.Sleep(3 * period)
		p.Remove(types.NamespacedName{Namespace: "team", Name: "a"})
		p.Put(check("a", "1", run)) // the same pod, with a run in flight
		p.Put(check("b", "1", run))
		time.Sleep(3 * period)
		if runs.Load() != 1 {
			t.Errorf("%d runs were in flight for one pod", runs.Load())
		}
		if got := p.of("a"); len(got) < 4 || got[0] != "1 overdue" || got[len(got)-1] != "1 overdue" {
			t.Errorf("reported %q, want that it is overdue at every period", got)
		}
		close(release)
		time.Sleep(2 * period)
		if got := p.of("a"); got[len(got)-1] != "1 late" || runs.Load() < 2 {
			t.Errorf("reported %q after the run returned", got)
		}
	})
}

func TestLateResultIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		release := make(chan struct{})
		p.Put(check("a", "1", hang(release)))
		for p.of("a") == nil {
			time.Sleep(time.Second)
		}
		p.Put(check("a", "1", answer("ok")))
		close(release)
		time.Sleep(period)
		if diff := cmp.Diff([]string{"1 overdue", "1 ok"}, p.of("a")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestConcurrentRunsAreLimitedToWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 3
		p := startPool(t, workers)
		var mu sync.Mutex
		running, most := 0, 0
		for i := range 50 {
			c := check(fmt.Sprint(i), fmt.Sprint(i), func(context.Context) string {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				return "ok"
			})
			c.Key.Namespace = fmt.Sprint("team", i%5)
			p.Put(c)
		}
		time.Sleep(10 * period)
		mu.Lock()
		defer mu.Unlock()
		if most != workers {
			t.Errorf("%d runs at once, want %d", most, workers)
		}
		for i := range 50 {
			if got := p.of(fmt.Sprint(i)); len(got) < 2 {
				t.Errorf("check %d was run %d times: the pool is too small for all, but must be fair", i, len(got))
			}
		}
	})
}

func TestNamespaceWithHungPodsDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 8)
		var hung sync.Map
		for i := range 100 { // 20 of them would run at any time
			c := check(fmt.Sprint(i), fmt.Sprint(i), func(ctx context.Context) string {
				hung.Store(i, true)
				<-ctx.Done()
				return "hung"
			})
			c.Key.Namespace = "theirs"
			p.Put(c)
		}
		var ours recorder
		p.Put(check("ours", "ours", ours.run))
		time.Sleep(20 * period)
		if gaps := ours.gaps(); len(gaps) < 18 {
			t.Errorf("ours was run %d times in 20 periods", len(gaps)+1)
		}
		for _, gap := range ours.gaps() {
			if gap != period {
				t.Errorf("ours was run after %s", gap)
			}
		}
		for i := range 100 {
			if _, run := hung.Load(i); !run {
				t.Errorf("check %d of theirs was never run: they must be fair to each other", i)
			}
		}
	})
}

func TestChecksAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 100)
		start := time.Now()
		var mu sync.Mutex
		bySecond := map[int]int{}
		for i := range 1000 {
			p.Put(check(fmt.Sprint(i), fmt.Sprint(i), func(context.Context) string {
				mu.Lock()
				defer mu.Unlock()
				bySecond[int(time.Since(start)/time.Second)]++
				return "ok"
			}))
		}
		time.Sleep(period - 1)
		mu.Lock()
		defer mu.Unlock()
		for second := range 10 {
			if got := bySecond[second]; got < 60 || got > 140 {
				t.Errorf("%d of 1000 checks ran in second %d, want about 100", got, second)
			}
		}
	})
}

func TestWaitingChecksNeedNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 8)
		before := runtime.NumGoroutine()
		for i := range 10_000 {
			p.Put(check(fmt.Sprint(i), fmt.Sprint(i), answer("ok")))
		}
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got > 20 {
			t.Errorf("10,000 checks that wait need %d goroutines", got)
		}
		time.Sleep(2 * period)
		for i := range 10_000 {
			if got := p.of(fmt.Sprint(i)); len(got) != 2 {
				t.Fatalf("check %d was run %d times in two periods", i, len(got))
			}
		}
	})
}

func TestStoppedPoolLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		p := startPool(t, 4)
		begun := make(chan struct{})
		p.Put(check("a", "1", func(ctx context.Context) string {
			close(begun)
			<-ctx.Done()
			return "ended"
		}))
		p.Put(check("b", "2", answer("ok")))
		<-begun
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if got := p.of("a"); got != nil {
			t.Errorf("reported %q after it was stopped", got)
		}
		p.Put(check("c", "3", answer("ok"))) // must not block
		p.Remove(types.NamespacedName{Namespace: "team", Name: "b"})
		if err := p.Start(t.Context()); err == nil {
			t.Error("it can be started twice")
		}
	})
}

func TestHungRunDoesNotDelayTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPool(t, 4)
		release := make(chan struct{})
		defer close(release)
		p.Put(check("a", "1", hang(release)))
		time.Sleep(period)
		start := time.Now()
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

func TestReportMayCallPutAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *probe.Pool[string]
		reported := 0
		p = probe.NewPool(1, clock.RealClock{}, func(_ context.Context, key types.NamespacedName, _ types.UID, _ string) {
			if reported++; reported == 3 {
				p.Remove(key)
				return
			}
			p.Put(check("a", "1", answer("ok")))
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Start(ctx) }()
		p.Put(check("a", "1", answer("ok")))
		time.Sleep(10 * period)
		cancel()
		if err := <-ended; err != nil || reported != 3 {
			t.Errorf("%d reports, %v", reported, err)
		}
	})
}

const manyChecks = 10_000

func manyOf(b *testing.B, period time.Duration, ran *atomic.Int64) *probe.Pool[string] {
	b.Helper()
	p := probe.NewPool(64, clock.RealClock{}, func(context.Context, types.NamespacedName, types.UID, string) { ran.Add(1) })
	for i := range manyChecks {
		c := check(fmt.Sprint(i), fmt.Sprint(i), answer("ok"))
		c.Period = period
		p.Put(c)
	}
	return p
}

// BenchmarkPutAgain measures a Put that changes nothing, among 10,000 checks.
func BenchmarkPutAgain(b *testing.B) {
	p := manyOf(b, time.Hour, new(atomic.Int64))
	c := check("4711", "4711", answer("ok"))
	c.Period = time.Hour
	b.ReportAllocs()
	for b.Loop() {
		p.Put(c)
	}
}

// BenchmarkRun measures the overhead of a run, among 10,000 checks.
func BenchmarkRun(b *testing.B) {
	var ran atomic.Int64
	p := manyOf(b, time.Millisecond, &ran) // overloaded, so it never waits
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- p.Start(ctx) }()
	for ran.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
