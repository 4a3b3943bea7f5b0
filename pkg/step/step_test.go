package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/pkg/step"
)

var errStep = errors.New("no answer")

func TestRunStopsAtTheFirstStepThatStopsOrFails(t *testing.T) {
	after := func(d time.Duration) step.Result { return step.Result{RequeueAfter: d} }
	type outcome struct {
		result step.Result
		err    error
	}
	for name, tc := range map[string]struct {
		steps []outcome
		ran   int
		want  step.Result
		err   error
	}{
		"no step":                 {},
		"all steps run":           {steps: []outcome{{}, {}}, ran: 2},
		"the shortest delay wins": {steps: []outcome{{result: after(time.Minute)}, {result: after(time.Second)}, {}}, ran: 3, want: after(time.Second)},
		"a step stops": {
			steps: []outcome{{result: after(time.Minute)}, {result: step.Result{Stop: true, RequeueAfter: time.Hour}}, {}},
			ran:   2, want: step.Result{Stop: true, RequeueAfter: time.Minute},
		},
		"a step fails": {steps: []outcome{{err: errStep}, {}}, ran: 1, err: errStep},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []step.Func[*int]
			for _, o := range tc.steps {
				steps = append(steps, func(_ context.Context, ran *int) (step.Result, error) {
					*ran++
					return o.result, o.err
				})
			}
			ran := 0
			got, err := step.Run(t.Context(), &ran, steps...)
			if !errors.Is(err, tc.err) || ran != tc.ran {
				t.Errorf("%d steps ran, error %v; want %d, %v", ran, err, tc.ran, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAConflictIsRetriedWithoutAnError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "jupyters"}, "lab", errStep)
	for name, tc := range map[string]struct {
		after time.Duration
		err   error
		want  reconcile.Result
		fails bool
	}{
		"done":                  {},
		"again later":           {after: time.Minute, want: reconcile.Result{RequeueAfter: time.Minute}},
		"again at once":         {after: time.Millisecond, want: reconcile.Result{RequeueAfter: time.Second}},
		"an error":              {after: time.Minute, err: errStep, fails: true},
		"a conflict":            {err: conflict, want: reconcile.Result{RequeueAfter: 200 * time.Millisecond}},
		"a conflict and others": {err: errors.Join(errStep, conflict), want: reconcile.Result{RequeueAfter: 200 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := step.Finish(tc.after, tc.err)
			if (err != nil) != tc.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
