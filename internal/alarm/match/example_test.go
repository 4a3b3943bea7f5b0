package match

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func TestExampleMatchesItsAlarm(t *testing.T) {
	for name, match := range map[string]v1alpha1.EventMatch{
		"anything": {},
		"a node":   {Kinds: []string{"Node"}, Reasons: []string{"NodeReady"}},
		"globs": {
			Kinds: []string{"Pod"}, Names: []string{"web-?-*"}, Note: "*back-off ?0s*", Types: []v1alpha1.EventType{"Normal"},
		},
		"labels": {ObjectSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "web"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"front"}},
				{Key: "team", Operator: metav1.LabelSelectorOpExists},
				{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist},
			},
		}},
	} {
		for _, id := range []kube.Key{{Kind: alarm.KindClusterAlarm, Name: "a"}, {Kind: alarm.KindAlarm, Namespace: "shop", Name: "a"}} {
			t.Run(name+" "+id.Kind, func(t *testing.T) {
				a := mustCompile(t, Definition{ID: id, Spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{match}}})
				occ, known := a.Example(lastSeen)
				candidates := candidatesOf(NewIndex([]*Alarm{a}), &occ, nil, nil)
				if len(candidates) != 1 || candidates[0].Match(t.Context(), &known).Outcome != Matched {
					t.Errorf("the alarm does not match %+v", occ.Event)
				}
			})
		}
	}
}
