package permissions

import "github.com/prometheus/client_golang/prometheus"

var _ prometheus.Collector = (*Checker)(nil)

// description is of a metric without series while all is well. Its labels are bounded
// by what the roles hold.
var description = prometheus.NewDesc(prometheus.BuildFQName("bongsu", "rights", "missing"),
	"Rights that the operator needs and does not have; none if all are there.",
	[]string{"group", "resource", "verb"}, nil)

// Describe implements prometheus.Collector.
func (c *Checker) Describe(out chan<- *prometheus.Desc) { out <- description }

// Collect implements prometheus.Collector.
func (c *Checker) Collect(out chan<- prometheus.Metric) {
	counts := map[[3]string]int{} // one right may be missing for several names
	for _, r := range c.current().missing {
		counts[[...]string{r.Group, r.path(), r.Verb}]++
	}
	for labels, n := range counts {
		out <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}
