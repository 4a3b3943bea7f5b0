package alarms_test

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
	change := func(fields string) string { return "changes: [{" + fields + "}]" + tail }
	group := func(fields string) string { return "match: [{}]\ngroup: {" + fields + "}" + tail }
	mute := func(window string) string { return "match: [{}]\nmute: [{" + window + "}]" + tail }
	for name, tc := range map[string]struct{ spec, want string }{
		"no spec":                       {"", "spec: Required value"},
		"nothing selected":              {"receivers: [{name: ops}]", "spec: Invalid value: the alarm selects nothing: set match, changes or states"},
		"no changes":                    {"changes: []" + tail, "spec.changes: Invalid value: 0: spec.changes in body should have at least 1 items"},
		"too many changes":              {"changes: [" + strings.Repeat("{resource: {resource: pods}},", 17) + "]" + tail, "spec.changes: Too many: 17: must have at most 16 items"},
		"changes and too many states":   {"changes: [" + strings.Repeat("{resource: {resource: pods}},", 9) + "]\nstates: [" + strings.Repeat("{resource: {resource: pods}, expression: 'true'},", 8) + "]" + tail, "changes and states have more than 16 entries together"},
		"a state without an expression": {"states: [{resource: {resource: pods}}]" + tail, "spec.states[0].expression: Required value"},
		"a state of Events":             {"states: [{resource: {resource: events}, expression: 'true'}]" + tail, "use spec.match for Events"},
		"no reason to exclude":          {match("reasons: ['!']"), "spec.match[0].reasons[0]: Invalid value: \"!\": it excludes nothing"},
		"no name to exclude":            {match("names: ['!']"), "spec.match[0].names[0]: Invalid value: \"!\": it excludes nothing"},
		"a glob of reasons to exclude":  {match("reasons: ['!Back*']"), "a reason is no glob"},
		"a state that ends late":        {"states: [{resource: {resource: pods}, expression: 'true', endSeconds: 86401}]" + tail, "spec.states[0].endSeconds: Invalid value: 86401"},
		"a state of a long time":        {"states: [{resource: {resource: pods}, expression: 'true', forSeconds: 86401}]" + tail, "spec.states[0].forSeconds: Invalid value: 86401"},
		"changes of a kind":             {change("resource: {apiGroup: apps, resource: Deployment}"), `spec.changes[0].resource.resource: Invalid value: "Deployment"`},
		"changes of anything":           {change("resource: {apiGroup: apps, resource: '*'}"), `spec.changes[0].resource.resource: Invalid value: "*"`},
		"changes of a subresource":      {change("resource: {apiGroup: apps, resource: deployments/scale}"), "spec.changes[0].resource.resource: Invalid value"},
		"changes of Events":             {change("resource: {apiGroup: events.k8s.io, resource: events}"), "use spec.match for Events"},
		"changes of core Events":        {change("resource: {resource: events}"), "use spec.match for Events"},
		"changes of leases":             {change("resource: {apiGroup: coordination.k8s.io, resource: leases}"), "this resource changes all the time"},
		"changes of EndpointSlices":     {change("resource: {apiGroup: discovery.k8s.io, resource: endpointslices}"), "this resource changes all the time"},
		"an unknown operation":          {change("resource: {resource: pods}, operations: [Patch]"), `spec.changes[0].operations[0]: Unsupported value: "Patch"`},
		"no operation":                  {change("resource: {resource: pods}, operations: []"), "spec.changes[0].operations: Invalid value: 0"},
		"fields without an update":      {change("resource: {resource: pods}, operations: [Create], fields: [spec]"), "fields without the operation Update: only an update changes fields"},
		"too many fields":               {change("resource: {resource: pods}, fields: " + list(17)), "spec.changes[0].fields: Too many: 17: must have at most 16 items"},
		"a long field":                  {change("resource: {resource: pods}, fields: [" + strings.Repeat("a", 257) + "]"), "spec.changes[0].fields[0]: Too long: may not be more than 256 bytes"},
		"readObjects without match":     {"changes: [{resource: {resource: pods}}]\nreadObjects: [{resource: pods}]" + tail, "readObjects without match: only Events are about objects that readObjects names"},
		"no readObjects":                {"match: [{}]\nreadObjects: []" + tail, "spec.readObjects: Invalid value: 0: spec.readObjects in body should have at least 1 items"},
		"too many readObjects":          {"match: [{}]\nreadObjects: [" + strings.Repeat("{resource: pods},", 9) + "]" + tail, "spec.readObjects: Too many: 9: must have at most 8 items"},
		"readObjects of Secrets":        {"match: [{}]\nreadObjects: [{resource: secrets}]" + tail, "spec.readObjects[0]: Invalid value: Secrets are never read for Events: use names or note in spec.match"},
		"readObjects of a kind":         {"match: [{}]\nreadObjects: [{resource: Widget}]" + tail, `spec.readObjects[0].resource: Invalid value: "Widget"`},
		"readObjects of Events":         {"match: [{}]\nreadObjects: [{resource: events}]" + tail, "use spec.match for Events"},
		"an empty match":                {"match: []" + tail, "spec.match: Invalid value: 0: spec.match in body should have at least 1 items"},
		"too many matches":              {"match: [" + strings.Repeat("{},", 17) + "]" + tail, "spec.match: Too many: 17: must have at most 16 items"},
		"a misspelt field":              {match("reason: [BackOff]"), `unknown field "spec.match[0].reason"`},
		"a kind in lower case":          {match("kinds: [pod]"), `spec.match[0].kinds[0]: Invalid value: "pod": spec.match[0].kinds[0] in body should match '^[A-Z][A-Za-z0-9]*$'`},
		"an empty kind":                 {match(`kinds: [""]`), "spec.match[0].kinds[0]: Invalid value"},
		"a long kind":                   {match("kinds: [" + strings.Repeat("A", 64) + "]"), "spec.match[0].kinds[0]: Too long: may not be more than 63 bytes"},
		"a kind twice":                  {match("kinds: [Pod, Pod]"), `spec.match[0].kinds[1]: Duplicate value: "Pod"`},
		"too many kinds":                {match("kinds: " + list(33)), "spec.match[0].kinds: Too many: 33: must have at most 32 items"},
		"an empty reason":               {match(`reasons: [""]`), "spec.match[0].reasons[0]: Invalid value"},
		"a long reason":                 {match("reasons: [" + strings.Repeat("A", 129) + "]"), "spec.match[0].reasons[0]: Too long: may not be more than 128 bytes"},
		"a reason twice":                {match("reasons: [A, A]"), `spec.match[0].reasons[1]: Duplicate value: "A"`},
		"too many reasons":              {match("reasons: " + list(65)), "spec.match[0].reasons: Too many: 65: must have at most 64 items"},
		"an unknown type":               {match("types: [Error]"), `spec.match[0].types[0]: Unsupported value: "Error": supported values: "Normal", "Warning"`},
		"a type twice":                  {match("types: [Normal, Normal]"), `spec.match[0].types[1]: Duplicate value: "Normal"`},
		"an empty name":                 {match(`names: [""]`), "spec.match[0].names[0]: Invalid value"},
		"a long name":                   {match("names: [" + strings.Repeat("a", 254) + "]"), "spec.match[0].names[0]: Too long: may not be more than 253 bytes"},
		"too many names":                {match("names: " + list(33)), "spec.match[0].names: Too many: 33: must have at most 32 items"},
		"an empty note":                 {match(`note: ""`), "spec.match[0].note: Invalid value"},
		"a long note":                   {match("note: " + strings.Repeat("a", 257)), "spec.match[0].note: Too long: may not be more than 256 bytes"},
		"an empty expression":           {match(`expression: ""`), "spec.match[0].expression: Invalid value"},
		"a long expression":             {match("expression: " + strings.Repeat("a", 2049)), "spec.match[0].expression: Too long: may not be more than 2048 bytes"},
		"an empty title":                {"match: [{}]\nmessage: {title: ''}" + tail, "spec.message.title: Invalid value"},
		"a long title":                  {"match: [{}]\nmessage: {title: " + strings.Repeat("a", 1025) + "}" + tail, "spec.message.title: Too long: may not be more than 1024 bytes"},
		"an empty text":                 {"match: [{}]\nmessage: {text: ''}" + tail, "spec.message.text: Invalid value"},
		"a long text":                   {"match: [{}]\nmessage: {text: " + strings.Repeat("a", 4097) + "}" + tail, "spec.message.text: Too long: may not be more than 4096 bytes"},
		"a threshold of one":            {"match: [{}]\nthreshold: {count: 1, withinSeconds: 60}" + tail, "spec.threshold.count: Invalid value: 1: spec.threshold.count in body should be greater than or equal to 2"},
		"a great threshold":             {"match: [{}]\nthreshold: {count: 1001, withinSeconds: 60}" + tail, "spec.threshold.count: Invalid value: 1001"},
		"a threshold at once":           {"match: [{}]\nthreshold: {count: 2, withinSeconds: 0}" + tail, "spec.threshold.withinSeconds: Invalid value: 0"},
		"a threshold for a day":         {"match: [{}]\nthreshold: {count: 2, withinSeconds: 86400}" + tail, "spec.threshold.withinSeconds: Invalid value: 86400: spec.threshold.withinSeconds in body should be less than or equal to 3600"},
		"half a threshold":              {"match: [{}]\nthreshold: {count: 2}" + tail, "spec.threshold.withinSeconds: Required value"},
		"a group by what is not":        {group("by: [object.status.phase]"), `spec.group.by[0]: Invalid value: "object.status.phase": unknown key: group by regarding.kind, regarding.namespace, `},
		"a group by no label":           {group("by: ['object.labels[]']"), "unknown key"},
		"a group by one key twice":      {group("by: [reason, reason]"), `spec.group.by[1]: Duplicate value: "reason"`},
		"a group that waits long":       {group("by: [reason], waitSeconds: 601"), "spec.group.waitSeconds: Invalid value: 601"},
		"a group again at once":         {group("by: [reason], intervalSeconds: 29"), "spec.group.intervalSeconds: Invalid value: 29"},
		"a group once a day":            {group("by: [reason], intervalSeconds: 86400"), "spec.group.intervalSeconds: Invalid value: 86400: spec.group.intervalSeconds in body should be less than or equal to 3600"},
		"a group resolved by nothing":   {"match: [{}]\ngroup: {by: [reason]}\nresolve: {}" + tail, "spec.resolve: Invalid value: no condition: set match, quietSeconds or openSeconds"},
		"no group to resolve":           {"match: [{}]\nresolve: {quietSeconds: 60}" + tail, "spec: Invalid value: resolve without group: set group, because only groups are resolved"},
		"resolved at once":              {"match: [{}]\ngroup: {by: [reason]}\nresolve: {quietSeconds: 29}" + tail, "spec.resolve.quietSeconds: Invalid value: 29"},
		"resolved after hours":          {"match: [{}]\ngroup: {by: [reason]}\nresolve: {quietSeconds: 3601}" + tail, "spec.resolve.quietSeconds: Invalid value: 3601"},
		"resolved by too much":          {"match: [{}]\ngroup: {by: [reason]}\nresolve: {match: [" + strings.Repeat("{},", 17) + "]}" + tail, "spec.resolve.match: Too many: 17: must have at most 16 items"},
		"resolved by a wrong kind":      {"match: [{}]\ngroup: {by: [reason]}\nresolve: {match: [{kinds: [pod]}]}" + tail, "spec.resolve.match[0].kinds[0]: Invalid value"},
		"mute for ever":                 {mute("timeZone: UTC"), "spec.mute[0]: Invalid value: a window without a time: set at least one of times, weekdays, daysOfMonth, months and years"},
		"mute of no zone":               {mute("timeZone: ../etc, months: [{start: 1}]"), `spec.mute[0].timeZone: Invalid value: "../etc"`},
		"mute at no time":               {mute("times: [{start: '25:00', end: '06:00'}]"), `spec.mute[0].times[0].start: Invalid value: "25:00"`},
		"mute from midnight":            {mute("times: [{start: '24:00', end: '06:00'}]"), `spec.mute[0].times[0].start: Invalid value: "24:00"`},
		"mute without an end":           {mute("times: [{start: '22:00'}]"), "spec.mute[0].times[0].end: Required value"},
		"mute for no time":              {mute("times: [{start: '22:00', end: '22:00'}]"), "spec.mute[0].times[0]: Invalid value: start and end are the same: for the whole day, write 00:00 to 24:00"},
		"mute on no day":                {mute("weekdays: [{start: Mon}]"), `spec.mute[0].weekdays[0].start: Unsupported value: "Mon"`},
		"mute on day 0":                 {mute("daysOfMonth: [{start: 0}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: there is no day 0: the first day is 1, the last day is -1"},
		"mute until day 0":              {mute("daysOfMonth: [{start: 1, end: 0}]"), "there is no day 0"},
		"mute on day 32":                {mute("daysOfMonth: [{start: 32}]"), "spec.mute[0].daysOfMonth[0].start: Invalid value: 32"},
		"mute over the month":           {mute("daysOfMonth: [{start: -2, end: 2}]"), "start is negative, but end is not: count both from the end of the month"},
		"mute backwards":                {mute("daysOfMonth: [{start: 5, end: 4}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: end is before start"},
		"mute from the end back":        {mute("daysOfMonth: [{start: -1, end: -2}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: end is before start"},
		"mute on days of no month":      {mute("daysOfMonth: [{start: 31, end: -2}]"), "spec.mute[0].daysOfMonth[0]: Invalid value: end is before start"},
		"mute in month 13":              {mute("months: [{start: 13}]"), "spec.mute[0].months[0].start: Invalid value: 13"},
		"mute in years backwards":       {mute("years: [{start: 2027, end: 2026}]"), "spec.mute[0].years[0]: Invalid value: end is before start"},
		"mute too often":                {"match: [{}]\nmute: [" + strings.Repeat("{months: [{start: 1}]},", 17) + "]" + tail, "spec.mute: Too many: 17: must have at most 16 items"},
		"mute from a time on":           {"match: [{}]\nmuteFrom: 2026-11-23T08:00:00Z" + tail, "spec: Invalid value: muteFrom or muteReason without muteUntil: set muteUntil"},
		"mute for a reason only":        {"match: [{}]\nmuteReason: work" + tail, "spec: Invalid value: muteFrom or muteReason without muteUntil: set muteUntil"},
		"mute until before it begins":   {"match: [{}]\nmuteFrom: 2026-11-23T08:00:00Z\nmuteUntil: 2026-11-23T07:00:00Z" + tail, "spec: Invalid value: muteFrom is after muteUntil: swap them"},
		"mute until no time":            {"match: [{}]\nmuteUntil: tomorrow" + tail, `spec.muteUntil: Invalid value: "tomorrow"`},
		"mute for a long reason":        {"match: [{}]\nmuteUntil: 2026-11-23T08:00:00Z\nmuteReason: " + strings.Repeat("a", 257) + tail, "spec.muteReason: Too long: may not be more than 256 bytes"},
		"too many acknowledgements":     {"match: [{}]\nacknowledgements: [" + acknowledgements(33) + "]" + tail, "spec.acknowledgements: Too many: 33: must have at most 32 items"},
		"acknowledged twice":            {"match: [{}]\nacknowledgements: [" + acknowledgements(1) + acknowledgements(1) + "]" + tail, "spec.acknowledgements[1]: Duplicate value"},
		"acknowledged by no one":        {"match: [{}]\nacknowledgements: [{group: '" + strings.Repeat("0", 32) + "', since: 2026-11-24T12:00:00Z, time: 2026-11-24T12:00:00Z}]" + tail, "spec.acknowledgements[0].by: Required value"},
		"an empty receivers":            {"match: [{}]\nreceivers: []", "spec.receivers: Invalid value: 0: spec.receivers in body should have at least 1 items"},
		"too many receivers":            {"match: [{}]\nreceivers: [" + strings.Repeat("{name: ops},", 17) + "]", "spec.receivers: Too many: 17: must have at most 16 items"},
		"a receiver of no name":         {"match: [{}]\nreceivers: [{}]", "spec.receivers[0].name: Required value"},
		"an empty receiver name":        {"match: [{}]\nreceivers: [{name: ''}]", "spec.receivers[0].name: Invalid value"},
		"a long receiver name":          {"match: [{}]\nreceivers: [{name: " + strings.Repeat("a", 254) + "}]", "spec.receivers[0].name: Too long: may not be more than 253 bytes"},
		"a receiver of no kind":         {"match: [{}]\nreceivers: [{kind: Slack, name: ops}]", `spec.receivers[0].kind: Unsupported value: "Slack"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []struct{ kind, namespace string }{{"Alarm", metav1.NamespaceDefault}, {"ClusterAlarm", ""}} {
				err := strict.Create(t.Context(), cluster.Manifest(t, o.kind, o.namespace, "wrong", tc.spec))
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)), o.kind)
			}
		})
	}
	for name, tc := range map[string]struct{ kind, spec, want string }{
		"no receiver of an Alarm":        {"Alarm", "", "spec.receivers: Required value"},
		"no receiver of a ClusterAlarm":  {"ClusterAlarm", "", "the alarm has no receiver: set receivers or receiversFrom"},
		"an Alarm chooses receivers":     {"Alarm", tail + "\nreceiversFrom: {namespaceLabel: team, default: {name: ops}}", `unknown field "spec.receiversFrom"`},
		"receivers from no label":        {"ClusterAlarm", "\nreceiversFrom: {default: {name: ops}}", "spec.receiversFrom.namespaceLabel: Required value"},
		"receivers from an unusable key": {"ClusterAlarm", "\nreceiversFrom: {namespaceLabel: 'a/b/c', default: {name: ops}}", "spec.receiversFrom.namespaceLabel: Invalid value"},
		"no default receiver":            {"ClusterAlarm", "\nreceiversFrom: {namespaceLabel: team}", "spec.receiversFrom.default: Required value"},
		"a tenant's default receiver":    {"ClusterAlarm", "\nreceiversFrom: {namespaceLabel: team, default: {kind: AlarmReceiver, name: ops}}", "spec.receiversFrom.default.kind: Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := metav1.NamespaceDefault
			if tc.kind == "ClusterAlarm" {
				namespace = ""
			}
			err := strict.Create(t.Context(), cluster.Manifest(t, tc.kind, namespace, "wrong", "match: [{}]"+tc.spec))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	t.Run("a ClusterAlarm sends to the cluster's receivers", func(t *testing.T) {
		err := strict.Create(t.Context(), cluster.Manifest(t, "ClusterAlarm", "", "wrong", "match: [{}]\nreceivers: [{kind: AlarmReceiver, name: ops}]"))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(
			`spec.receivers[0].kind: Unsupported value: "AlarmReceiver": supported values: "ClusterAlarmReceiver"`)))
	})
}

// acknowledgements returns n entries of spec.acknowledgements.
func acknowledgements(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "{group: '%032d', since: 2026-11-24T12:00:00Z, time: 2026-11-24T12:00:00Z, by: ana},", i)
	}
	return all.String()
}
