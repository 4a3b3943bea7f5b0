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
