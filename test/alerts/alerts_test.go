package alerts

import (
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	file = "../../config/monitoring/alerts.yaml"
	page = "../../docs/operations.md"
	// most is the limit for the number of rules. More would be ignored.
	most = 12
)

// rules returns the alert rules by name.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(file, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, err := range errs {
		t.Fatal(err)
	}
	all := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = rule
		}
	}
	if len(all) == 0 || len(all) > most {
		t.Fatalf("got %d alerts, want 1 to %d", len(all), most)
	}
	return all
}

// states are series with one sample per minute. At their end, the alert must fire for those
// in fires, and not for those in quiet.
var states = map[string]struct{ fires, quiet []string }{
	"BongsuNoLeader": {
		fires: []string{``, `leader_election_master_status{name="bongsu",pod="a"} 1 0x30`, `leader_election_master_status{name="other"} 1x30`},
		quiet: []string{"leader_election_master_status{name=\"bongsu\",pod=\"a\"} 0x30\nleader_election_master_status{name=\"bongsu\",pod=\"b\"} 1x30"},
	},
	"BongsuLacksPermissions": {
		fires: []string{`bongsu_permissions_missing{namespace="n",group="",resource="pods",verb="list"} 1x30`},
		quiet: []string{``, `bongsu_permissions_missing{namespace="n",group="",resource="pods",verb="list"} _x27 1x2`},
	},
	"BongsuEventsNotRead": {
		fires: []string{`bongsu_events_connected_since_timestamp_seconds{namespace="n"} 0x30`},
		quiet: []string{
			"bongsu_events_connected_since_timestamp_seconds{namespace=\"n\",pod=\"a\"} 0x30\nbongsu_events_connected_since_timestamp_seconds{namespace=\"n\",pod=\"b\"} 1700000000x30",
			`bongsu_events_connected_since_timestamp_seconds{namespace="n"} 1700000000x28 0x1`,
		},
	},
	"BongsuCannotCommitEvents": {
		fires: []string{`bongsu_events_commit_failing{namespace="n"} 1x30`},
		quiet: []string{`bongsu_events_commit_failing{namespace="n"} 0x30`},
	},
	"BongsuReceiverFails": {
		fires: []string{`bongsu_receivers_failing{namespace="n"} 0x20 1x9`},
		quiet: []string{`bongsu_receivers_failing{namespace="n"} 0x30`, `bongsu_receivers_failing{namespace="n"} 0x27 1x2`},
	},
	"BongsuMessagesWait": {
		fires: []string{`bongsu_outbox_messages{namespace="n"} 1001x30`},
		quiet: []string{`bongsu_outbox_messages{namespace="n"} 1000x30`, `bongsu_outbox_messages{namespace="n"} 0x20 5000x9`},
	},
	"BongsuEventsBehind": {
		fires: []string{`bongsu_events_behind_seconds{namespace="n"} 0+60x30`},
		quiet: []string{
			`bongsu_events_behind_seconds{namespace="n"} 60x30`,
			`bongsu_events_behind_seconds{namespace="n"} 0x27 300x2`, // it recovers
		},
	},
	"BongsuMessagesDropped": {
		fires: []string{
			`bongsu_occurrences_dropped_total{namespace="n",cause="rejected"} 5x25 6x4`,
			`bongsu_occurrences_dropped_total{namespace="n",cause="rejected"} _x25 1x4`, // the first value of the series
		},
		quiet: []string{``, `bongsu_occurrences_dropped_total{namespace="n",cause="rejected"} 5x30`},
	},
	"BongsuEventPositionReset": {
		fires: []string{`bongsu_events_resets_total{namespace="n"} 0x10 1x20`},
		quiet: []string{`bongsu_events_resets_total{namespace="n"} 1x30`},
	},
	"BongsuAlarmsOverBudget": {
		fires: []string{`bongsu_alarms_over_budget_total{namespace="n"} 0+1x30`},
		quiet: []string{`bongsu_alarms_over_budget_total{namespace="n"} 7x30`, `bongsu_alarms_over_budget_total{namespace="n"} 0x5 1x25`},
	},
	"BongsuSecretCopiesFail": {
		fires: []string{`bongsu_secretshare_failing{namespace="n"} 1x30`},
		quiet: []string{`bongsu_secretshare_failing{namespace="n"} 0x30`},
	},
	"BongsuRestartsManyPods": {
		fires: []string{`bongsu_appservice_restarts_total{namespace="n"} 0+1x30`},
		quiet: []string{`bongsu_appservice_restarts_total{namespace="n"} 0x20 1x10`},
	},
}

func TestEachAlertFiresOnlyInTheStatesThatItIsFor(t *testing.T) {
	for name, rule := range rules(t) {
		state, known := states[name]
		if !known || len(state.fires) == 0 || len(state.quiet) == 0 {
			t.Errorf("%s has no series in states: add some for fires and quiet", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, series := range state.fires {
				if !fires(t, rule, series) {
					t.Errorf("got no alert, want one, for\n%s", series)
				}
			}
			for _, series := range state.quiet {
				if fires(t, rule, series) {
					t.Errorf("got an alert, want none, for\n%s", series)
				}
			}
		})
	}
}

// fires reports whether the alert fires half an hour after the first sample. Its expression
// must then have been true for the time in `for`.
func fires(t *testing.T, rule rulefmt.Rule, series string) bool {
	t.Helper()
	load := "load 1m\n"
	for line := range strings.Lines(series) {
		load += "  " + strings.TrimSpace(line) + "\n"
	}
	storage := promqltest.LoadedStorage(t, load)
	defer func() { _ = storage.Close() }()
	engine := promqltest.NewTestEngine(t, false, 0, 10_000)
	end := time.Unix(0, 0).Add(29 * time.Minute)
	for at := end.Add(-time.Duration(rule.For)); !at.After(end); at = at.Add(time.Minute) {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, at)
		if err != nil {
			t.Fatal(err)
		}
		result := query.Exec(t.Context())
		vector, ok := result.Value.(promql.Vector)
		if result.Err != nil || !ok {
			t.Fatalf("%v: %v", result.Value, result.Err)
		}
		held := len(vector) > 0
		query.Close()
		if !held {
			return false
		}
	}
	return true
}

// exported are metrics of libraries, with the library.
var exported = map[string]string{"leader_election_master_status": "controller-runtime"}

func TestEachAlertUsesDocumentedMetricsAndHasARunbook(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	metric := regexp.MustCompile(`\b(bongsu_[a-z_]+|leader_election_[a-z_]+)\b`)
	for name, rule := range rules(t) {
		metrics := metric.FindAllString(rule.Expr, -1)
		if len(metrics) == 0 {
			t.Errorf("the expression of %s contains no metric", name)
		}
		for _, m := range metrics {
			if exported[m] == "" && !strings.Contains(text, "\n| `"+m+"` |") {
				t.Errorf("%s: %s is not in the table of %s", name, m, page)
			}
		}
		if want := "docs/operations.md#" + strings.ToLower(name); rule.Annotations["runbook"] != want {
			t.Errorf("%s: runbook %q, want %q", name, rule.Annotations["runbook"], want)
		}
		if !strings.Contains(text, "\n### "+name+"\n\n") {
			t.Errorf("%s has no section in %s", name, page)
		}
		if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s lacks a summary or a severity", name)
		}
	}
}
