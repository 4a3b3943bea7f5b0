package alarm_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

const tail = "\nreceivers: [{name: ops}]"

// list is a YAML list of n different strings.
func list(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("A%d", i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func TestTheAPIServerRefusesAWrongAlarmAndNamesTheField(t *testing.T) {
	c := cluster.Shared(t)
	// As kubectl does.
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	match := func(field string) string { return "match: [{" + field + "}]" + tail }
	group := func(fields string) string { return "match: [{}]\ngroup: {" + fields + "}" + tail }
	mute := func(window string) string { return "match: [{}]\nmute: [{" + window + "}]" + tail }
	for name, tc := range map[string]struct{ spec, want string }{
		"no spec":                  {"", "spec: Required value"},
		"no match":                 {"receivers: [{name: ops}]", "spec.match: Required value"},
		"an empty match":           {"match: []" + tail, "spec.match: Invalid value: 0: spec.match in body should have at least 1 items"},
		"too many matches":         {"match: [" + strings.Repeat("{},", 17) + "]" + tail, "spec.match: Too many: 17: must have at most 16 items"},
		"a misspelt field":         {match("reason: [BackOff]"), `unknown field "spec.match[0].reason"`},
		"a kind in lower case":     {match("kinds: [pod]"), `spec.match[0].kinds[0]: Invalid value: "pod": spec.match[0].kinds[0] in body should match '^[A-Z][A-Za-z0-9]*$'`},
		"an empty kind":            {match(`kinds: [""]`), "spec.match[0].kinds[0]: Invalid value"},
		"a long kind":              {match("kinds: [" + strings.Repeat("A", 64) + "]"), "spec.match[0].kinds[0]: Too long: may not be more than 63 bytes"},
		"a kind twice":             {match("kinds: [Pod, Pod]"), `spec.match[0].kinds[1]: Duplicate value: "Pod"`},
		"too many kinds":           {match("kinds: " + list(33)), "spec.match[0].kinds: Too many: 33: must have at most 32 items"},
		"an empty reason":          {match(`reasons: [""]`), "spec.match[0].reasons[0]: Invalid value"},
		"a long reason":            {match("reasons: [" + strings.Repeat("A", 129) + "]"), "spec.match[0].reasons[0]: Too long: may not be more than 128 bytes"},
		"a reason twice":           {match("reasons: [A, A]"), `spec.match[0].reasons[1]: Duplicate value: "A"`},
		"too many reasons":         {match("reasons: " + list(65)), "spec.match[0].reasons: Too many: 65: must have at most 64 items"},
		"an unknown type":          {match("types: [Error]"), `spec.match[0].types[0]: Unsupported value: "Error": supported values: "Normal", "Warning"`},
		"a type twice":             {match("types: [Normal, Normal]"), `spec.match[0].types[1]: Duplicate value: "Normal"`},
		"an empty name":            {match(`names: [""]`), "spec.match[0].names[0]: Invalid value"},
		"a long name":              {match("names: [" + strings.Repeat("a", 254) + "]"), "spec.match[0].names[0]: Too long: may not be more than 253 bytes"},
		"too many names":           {match("names: " + list(33)), "spec.match[0].names: Too many: 33: must have at most 32 items"},
		"an empty note":            {match(`note: ""`), "spec.match[0].note: Invalid value"},
		"a long note":              {match("note: " + strings.Repeat("a", 257)), "spec.match[0].note: Too long: may not be more than 256 bytes"},
		"an empty expression":      {match(`expression: ""`), "spec.match[0].expression: Invalid value"},
		"a long expression":        {match("expression: " + strings.Repeat("a", 2049)), "spec.match[0].expression: Too long: may not be more than 2048 bytes"},
		"an empty title":           {"match: [{}]\nmessage: {title: ''}" + tail, "spec.message.title: Invalid value"},
		"a long title":             {"match: [{}]\nmessage: {title: " + strings.Repeat("a", 1025) + "}" + tail, "spec.message.title: Too long: may not be more than 1024 bytes"},
		"an empty text":            {"match: [{}]\nmessage: {text: ''}" + tail, "spec.message.text: Invalid value"},
		"a long text":              {"match: [{}]\nmessage: {text: " + strings.Repeat("a", 4097) + "}" + tail, "spec.message.text: Too long: may not be more than 4096 bytes"},
		"a threshold of one":       {"match: [{}]\nthreshold: {count: 1, withinSeconds: 60}" + tail, "spec.threshold.count: Invalid value: 1: spec.threshold.count in body should be greater than or equal to 2"},
		"a great threshold":        {"match: [{}]\nthreshold: {count: 1001, withinSeconds: 60}" + tail, "spec.threshold.count: Invalid value: 1001"},
		"a threshold at once":      {"match: [{}]\nthreshold: {count: 2, withinSeconds: 0}" + tail, "spec.threshold.withinSeconds: Invalid value: 0"},
		"a threshold for a day":    {"match: [{}]\nthreshold: {count: 2, withinSeconds: 86400}" + tail, "spec.threshold.withinSeconds: Invalid value: 86400: spec.threshold.withinSeconds in body should be less than or equal to 3600"},
		"half a threshold":         {"match: [{}]\nthreshold: {count: 2}" + tail, "spec.threshold.withinSeconds: Required value"},
		"a group by nothing":       {group("by: []"), "spec.group.by: Invalid value: 0: spec.group.by in body should have at least 1 items"},
		"a group by what is not":   {group("by: [object.status.phase]"), `spec.group.by[0]: Invalid value: "object.status.phase": unknown key: group by regarding.kind, regarding.namespace, `},
		"a group by no label":      {group("by: ['object.labels[]']"), "unknown key"},
		"a group by one key twice": {group("by: [reason, reason]"), `spec.group.by[1]: Duplicate value: "reason"`},
		"a group that waits long":  {group("by: [reason], waitSeconds: 601"), "spec.group.waitSeconds: Invalid value: 601"},
		"a group again at once":    {group("by: [reason], intervalSeconds: 29"), "spec.group.intervalSeconds: Invalid value: 29"},
		"a group once a day":       {group("by: [reason], intervalSeconds: 86400"), "spec.group.intervalSeconds: Invalid value: 86400: spec.group.intervalSeconds in body should be less than or equal to 3600"},
		"mute for ever":            {mute("timeZone: UTC"), "spec.mute[0]: Invalid value: a window without a time: set at least one of times, weekdays, daysOfMonth, months and years"},
		"mute of no zone":          {mute("timeZone: ../etc, months: [{start: 1}]"), `spec.mute[0].timeZone: Invalid value: "../etc"`},
		"mute at no time":          {mute("times: [{start: '25:00', end: '06:00'}]"), `spec.mute[0].times[0].start: Invalid value: "25:00"`},
		"mute from midnight":       {mute("times: [{start: '24:00', end: '06:00'}]"), `spec.mute[0].times[0].start: Invalid value: "24:00"`},
		"mute without an end":      {mute("times: [{start: '22:00'}]"), "spec.mute[0].times[0].end: Required value"},
		"mute for no time":         {mute("times: [{start: '22:00', end: '22:00'}]"), "spec.mute[0].times[0]: Invalid value: start and end are the same: for the whole day, write 00:00 to 24:00"},
		"mute on no day":           {mute("weekdays: [{start: Mon}]"), `spec.mute[0].weekdays[0].start: Unsupported value: "Mon"`},
		"mute on day 0":            {mute("daysOfMonth: [{start: 0}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: there is no day 0: the first day is 1, the last day is -1"},
		"mute until day 0":         {mute("daysOfMonth: [{start: 1, end: 0}]"), "there is no day 0"},
		"mute on day 32":           {mute("daysOfMonth: [{start: 32}]"), "spec.mute[0].daysOfMonth[0].start: Invalid value: 32"},
		"mute over the month":      {mute("daysOfMonth: [{start: -2, end: 2}]"), "start is negative, but end is not: count both from the end of the month"},
		"mute backwards":           {mute("daysOfMonth: [{start: 5, end: 4}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: end is before start"},
		"mute from the end back":   {mute("daysOfMonth: [{start: -1, end: -2}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: end is before start"},
		"mute on days of no month": {mute("daysOfMonth: [{start: 31, end: -2}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: end is before start"},
		"mute in month 13":         {mute("months: [{start: 13}]"), "spec.mute[0].months[0].start: Invalid value: 13"},
		"mute in years backwards":  {mute("years: [{start: 2027, end: 2026}]"), "spec.mute[0].years[0]: Invalid value: end is before start"},
		"mute too often":           {"match: [{}]\nmute: [" + strings.Repeat("{months: [{start: 1}]},", 17) + "]" + tail, "spec.mute: Too many: 17: must have at most 16 items"},
		"no receivers":             {"match: [{}]", "spec.receivers: Required value"},
		"an empty receivers":       {"match: [{}]\nreceivers: []", "spec.receivers: Invalid value: 0: spec.receivers in body should have at least 1 items"},
		"too many receivers":       {"match: [{}]\nreceivers: [" + strings.Repeat("{name: ops},", 17) + "]", "spec.receivers: Too many: 17: must have at most 16 items"},
		"a receiver of no name":    {"match: [{}]\nreceivers: [{}]", "spec.receivers[0].name: Required value"},
		"an empty receiver name":   {"match: [{}]\nreceivers: [{name: ''}]", "spec.receivers[0].name: Invalid value"},
		"a long receiver name":     {"match: [{}]\nreceivers: [{name: " + strings.Repeat("a", 254) + "}]", "spec.receivers[0].name: Too long: may not be more than 253 bytes"},
		"a receiver of no kind":    {"match: [{}]\nreceivers: [{kind: Slack, name: ops}]", `spec.receivers[0].kind: Unsupported value: "Slack"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []struct{ kind, namespace string }{{"Alarm", metav1.NamespaceDefault}, {"ClusterAlarm", ""}} {
				err := strict.Create(t.Context(), cluster.Manifest(t, o.kind, o.namespace, "wrong", tc.spec))
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)), o.kind)
			}
		})
	}
	t.Run("a ClusterAlarm sends to the cluster's receivers", func(t *testing.T) {
		err := strict.Create(t.Context(), cluster.Manifest(t, "ClusterAlarm", "", "wrong", "match: [{}]\nreceivers: [{kind: AlarmReceiver, name: ops}]"))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(
			`spec.receivers[0].kind: Unsupported value: "AlarmReceiver": supported values: "ClusterAlarmReceiver"`)))
	})
}
