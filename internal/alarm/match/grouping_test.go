package match

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

// groupedBy returns an alarm that groups by these keys.
func groupedBy(keys ...string) Definition {
	def := clusterAlarm(v1alpha1.EventMatch{})
	def.Spec.Group = &v1alpha1.AlarmGroup{By: keys}
	return def
}

func TestGroupValuesFollowTheKeys(t *testing.T) {
	grouping := mustCompile(t, groupedBy("regarding.kind", "regarding.namespace", "regarding.name", "reason", "type",
		"reportingController", "object.labels[app.kubernetes.io/name]", "object.annotations[team]", "object.labels[none]")).Grouping()
	object := &alarm.Object{Metadata: alarm.ObjectMeta{
		Labels: map[string]string{"app.kubernetes.io/name": "web"}, Annotations: map[string]string{"team": "a\nb"},
	}}
	var got []string
	for _, v := range grouping.Values(&podOccurrence().Event, object) {
		got = append(got, v.Key+"="+v.Value)
	}
	if lacks := grouping.Lacks(&podOccurrence().Event, object); lacks != "object.labels[none]" {
		t.Errorf("lacks %q", lacks)
	}
	want := []string{
		"regarding.kind=Pod", "regarding.namespace=shop", "regarding.name=web-0", "reason=BackOff", "type=Warning",
		"reportingController=kubelet", "object.labels[app.kubernetes.io/name]=web", "object.annotations[team]=a b", "object.labels[none]=",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutKeysTheAlarmHasOneGroup(t *testing.T) {
	grouping := mustCompile(t, groupedBy()).Grouping()
	other := podOccurrence()
	other.Event.Reason, other.Event.Regarding.Name = "Failed", "db-0"
	want := []alarm.GroupValue{{Key: "alarm", Value: clusterAlarm().ID.Name}}
	for _, occ := range []*alarm.Occurrence{podOccurrence(), other} {
		if diff := cmp.Diff(want, grouping.Values(&occ.Event, &alarm.Object{})); diff != "" {
			t.Error(diff)
		}
	}
}

// Charts set app.kubernetes.io/name and not app. Objects without a label have nothing in common.
func TestObjectsWithoutTheLabelAreGroupsOfTheirOwn(t *testing.T) {
	grouping := mustCompile(t, groupedBy("regarding.namespace", "object.labels[app]")).Grouping()
	group := func(name string, labels map[string]string) string {
		occ := podOccurrence()
		occ.Event.Regarding.Name = name
		return alarm.GroupKey("uid", grouping.Values(&occ.Event, &alarm.Object{Metadata: alarm.ObjectMeta{Labels: labels}})...)
	}
	web, empty := map[string]string{"app": "web"}, map[string]string{"app": ""}
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"one app":                  {group("web-0", web), group("web-1", web), true},
		"an empty label":           {group("web-0", empty), group("web-1", empty), true},
		"without the label":        {group("front", nil), group("back", nil), false},
		"one object":               {group("front", nil), group("front", nil), true},
		"with and without a label": {group("web-0", empty), group("web-0", nil), false},
	} {
		if (tc.a == tc.b) != tc.same {
			t.Errorf("%s: same group: %t", name, !tc.same)
		}
	}
}

func TestAnOwnerIsAGroupWithAllItsObjects(t *testing.T) {
	grouping := mustCompile(t, groupedBy("object.owner")).Grouping()
	group := func(namespace, kind, name string, owner alarm.Owner) string {
		occ := podOccurrence()
		occ.Event.Namespace, occ.Event.Regarding = namespace, alarm.Reference{Namespace: namespace, Kind: kind, Name: name}
		return alarm.GroupKey("uid", grouping.Values(&occ.Event, &alarm.Object{Owner: owner})...)
	}
	web := alarm.Owner{Kind: "Deployment", Name: "web"}
	first := group("shop", "Pod", "web-1", web)
	for name, tc := range map[string]struct {
		other string
		same  bool
	}{
		"another pod":                        {group("shop", "Pod", "web-2", web), true},
		"its ReplicaSet":                     {group("shop", "ReplicaSet", "web-5d9c", web), true},
		"the Deployment":                     {group("shop", "Deployment", "web", alarm.Owner{}), true},
		"a StatefulSet of this name":         {group("shop", "StatefulSet", "web", alarm.Owner{}), false},
		"another Deployment":                 {group("shop", "Pod", "api-1", alarm.Owner{Kind: "Deployment", Name: "api"}), false},
		"the same name in another namespace": {group("bank", "Pod", "web-1", web), false},
		"a pod without an owner":             {group("shop", "Pod", "web-1", alarm.Owner{}), false},
	} {
		if (tc.other == first) != tc.same {
			t.Errorf("%s: in the same group: %t", name, !tc.same)
		}
	}
}

func TestUnknownGroupKeyIsRefused(t *testing.T) {
	for _, key := range []string{"", "object.labels", "object.labels[]", "object.labels[a", "regarding.uid", "object.status[a]"} {
		_, err := compile(t, groupedBy("reason", key))
		var failure *CompileError
		if !errors.As(err, &failure) || failure.Reason != v1alpha1.ReasonInvalidGroup || failure.Field != "spec.group.by[1]" {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

func TestGroupWaitAndIntervalHaveDefaults(t *testing.T) {
	def := groupedBy("reason")
	if a := mustCompile(t, def); a.Grouping().Wait != 5*time.Second || a.Grouping().Interval != 5*time.Minute || a.Window() != time.Hour {
		t.Errorf("by default: %+v, window %s", a.Grouping(), a.Window())
	}
	def.Spec.Group.WaitSeconds, def.Spec.Group.IntervalSeconds = new(int32(0)), new(int32(60))
	def.Spec.Threshold = &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 600}
	if a := mustCompile(t, def); a.Grouping().Wait != 0 || a.Grouping().Interval != time.Minute || a.Window() != time.Hour {
		t.Errorf("explicitly: %+v, window %s", a.Grouping(), a.Window())
	}
}

func TestAnEventThatResolvesDoesNothingElse(t *testing.T) {
	def := groupedBy("regarding.name")
	def.Spec.Match = []v1alpha1.EventMatch{{Reasons: []string{"BackOff", "Started", "Recovered"}}}
	def.Spec.Resolve = &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{
		{Reasons: []string{"Started"}, Expression: `event.note != "no"`}, {Reasons: []string{"Pulled"}, ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}}
	a := mustCompile(t, def)
	for name, tc := range map[string]struct {
		reason, note string
		labels       map[string]string
		outcome      Outcome
		resolves     bool
	}{
		"the problem":              {reason: "BackOff", outcome: Matched},
		"in both lists":            {reason: "Started", outcome: Matched, resolves: true},
		"not by the expression":    {reason: "Started", note: "no", outcome: Matched},
		"selected by its labels":   {reason: "Pulled", labels: map[string]string{"a": "b"}, outcome: Matched, resolves: true},
		"with other labels":        {reason: "Pulled", outcome: NotMatched},
		"a default reason":         {reason: "Recovered", outcome: Matched},
		"a reason of neither list": {reason: "Killing", outcome: NotMatched},
	} {
		t.Run(name, func(t *testing.T) {
			occ := podOccurrence()
			occ.Event.Reason, occ.Event.Note = tc.reason, tc.note
			known := &alarm.Context{Resolved: true, Object: alarm.Object{Metadata: alarm.ObjectMeta{Labels: tc.labels}}}
			var result Result
			for _, c := range NewIndex([]*Alarm{a}).ClusterCandidates(occ, nil, nil) {
				result = c.Match(t.Context(), known)
			}
			if result.Outcome != tc.outcome || result.Resolves != tc.resolves || result.Err != nil || a.Grouping().Resolves(&occ.Event) {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestResolveIsChecked(t *testing.T) {
	for field, resolve := range map[string]*v1alpha1.AlarmResolve{
		"spec.resolve.match[1].expression": {Match: []v1alpha1.EventMatch{{}, {Expression: "event.cuont > 1"}}},
		"spec.resolve":                     {QuietSeconds: new(int32(60))},
	} {
		def := groupedBy("regarding.name")
		if def.Spec.Resolve = resolve; field == "spec.resolve" {
			def.Spec.Group = nil
		}
		_, err := compile(t, def)
		var failure *CompileError
		if !errors.As(err, &failure) || failure.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// Only a group about one object can be resolved.
func TestGroupIsResolvedByTheRecoveryOfItsObject(t *testing.T) {
	node := func(e *alarm.Event) { e.Regarding = alarm.Reference{Kind: "Node", Name: "node-0"} }
	recovered := func(e *alarm.Event) { e.Reason = v1alpha1.ReasonRecovered }
	ready := func(e *alarm.Event) { e.Reason = "NodeReady" }
	for name, tc := range map[string]struct {
		by     string
		change []func(*alarm.Event)
		want   bool
	}{
		"a node is ready":             {"regarding.kind regarding.name", []func(*alarm.Event){node, ready}, true},
		"another reason":              {"regarding.kind regarding.name", []func(*alarm.Event){node}, false},
		"group of all nodes":          {"regarding.kind", []func(*alarm.Event){node, ready}, false},
		"group without the kind":      {"regarding.name", []func(*alarm.Event){node, ready}, false},
		"NodeReady of a pod":          {"regarding.kind regarding.namespace regarding.name", []func(*alarm.Event){ready}, false},
		"an object recovered":         {"regarding.kind regarding.namespace regarding.name", []func(*alarm.Event){recovered}, true},
		"group without the namespace": {"regarding.kind regarding.name", []func(*alarm.Event){recovered}, false},
		"group by a label":            {"object.labels[app]", []func(*alarm.Event){recovered}, false},
		"group by object and reason":  {"reason regarding.kind regarding.namespace regarding.name", []func(*alarm.Event){recovered}, true},
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

func TestTheGroupOfANodeStaysOpenForADay(t *testing.T) {
	awaits := []v1alpha1.EventMatch{{Kinds: []string{"Node"}, Reasons: []string{"NodeNotReady", "NodeReady"}}}
	aboutObject := []string{"regarding.kind", "regarding.name"}
	for name, tc := range map[string]struct {
		match   []v1alpha1.EventMatch
		by      []string
		resolve *v1alpha1.AlarmResolve
		kind    string
		want    time.Duration
	}{
		"a Node":                          {match: awaits, by: aboutObject, kind: "Node", want: 24 * time.Hour},
		"a Pod":                           {match: awaits, by: aboutObject, kind: "Pod"},
		"several Nodes":                   {match: awaits, by: []string{"reason"}, kind: "Node"},
		"an alarm without NodeReady":      {match: []v1alpha1.EventMatch{{Kinds: []string{"Node"}}}, by: aboutObject, kind: "Node"},
		"a time of the user":              {match: awaits, by: aboutObject, kind: "Node", resolve: &v1alpha1.AlarmResolve{OpenSeconds: new(int32(7200))}, want: 2 * time.Hour},
		"a time of the user for any kind": {match: awaits, by: aboutObject, kind: "Pod", resolve: &v1alpha1.AlarmResolve{OpenSeconds: new(int32(7200))}, want: 2 * time.Hour},
		"other Events that resolve":       {match: awaits, by: aboutObject, kind: "Node", resolve: &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Started"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			def := groupedBy(tc.by...)
			def.Spec.Match, def.Spec.Resolve = tc.match, tc.resolve
			event := &alarm.Event{Regarding: alarm.Reference{Kind: tc.kind, Name: "it"}}
			if got := mustCompile(t, def).Grouping().Open(event); got != tc.want {
				t.Errorf("it stays open for %s, want %s", got, tc.want)
			}
		})
	}
}
