package step_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/pkg/step"
)

type app struct{ ready bool }

// Each step does one thing. A step that needs another one stops the rest.
func ExampleRun() {
	createChildren := func(context.Context, *app) (step.Result, error) {
		return step.Result{RequeueAfter: time.Minute}, nil // to repair them
	}
	checkPods := func(_ context.Context, a *app) (step.Result, error) {
		return step.Result{Stop: !a.ready, RequeueAfter: 10 * time.Second}, nil
	}
	announce := func(context.Context, *app) (step.Result, error) {
		fmt.Println("ready")
		return step.Result{}, nil
	}
	result, err := step.Run(context.Background(), &app{}, createChildren, checkPods, announce)
	finished, err := step.Finish(result.RequeueAfter, err)
	fmt.Println("again after", finished.RequeueAfter, err)
	// Output: again after 10s <nil>
}

// scale is a step: it wants three pods.
func scale(_ context.Context, a *cluster) (step.Result, error) {
	if a.pods == 3 {
		return step.Result{}, nil
	}
	a.pods = 3
	return step.Result{RequeueAfter: time.Minute}, nil
}

type cluster struct{ pods int }

// A test of a step calls it with an object in memory, and compares both. It needs no fake.
func ExampleFunc() {
	for name, tc := range map[string]struct {
		object cluster
		want   step.Result
	}{
		"a new one":     {cluster{}, step.Result{RequeueAfter: time.Minute}},
		"nothing to do": {cluster{pods: 3}, step.Result{}},
	} {
		got, err := scale(context.Background(), &tc.object)
		if err != nil || got != tc.want || tc.object.pods != 3 {
			fmt.Println(name, "fails:", got, err)
		}
	}
	fmt.Println("tested")
	// Output: tested
}
