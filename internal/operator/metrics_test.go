package operator_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

var (
	described  = regexp.MustCompile(`fqName: "(bongsu_[^"]+)"`)
	documented = regexp.MustCompile("(?m)^\\| `(bongsu_[^`]+)` \\|")
)

func TestEveryMetricIsDocumented(t *testing.T) {
	o := cluster.Shared(t).StartOperator(t)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		o.Metrics.Describe(descriptions)
	}()
	var want []string
	for d := range descriptions {
		if name := described.FindStringSubmatch(d.String()); name != nil {
			want = append(want, name[1])
		}
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range documented.FindAllSubmatch(page, -1) {
		got = append(got, string(name[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-) and docs/operations.md (+):\n%s", diff)
	}
}
