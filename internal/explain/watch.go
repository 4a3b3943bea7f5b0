package explain

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// The intervals at which a watch reads the cluster again. An overview lists many types.
const (
	ObjectInterval   = 2 * time.Second
	OverviewInterval = 10 * time.Second
)

// Result is an Explanation or an Overview.
type Result interface {
	// essence returns a copy without times and counts.
	essence() any
}

// Watcher explains repeatedly, and prints each explanation that differs from the one
// before.
type Watcher struct {
	Explain func(context.Context) (Result, error)
	Print   func(Result) error
	// Report receives errors that may be temporary.
	Report   func(error)
	Clock    clock.Clock
	Interval time.Duration
}

// Run runs until the context ends, and then returns nil. It fails if the first
// explanation fails, or if it cannot print.
func (w *Watcher) Run(ctx context.Context) error {
	last, lastError := "", ""
	for first := true; ; first = false {
		found, err := w.Explain(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			if err.Error() != lastError {
				w.Report(err)
			}
			lastError = err.Error()
		default:
			lastError = ""
			if err := w.printNew(found, &last); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Clock.After(w.Interval):
		}
	}
}

func (w *Watcher) printNew(found Result, last *string) error {
	text, err := json.Marshal(found.essence())
	if err != nil || string(text) == *last {
		return err
	}
	*last = string(text)
	return w.Print(found)
}

func (x *Explanation) essence() any {
	c := *x
	c.Cause, c.LastCrash, c.LastFailure, c.PodStatuses, c.Deletion, c.Log = essential(x.Cause), essential(x.LastCrash), nil, nil, nil, nil
	if x.Deletion != nil {
		c.Deletion = &Deletion{WaitsFor: x.Deletion.WaitsFor, Release: x.Deletion.Release}
	}
	c.Chain, c.Others = slices.Clone(x.Chain), nil
	for i := range c.Chain {
		c.Chain[i].Time = nil
	}
	for i := range x.Others {
		c.Others = append(c.Others, *essential(&x.Others[i]))
	}
	return c
}

func (o *Overview) essence() any {
	c := *o
	c.Checked, c.Problems = 0, nil
	for _, p := range o.Problems {
		p.Cause = essential(p.Cause)
		c.Problems = append(c.Problems, p)
	}
	return c
}

// essential returns a copy of a cause without time and count, or nil.
func essential(c *Cause) *Cause {
	if c == nil {
		return nil
	}
	e := *c
	e.Time, e.Count = nil, 0
	return &e
}
