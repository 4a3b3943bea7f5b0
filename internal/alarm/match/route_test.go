package match

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// largestRoute returns a Route with as much as the API allows: 16 values for each receiver.
func largestRoute() *Route {
	route := NewRoute("team", "other")
	for i := range MaxRouteReceivers {
		var values []string
		for j := range 16 {
			values = append(values, fmt.Sprint(i, "-", j, strings.Repeat("x", 56)))
		}
		route.Add(fmt.Sprint(strings.Repeat("r", 250), i), values, true)
	}
	return route
}

func TestTheEstimateIncludesTheLargestRoute(t *testing.T) {
	before := heap()
	route := largestRoute()
	held := heap() - before
	if len(route.Keys()) != MaxRouteReceivers+1 || held > routeSize {
		t.Errorf("%d receivers hold %d bytes, and the estimate is %d", len(route.Keys()), held, routeSize)
	}
	runtime.KeepAlive(route)
}

// Its states refer to their alarm.
func TestAnAlarmWithAnotherRouteLeavesTheFirstAsItIs(t *testing.T) {
	spec := v1alpha1.AlarmSpec{States: []v1alpha1.StateMatch{{Resource: v1alpha1.ChangeResource{Resource: "pods"}, Expression: "true"}}}
	first := mustCompile(t, Definition{Spec: spec, Receivers: []string{"ops"}})
	routed := first.WithRoute(largestRoute())
	if got := routed.States()[0].Alarm; got != routed || first.States()[0].Alarm != first {
		t.Error("a state refers to the other alarm")
	}
	if len(first.AllReceivers()) != 1 || len(routed.AllReceivers()) != MaxRouteReceivers+2 {
		t.Errorf("%d and %d receivers", len(first.AllReceivers()), len(routed.AllReceivers()))
	}
}
