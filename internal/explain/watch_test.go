package explain

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestAWatchPrintsOnlyWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(seconds int64) *time.Time { return new(time.Unix(seconds, 0)) }
		crashed := func(count int32, seconds int64) *Explanation {
			return &Explanation{State: Failing, Cause: &Cause{Reason: "Error", Count: count, Time: at(seconds)}, Others: []Cause{{Reason: "Unhealthy", Count: count}}}
		}
		running := &Explanation{State: Running}
		down := errors.New("the API server does not answer")
		steps := []struct {
			found *Explanation
			err   error
		}{{running, nil}, {running, nil}, {crashed(1, 10), nil}, {crashed(2, 20), nil}, {nil, down}, {nil, down}, {crashed(3, 30), nil}, {running, nil}}
		ctx, stop := context.WithCancel(t.Context())
		var printed []string
		start, calls := time.Now(), 0
		w := Watcher{
			Explain: func(context.Context) (Result, error) {
				step := steps[calls]
				if calls++; calls == len(steps) {
					defer time.AfterFunc(time.Second, stop)
				}
				return step.found, step.err
			},
			Print:    func(found Result) error { printed = append(printed, string(found.(*Explanation).State)); return nil },
			Report:   func(err error) { printed = append(printed, err.Error()) },
			Clock:    clock.RealClock{},
			Interval: time.Minute,
		}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		want := []string{"Running", "Failing", down.Error(), "Running"}
		if !slices.Equal(printed, want) {
			t.Errorf("printed %q, want %q", printed, want)
		}
		if took, want := time.Since(start), time.Duration(len(steps)-1)*time.Minute+time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

func TestAWatchFailsIfTheFirstExplanationFails(t *testing.T) {
	want := errors.New("not found")
	w := Watcher{Explain: func(context.Context) (Result, error) { return nil, want }, Clock: clock.RealClock{}}
	if err := w.Run(t.Context()); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

func TestAWatchEndsWithoutAnErrorDuringARequest(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	w := Watcher{
		Explain: func(context.Context) (Result, error) { stop(); return nil, ctx.Err() },
		Clock:   clock.RealClock{},
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}
