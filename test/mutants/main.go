// Mutants checks that the tests notice broken code.
//
// Each patch in this directory is a mutant: it breaks one guarantee. Lines above
// the diff name the tests that must fail on the mutant:
//
//	# test: go test ./internal/alarm -run TestATenantSeesItsOwnNamespaceOnly
//
// Each named test must pass on the unchanged code and fail on the mutant. A mutant
// is broken if it does not apply or compile, or if its test does not run. A broken
// mutant proves nothing, so the command fails on it, as on a mutant that survives.
//
// The command applies the patches to a copy of the tree, never to the checkout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
)

const (
	patchDir = "test/mutants"

	// maxMutants limits what a full run costs and how many patches a refactoring breaks.
	maxMutants = 50
)

// errNotAllCaught is not printed: the lines of the mutants already explain it.
var errNotAllCaught = errors.New("not all mutants were caught")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := exitCode(run(ctx, os.Args[1:]))
	stop()
	os.Exit(code)
}

func exitCode(err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errNotAllCaught):
		return 1
	default:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 2
	}
}

// options are the flags.
type options struct {
	only    *regexp.Regexp
	check   bool
	verbose bool
}

func parseFlags(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.BoolVar(&o.check, "check", false, fmt.Sprintf("run no test; check that each patch names a test, applies and compiles, and that there are at most %d patches", maxMutants))
	flags.BoolVar(&o.verbose, "v", false, "print the output of the tests")
	only := flags.String("run", "", "run only mutants whose name matches this regular `expression`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	o.only, err = regexp.Compile(*only)
	return o, err
}

func run(ctx context.Context, args []string) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	mutants, err := load(patchDir)
	if err != nil {
		return err
	}
	mutants = choose(mutants, o.only)
	if len(mutants) == 0 {
		return errors.New("no mutant matches the flags: check -run")
	}
	t, err := copyTree(ctx, ".")
	if err != nil {
		return err
	}
	defer t.remove()
	if o.check {
		return check(ctx, t, mutants)
	}
	r := runner{tree: t, verbose: o.verbose, baselines: map[string]error{}, out: os.Stdout}
	return r.runAll(ctx, mutants)
}

// choose returns the mutants whose name matches the expression.
func choose(mutants []mutant, only *regexp.Regexp) []mutant {
	return slices.DeleteFunc(mutants, func(m mutant) bool { return !only.MatchString(m.name) })
}

// check returns an error if there are too many mutants, or if some do not apply or
// compile.
func check(ctx context.Context, t tree, mutants []mutant) error {
	if len(mutants) > maxMutants {
		return fmt.Errorf("%d mutants, at most %d are allowed: delete the least important ones", len(mutants), maxMutants)
	}
	err := t.checkPatches(ctx, mutants)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%d mutants apply and compile\n", len(mutants))
	return err
}
