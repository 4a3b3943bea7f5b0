package objects

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Resources of ClusterAlarms come first. A namespace with many resources leaves space for others.
func TestWatchesAreDividedFairly(t *testing.T) {
	needs := Needs{}
	add := func(prefix string, n int, by kube.Key) {
		for i := range n {
			needs.Add(alarm.Resource{Group: "g", Resource: fmt.Sprintf("%s%02d", prefix, i)}, shape(t, "spec"), by)
		}
	}
	add("z", 4, kube.Key{Kind: alarm.KindClusterAlarm})
	add("greedy", 90, kube.Key{Kind: alarm.KindAlarm, Namespace: "a"})
	add("modest", 3, kube.Key{Kind: alarm.KindAlarm, Namespace: "b"})
	add("greedy", 10, kube.Key{Kind: alarm.KindAlarm, Namespace: "c"}) // the same as those of a
	chosen, refused := choose(needs, nil)
	counts := map[string]int{}
	for name := range chosen {
		counts[name[:1]]++
	}
	if diff := cmp.Diff(map[string]int{"z": 4, "m": 3, "g": 57}, counts); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
	if len(refused) != len(needs)-maxResources {
		t.Errorf("%d refused, want %d", len(refused), len(needs)-maxResources)
	}
	for r, s := range refused {
		if s.Reason != TooMany {
			t.Errorf("%v: %+v", r, s)
		}
	}
}

func TestAForbiddenResourceNamesTheValueThatAllowsIt(t *testing.T) {
	const value = "set the value alarms.changes.configMaps, or create a ClusterRole"
	for name, tc := range map[string]struct {
		resource alarm.Resource
		verbs    []string
		want     bool
	}{
		"ConfigMaps":              {alarm.Resource{Resource: "configmaps"}, []string{"list", "watch"}, true},
		"ConfigMaps that it gets": {alarm.Resource{Resource: "configmaps"}, []string{"get"}, false},
		"others":                  {alarm.Resource{Group: "example.com", Resource: "configmaps"}, []string{"list", "watch"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ForbiddenMessage(tc.resource, tc.verbs...); strings.Contains(got, value) != tc.want {
				t.Error(got)
			}
		})
	}
}
