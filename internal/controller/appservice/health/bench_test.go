package health_test

import (
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

// BenchmarkAdd is what a check that changes nothing costs: whatever the app's size.
func BenchmarkAdd(b *testing.B) {
	for name, letters := range map[string]string{"passes": "P", "fails": "PFFF"} {
		b.Run(name, func(b *testing.B) {
			r := row(letters)
			o := health.Observation{At: at(1000), Outcome: outcomes[rune(letters[len(letters)-1])], Message: "answered 500 Internal Server Error"}
			b.ReportAllocs()
			for b.Loop() {
				after := r.Add(o, thresholds)
				if health.IsNews(r, after) {
					b.Fatal("news")
				}
				r = after
			}
		})
	}
}

// BenchmarkSummarize is what a look at an app of 1,000 pods costs.
func BenchmarkSummarize(b *testing.B) {
	for name, pods := range map[string][]health.Pod{"all_well": many(1000, 0, 0), "60_unwell": many(940, 30, 30)} {
		b.Run(name, func(b *testing.B) {
			status := written(b, health.Summarize(&v1alpha1.AppServiceStatus{}, pods, time.Time{}, at(100)), pods)
			b.ReportAllocs()
			for b.Loop() {
				health.Summarize(status, pods, at(100), at(110))
			}
		})
	}
}
