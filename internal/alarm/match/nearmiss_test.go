package match

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestANearMissIsTheOnlyConditionThatFails(t *testing.T) {
	clusterWide := func(change func(*Definition), match ...v1alpha1.EventMatch) Definition {
		def := clusterAlarm(match...)
		change(&def)
		return def
	}
	selecting := func(key, value string) func(*Definition) {
		return func(d *Definition) { d.NamespaceSelector = labelSelector(key, value) }
	}
	none := func(*Definition) {}
	for name, tc := range map[string]struct {
		def     Definition
		occ     *alarm.Occurrence
		want    *NearMiss
		objects int
	}{
		"the reason": {
			def:  clusterWide(none, v1alpha1.EventMatch{Kinds: []string{"Pod"}, Reasons: []string{"Killing", "OOMKilled"}, Types: []v1alpha1.EventType{"Warning"}}),
			want: &NearMiss{Field: "spec.match[0].reasons", Value: "BackOff", Met: 2},
		},
		"a misspelt reason": {
			def:  clusterWide(none, v1alpha1.EventMatch{Reasons: []string{"Backof"}}),
			want: &NearMiss{Field: "spec.match[0].reasons", Value: "BackOff", Instead: "BackOff"},
		},
		"an excepted reason": {
			def:  clusterWide(none, v1alpha1.EventMatch{Kinds: []string{"Pod"}, Reasons: []string{"!BackOff"}}),
			want: &NearMiss{Field: "spec.match[0].reasons", Value: "BackOff", Met: 1},
		},
		"the kind": {
			def:  clusterWide(none, v1alpha1.EventMatch{Kinds: []string{"Pods"}, Reasons: []string{"BackOff"}}),
			want: &NearMiss{Field: "spec.match[0].kinds", Value: "Pod", Instead: "Pod", Met: 1},
		},
		"the type": {
			def:  clusterWide(none, v1alpha1.EventMatch{Types: []v1alpha1.EventType{"Normal"}}),
			want: &NearMiss{Field: "spec.match[0].types", Value: "Warning"},
		},
		"a note without wildcards": {
			def: clusterWide(none, v1alpha1.EventMatch{Note: "restarting failed"}),
			want: &NearMiss{
				Field: "spec.match[0].note", Value: "Back-off restarting failed container app in pod web-0", Instead: "*restarting failed*",
			},
		},
		"a name without the wildcard": {
			def:  clusterWide(none, v1alpha1.EventMatch{Names: []string{"db", "web-"}}),
			want: &NearMiss{Field: "spec.match[0].names", Value: "web-0", Instead: "web-*"},
		},
		"another name": {
			def:  clusterWide(none, v1alpha1.EventMatch{Names: []string{"db", "x"}}),
			want: &NearMiss{Field: "spec.match[0].names", Value: "web-0"},
		},
		"the labels": {
			def:     clusterWide(none, v1alpha1.EventMatch{Kinds: []string{"Pod"}, ObjectSelector: labelSelector("app", "other")}),
			want:    &NearMiss{Field: "spec.match[0].objectSelector", Value: "app=web", Met: 1},
			objects: 1,
		},
		"a label that the object lacks": {
			def:     clusterWide(none, v1alpha1.EventMatch{ObjectSelector: labelSelector("tiers", "front")}),
			want:    &NearMiss{Field: "spec.match[0].objectSelector", Value: "no label tiers: did you mean tier"},
			objects: 1,
		},
		"the expression": {
			def:     clusterWide(none, v1alpha1.EventMatch{ObjectSelector: labelSelector("app", "web"), Expression: "event.count > 50"}),
			want:    &NearMiss{Field: "spec.match[0].expression", Met: 1},
			objects: 2,
		},
		"the namespace": {
			def:  clusterWide(selecting("team", "bank"), v1alpha1.EventMatch{Reasons: []string{"BackOff"}}),
			want: &NearMiss{Field: "spec.namespaceSelector", Value: "shop", Met: 1},
		},
		"an object without a namespace": {
			def:  namespacedAlarm("default", v1alpha1.EventMatch{Reasons: []string{"NodeReady"}}),
			occ:  nodeOccurrence(),
			want: &NearMiss{Field: "metadata.namespace", Met: 1},
		},
		"the entry with more conditions": {
			def: clusterWide(none, v1alpha1.EventMatch{Types: []v1alpha1.EventType{"Normal"}},
				v1alpha1.EventMatch{Kinds: []string{"Pod"}, Types: []v1alpha1.EventType{"Normal"}}),
			want: &NearMiss{Field: "spec.match[1].types", Value: "Warning", Met: 1},
		},
		"the second condition of an object is not read": {
			def:     clusterWide(none, v1alpha1.EventMatch{Reasons: []string{"Other"}, ObjectSelector: labelSelector("app", "x"), Expression: "event.count > 50"}),
			objects: 1,
		},
		"two conditions": {def: clusterWide(none, v1alpha1.EventMatch{Kinds: []string{"Job"}, Reasons: []string{"Other"}, Expression: "true"})},
		"a match":        {def: clusterWide(none, v1alpha1.EventMatch{Reasons: []string{"Other"}}, v1alpha1.EventMatch{}), want: nil},
		"an entry that resolves": {def: clusterWide(func(d *Definition) {
			d.Spec.Group = &v1alpha1.AlarmGroup{By: []string{"reason"}}
			d.Spec.Resolve = &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Bac-off"}}}}
		}, v1alpha1.EventMatch{Reasons: []string{"BackOff"}, Types: []v1alpha1.EventType{"Normal"}}), want: &NearMiss{Field: "spec.match[0].types", Value: "Warning", Met: 1}},
		"an entry about changes": {def: clusterWide(func(d *Definition) {
			d.Spec.Changes = []v1alpha1.ChangeMatch{
				{Resource: v1alpha1.ChangeResource{Resource: "pods"}},
				{Resource: v1alpha1.ChangeResource{Resource: "pods"}, Expression: "object.spec.replicas > 1"},
			}
		}, v1alpha1.EventMatch{Reasons: []string{"Backof"}}), want: &NearMiss{Field: "spec.match[0].reasons", Value: "BackOff", Instead: "BackOff"}},
		"a result that is unknown": {
			def:     clusterWide(none, v1alpha1.EventMatch{Reasons: []string{"Other"}, Expression: `object.metadata.labels["none"] == "x"`}),
			objects: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			occ, objects := tc.occ, 0
			if occ == nil {
				occ = podOccurrence()
			}
			namespaces := namespaceLabels{"shop": {"team": "shop"}}
			got := mustCompile(t, tc.def).NearMiss(t.Context(), occ, namespaces, func() *alarm.Context { objects++; return podContext() })
			if diff := cmp.Diff(tc.want, got); diff != "" || objects != tc.objects {
				t.Errorf("(-want +got):\n%s%d reads of the object, want %d", diff, objects, tc.objects)
			}
		})
	}
}
