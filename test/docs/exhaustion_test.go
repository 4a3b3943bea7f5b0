package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kubernetesFlags are flags of Kubernetes that the section on exhaustion names.
var kubernetesFlags = []string{"--event-ttl"}

// The pages on operations and on the command line are compared with the code by other tests.
func TestFlagsAndMetricsOfTheLimitsExist(t *testing.T) {
	_, section, _ := strings.Cut(read(t, root+"/docs/security.md"), "\n## Exhaustion\n")
	section, _, _ = strings.Cut(section, "\n## ")
	flags := regexp.MustCompile("`(--[a-z-]+)").FindAllStringSubmatch(section, -1)
	metrics := regexp.MustCompile("`(bongsu_[a-z_]+)").FindAllStringSubmatch(section, -1)
	if len(flags) == 0 || len(metrics) == 0 {
		t.Fatalf("%d flags and %d metrics in the section on exhaustion", len(flags), len(metrics))
	}
	commandLine, operations := read(t, root+"/docs/reference/cli.md"), read(t, root+"/docs/operations.md")
	for _, m := range flags {
		if flag := m[1]; !slices.Contains(kubernetesFlags, flag) && !strings.Contains(commandLine, "\n      "+flag+" ") {
			t.Errorf("docs/security.md: there is no flag %s", flag)
		}
	}
	for _, m := range metrics {
		if metric := m[1]; !strings.Contains(operations, "\n| `"+metric+"` |") {
			t.Errorf("docs/security.md: there is no metric %s", metric)
		}
	}
}

// A dash means that a limit has no flag or no metric, so no cell is empty. Each limit has a test.
func TestEachLimitNamesItsDefaultFlagAndMetric(t *testing.T) {
	_, section, _ := strings.Cut(read(t, root+"/docs/security.md"), "\n## Exhaustion\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tables := 0
	for text := range strings.SplitSeq(section, "\n\n") {
		if !strings.HasPrefix(text, "| ") {
			continue
		}
		tables++
		rows := strings.Split(strings.TrimSpace(text), "\n")
		columns := cells(rows[0])
		for _, name := range []string{"default", "flag", "metric", "proof"} {
			if !slices.Contains(columns, name) {
				t.Errorf("docs/security.md: a table has no column %s: %s", name, rows[0])
			}
		}
		for _, row := range rows[2:] {
			if got := cells(row); len(got) != len(columns) || slices.Contains(got, "") {
				t.Errorf("docs/security.md: a row has an empty cell, or not %d of them: %s", len(columns), row)
			}
		}
	}
	if tables < 6 {
		t.Errorf("docs/security.md: %d tables in the section on exhaustion", tables)
	}
}

// cells returns the cells of a row of a table.
func cells(row string) []string {
	var all []string
	for cell := range strings.SplitSeq(strings.Trim(row, "|"), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}
