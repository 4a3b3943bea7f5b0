package pipeline

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// benchEvents are of 100 namespaces; ten alarms match 2 % of them, whatever the
// number of the other alarms.
const benchEvents = 20_000

// BenchmarkFeedAndMatch measures the way from the wire to the verdict, beside the
// bare decoding of the same stream (alarms=decode) in the same run. What it holds
// the code to, at 2 cores: at 1,000 alarms at least 0.5 of the rate of decoding; at
// 10,000 alarms at least 0.7 of the rate at 10.
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
	demand(b, "1,000 alarms beside decoding", rates[1_000], decode, 0.5)
	demand(b, "10,000 alarms beside 10", rates[10_000], rates[10], 0.7)
}

// demand fails unless a rate is at least so much of another; of what was not run,
// by the choice of -bench, nothing is demanded.
func demand(b *testing.B, what string, rate, of, atLeast float64) {
	b.Helper()
	if rate > 0 && of > 0 && rate < atLeast*of {
		b.Errorf("%s: %.2f of the rate, the limit is %.2f", what, rate/of, atLeast)
	}
}

func benchDecode(b *testing.B, cfg *rest.Config) float64 {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
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
	feed, err := source.New(cfg, clock.RealClock{}, logr.Discard())
	must(b, err)
	m := matcher{alarms: benchAlarms(b, alarms), enricher: silent{}, budget: newBudget(clock.RealClock{})}
	matched := 0
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		seen := 0
		start := source.Start{Position: eventstream.First - 1, CountsKnown: true}
		_ = feed.Run(ctx, start, func(ctx context.Context, batch source.Batch) error {
			verdicts, _, err := m.match(ctx, batch.Occurrences, outbox.Floors{})
			for _, v := range verdicts {
				matched += len(v)
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

// benchAlarms are ten that match and others that do not, ten to a namespace, as
// developers write them.
func benchAlarms(b *testing.B, n int) *Alarms {
	b.Helper()
	compiler, err := match.NewCompiler()
	must(b, err)
	alarms := NewAlarms()
	for i := range n {
		id := alarm.ID{Kind: alarm.KindAlarm, Namespace: fmt.Sprint("team-", i%1000), Name: fmt.Sprint("alarm-", i)}
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
