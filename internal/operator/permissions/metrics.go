package permissions

import "github.com/prometheus/client_golang/prometheus"

var _ prometheus.Collector = (*Checker)(nil)

// description is that of a metric without series if all permissions are granted. The roles
// limit the values of its labels.
var description = prometheus.NewDesc(prometheus.BuildFQName("bongsu", "rights", "missing"),
	"Permissions that the operator lacks. No series means that none is missing.",
	[]string{"group", "resource", "verb"}, nil)

// Describe implements prometheus.Collector.
func (c *Checker) Describe(out chan<- *prometheus.Desc) { out <- description }

// Collect implements prometheus.Collector.
func (c *Checker) Collect(out chan<- prometheus.Metric) {
	counts := map[[3]string]int{} // a permission can be missing for several names
	for _, r := range c.current().missing {
		counts[[...]string{r.Group, r.path(), r.Verb}]++
	}
	for labels, n := range counts {
		out <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}
