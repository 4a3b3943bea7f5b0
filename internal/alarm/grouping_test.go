package alarm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// groupedBy is an alarm whose groups have keys in common.
func groupedBy(keys ...string) Definition {
	def := clusterAlarm(v1alpha1.EventMatch{})
	def.Spec.Group = &v1alpha1.AlarmGroup{By: keys}
	return def
}

func TestOccurrencesOfAGroupHaveItsKeysInCommon(t *testing.T) {
	grouping := mustCompile(t, groupedBy("regarding.kind", "regarding.namespace", "regarding.name", "reason", "type",
		"reportingController", "object.labels[app.kubernetes.io/name]", "object.annotations[team]", "object.labels[none]")).Grouping()
	object := &Object{Metadata: ObjectMeta{
		Labels: map[string]string{"app.kubernetes.io/name": "web"}, Annotations: map[string]string{"team": "a\nb"},
	}}
	var got []string
	for _, v := range grouping.Values(&podOccurrence().Event, object) {
		got = append(got, v.Key+"="+v.Value)
	}
	want := []string{
		"regarding.kind=Pod", "regarding.namespace=shop", "regarding.name=web-0", "reason=BackOff", "type=Warning",
		"reportingController=kubelet", "object.labels[app.kubernetes.io/name]=web", "object.annotations[team]=a b", "object.labels[none]=",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAGroupByWhatThereIsNotIsRefused(t *testing.T) {
	for _, key := range []string{"", "object.labels", "object.labels[]", "object.labels[a", "regarding.uid", "object.status[a]"} {
		_, err := compile(t, groupedBy("reason", key))
		var failure *CompileError
		if !errors.As(err, &failure) || failure.Reason != v1alpha1.ReasonInvalidGroup || failure.Field != "spec.group.by[1]" {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

func TestAGroupWaitsAndComesAgainAsItSays(t *testing.T) {
	def := groupedBy("reason")
	if a := mustCompile(t, def); a.Grouping().Wait != 5*time.Second || a.Grouping().Interval != 5*time.Minute || a.Window() != 305*time.Second {
		t.Errorf("by default: %+v, looking back %s", a.Grouping(), a.Window())
	}
	def.Spec.Group.WaitSeconds, def.Spec.Group.IntervalSeconds = new(int32(0)), new(int32(60))
	def.Spec.Threshold = &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 600}
	if a := mustCompile(t, def); a.Grouping().Wait != 0 || a.Grouping().Interval != time.Minute || a.Window() != 10*time.Minute {
		t.Errorf("as it says: %+v, looking back %s", a.Grouping(), a.Window())
	}
}

// What is over can be told only of a group that is about one object.
func TestWhatResolvesAGroup(t *testing.T) {
	node := func(e *Event) { e.Regarding = Reference{Kind: "Node", Name: "node-0"} }
	recovered := func(e *Event) { e.Reason = v1alpha1.ReasonRecovered }
	ready := func(e *Event) { e.Reason = "NodeReady" }
	for name, tc := range map[string]struct {
		by     string
		change []func(*Event)
		want   bool
	}{
		"a node is ready again":          {"regarding.kind regarding.name", []func(*Event){node, ready}, true},
		"a node is not":                  {"regarding.kind regarding.name", []func(*Event){node}, false},
		"some node is ready again":       {"regarding.kind", []func(*Event){node, ready}, false},
		"something is ready again":       {"regarding.name", []func(*Event){node, ready}, false},
		"a pod says it of a node":        {"regarding.kind regarding.namespace regarding.name", []func(*Event){ready}, false},
		"an object has recovered":        {"regarding.kind regarding.namespace regarding.name", []func(*Event){recovered}, true},
		"one of some namespace has":      {"regarding.kind regarding.name", []func(*Event){recovered}, false},
		"one of those of a label has":    {"object.labels[app]", []func(*Event){recovered}, false},
		"more than the object in common": {"reason regarding.kind regarding.namespace regarding.name", []func(*Event){recovered}, true},
	} {
		t.Run(name, func(t *testing.T) {
			occ := podOccurrence()
			for _, change := range tc.change {
				change(&occ.Event)
			}
			if got := mustCompile(t, groupedBy(strings.Fields(tc.by)...)).Grouping().Resolves(&occ.Event); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestAMessageOfAGroupSaysWhatIsNewAndHowMuchThereWas(t *testing.T) {
	again := messageOf("crash", "BackOff", "Pod", "web-0", 2, lastSeen)
	again.Title, again.Text, again.Events[0].Note = "web-0 again", "it restarts\nand restarts", "with another note"
	one := messageOf("crash", "BackOff", "Pod", "web-0", 1, lastSeen)
	other := messageOf("crash", "Failed", "Pod", "web-1", 1, lastSeen)
	by := []GroupValue{{Key: "reason", Value: "BackOff"}}
	for name, tc := range map[string]struct {
		group       MessageGroup
		parts       []Message
		count       int64
		title, text string
	}{
		"the first alone":       {MessageGroup{By: by, Total: 1}, []Message{one}, 1, "BackOff", "text"},
		"the same again":        {MessageGroup{By: by, Total: 3}, []Message{one, again}, 3, "web-0 again", "it restarts\nand restarts"},
		"one more":              {MessageGroup{By: by, Total: 7, Since: firstSeen}, []Message{one}, 1, "BackOff", "text\n1 new, 7 in all since 2026-08-03 09:14:05 UTC"},
		"several sorts":         {MessageGroup{By: by, Total: 4}, []Message{again, other, again}, 5, "5 occurrences: 4 × BackOff Pod and 1 more", "4 × BackOff Pod: shop/web-0\n1 × Failed Pod: shop/web-1\nLatest: it restarts"},
		"what cannot be read":   {MessageGroup{By: by, Total: 2}, nil, 2, "2 occurrences", ""},
		"it is over":            {MessageGroup{By: by, Total: 1, Resolved: true}, []Message{one}, 1, "Resolved: BackOff", "text"},
		"what has no group":     {MessageGroup{Total: 1}, []Message{one}, 1, "BackOff", "text\nThere are too many groups: this stands for all beyond them."},
		"more than is read all": {MessageGroup{By: by, Total: 5000}, []Message{again, again}, 5000, "web-0 again", "it restarts\nand restarts"},
	} {
		t.Run(name, func(t *testing.T) {
			m := ComposeGroup(tc.group, tc.parts, tc.count)
			if diff := cmp.Diff([]string{tc.title, tc.text}, []string{m.Title, m.Text}); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(&tc.group, m.Group); diff != "" || m.Count != tc.count || m.Digest {
				t.Errorf("count %d, digest %t, group: %s", m.Count, m.Digest, diff)
			}
		})
	}
}

func TestAMessageOfAGroupIsWithinTheBounds(t *testing.T) {
	var parts []Message
	for i := range 1000 {
		m := messageOf("crash", fmt.Sprint("Reason", i), "Pod", "web", 1, lastSeen)
		m.Title, m.Text = strings.Repeat("봉", 1000), strings.Repeat("수", 5000)
		parts = append(parts, m)
	}
	m := ComposeGroup(MessageGroup{Total: 5000, Resolved: true}, parts, 1000)
	checkMessage(t, m)
	if !strings.Contains(m.Text, "1000 new, 5000 in all") {
		t.Errorf("there was no room for how many: %q", m.Text)
	}
}
