package trial

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// podsNamedWeb says that every object is a pod with the label app: web.
type podsNamedWeb struct{ reads int }

func (p *podsNamedWeb) Context(context.Context, *alarm.Event) alarm.Context {
	p.reads++
	return alarm.Context{Resolved: true, Object: alarm.Object{Metadata: alarm.ObjectMeta{Labels: map[string]string{"app": "web"}}}}
}

func (*podsNamedWeb) Named(context.Context, *alarm.Event, []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	return alarm.Context{}, alarm.Resource{}, false
}

// A limit that is silent makes a user believe that nothing else came close.
func TestALimitOfNearMissesIsReported(t *testing.T) {
	const narrow = ": to compare others, choose a shorter time with --from and --until"
	reasons := func(i int) alarm.Event { return alarm.Event{Reason: fmt.Sprint("Reason", i)} }
	for name, tc := range map[string]struct {
		match        string
		events       int
		event        func(i int) alarm.Event
		misses, read int
		notes        []string
		says         string
	}{
		"as many objects as are read": {"{objectSelector: {matchLabels: {app: db}}}", 200, reasons, 1, 200, nil, "    200 Events differ only in spec.match[0].objectSelector: app=web\n"},
		"more objects": {
			"{objectSelector: {matchLabels: {app: db}}}, {objectSelector: {matchLabels: {app: cache}}}", 250, reasons, 1, 200,
			[]string{"only the newest 200 Events that need their object are compared, not the 50 older ones" + narrow},
			"    note: only the newest 200 Events that need their object are compared, not the 50 older ones" + narrow + "\n",
		},
		"as many kinds as are reported": {"{reasons: [BackOff]}", 20, reasons, 20, 0, nil, "    and 15 more kinds of near misses, see -o json\n"},
		"more kinds": {
			"{reasons: [BackOff]}", 21, reasons, 20, 0, []string{"only the first 20 kinds of near misses are reported, not 1 others"},
			"    note: only the first 20 kinds of near misses are reported, not 1 others\n",
		},
		"more kinds than are counted": {
			"{reasons: [BackOff]}", 1001, reasons, 20, 0,
			[]string{
				"only 1000 kinds of near misses are counted, not those of 1 older Event" + narrow,
				"only the first 20 kinds of near misses are reported, not 980 others",
			},
			"    note: only 1000 kinds of near misses are counted, not those of 1 older Event",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Read(strings.NewReader(header + "spec: {match: [" + tc.match + "], receivers: [{name: ops}]}\n"))
			if err != nil {
				t.Fatal(err)
			}
			alarms, err := Compile(file.Alarms)
			if err != nil {
				t.Fatal(err)
			}
			var occurrences []alarm.Occurrence
			for i := range tc.events {
				event := tc.event(i)
				event.Namespace, event.Regarding = "shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}
				occurrences = append(occurrences, alarm.Occurrence{Event: event, ObservedAt: time.Unix(int64(i), 0)})
			}
			pods := &podsNamedWeb{}
			var report AlarmReport
			(&test{reader: newClusterReader(nil), enricher: pods}).addNearMisses(t.Context(), alarms[0], occurrences, &report)
			if len(report.NearMisses) != tc.misses || pods.reads != tc.read {
				t.Errorf("%d near misses and %d reads, want %d and %d", len(report.NearMisses), pods.reads, tc.misses, tc.read)
			}
			if diff := cmp.Diff(tc.notes, report.NearMissNotes); diff != "" {
				t.Error(diff)
			}
			var text strings.Builder
			if err := WriteText(&text, &Report{Alarms: []AlarmReport{report}}); err != nil || !strings.Contains(text.String(), tc.says) {
				t.Errorf("want %q in:\n%s%v", tc.says, text.String(), err)
			}
		})
	}
}
