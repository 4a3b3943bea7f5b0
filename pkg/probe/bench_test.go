package probe_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/pkg/probe"
)

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

// BenchmarkPutAgain is what a reconcile that changes nothing costs among 10,000
// checks.
func BenchmarkPutAgain(b *testing.B) {
	p := manyOf(b, time.Hour, new(atomic.Int64))
	c := check("4711", "4711", answer("ok"))
	c.Period = time.Hour
	b.ReportAllocs()
	for b.Loop() {
		p.Put(c)
	}
}

// BenchmarkRun is what the pool adds to a run of one of 10,000 checks.
func BenchmarkRun(b *testing.B) {
	var ran atomic.Int64
	p := manyOf(b, time.Millisecond, &ran) // more than it can do: it never waits
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
