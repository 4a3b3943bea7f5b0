package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// judge runs the mutants, one after the other, and prints what became of each.
type judge struct {
	options
	tree      tree
	baselines map[string]error // by command: why it proves nothing, or nil
	out       io.Writer
}

var (
	errSurvived = errors.New("passes although the code is broken")
	errNotRun   = errors.New("runs no test to the end: is the name right, does it skip?")
	errNoBuild  = errors.New("does not build")
	errRed      = errors.New("fails without the mutation")
)

func (j *judge) all(ctx context.Context, mutants []mutant) error {
	caught, begun := 0, time.Now()
	for i, m := range mutants {
		start := time.Now()
		if j.within > 0 && start.Sub(begun) > j.within {
			_, _ = fmt.Fprintf(j.out, "%d mutants not run: %v have passed\n", len(mutants)-i, j.within)
			mutants = mutants[:i]
			break
		}
		again, err := j.one(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			caught++
		}
		j.print(m, again, err, time.Since(start))
	}
	_, _ = fmt.Fprintf(j.out, "%d passed, %d failed\n", caught, len(mutants)-caught)
	if caught < len(mutants) {
		return errNotAllCaught
	}
	return nil
}

func (j *judge) print(m mutant, again bool, err error, took time.Duration) {
	verdict, when := "caught", ""
	switch {
	case err == nil && again:
		when = ", in the second run"
	case errors.Is(err, errSurvived):
		verdict = "SURVIVED"
	case err != nil:
		verdict = "BROKEN"
	}
	_, _ = fmt.Fprintf(j.out, "%-8s  %-44s %6.1fs%s\n", verdict, m.name, took.Seconds(), when)
	if err != nil {
		_, _ = fmt.Fprintf(j.out, "          %v\n", err)
	}
}

// one returns nil if every test of the mutant notices it, and whether one was run
// again for that.
func (j *judge) one(ctx context.Context, m mutant) (again bool, err error) {
	for _, test := range m.tests {
		if err := j.baseline(ctx, test); err != nil {
			return false, err
		}
	}
	if err := j.tree.apply(ctx, m.path); err != nil {
		return false, err
	}
	var errs []error
	for _, test := range m.tests {
		repeated, err := j.notices(ctx, test)
		again, errs = again || repeated, append(errs, err)
	}
	return again, errors.Join(append(errs, j.tree.revert(ctx, m.path))...)
}

// baseline makes sure that a test passes without any mutation, once.
func (j *judge) baseline(ctx context.Context, test testArgs) error {
	if j.quick {
		return nil
	}
	err, known := j.baselines[test.String()]
	if !known {
		err = j.demand(ctx, test, passed)
		j.baselines[test.String()] = err
	}
	return err
}

// notices returns nil if the test fails, and whether it was run again for that: what a
// test on a real cluster gets to see depends on timing.
func (j *judge) notices(ctx context.Context, test testArgs) (again bool, err error) {
	if err := j.demand(ctx, test, failed); !errors.Is(err, errSurvived) {
		return false, err
	}
	uncached := append(testArgs{"-count=1"}, test...) // or the first run would be shown again
	return true, j.demand(ctx, uncached, failed)
}

// demand runs a test and returns why the outcome is not the one wanted, with the
// end of what was printed.
func (j *judge) demand(ctx context.Context, test testArgs, want outcome) error {
	got, printed, err := j.tree.goTest(ctx, test, j.timeout)
	if err != nil {
		return fmt.Errorf("%s: %w", test, err)
	}
	if j.verbose {
		_, _ = fmt.Fprintf(j.out, "--> %s\n%s", test, printed)
	}
	if got == want {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", test, got.unwanted(), tail(printed, 2000))
}

func (o outcome) unwanted() error {
	switch o {
	case passed:
		return errSurvived
	case failed:
		return errRed
	case noBuild:
		return errNoBuild
	case notRun:
	}
	return errNotRun
}

// tail is the end of a text, from a line's beginning.
func tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[len(s)-limit:]
	for i, c := range s {
		if c == '\n' {
			return "..." + s[i:]
		}
	}
	return s
}
