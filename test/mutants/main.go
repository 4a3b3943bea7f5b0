// Mutants breaks the code on purpose and demands that a test notices.
//
// Each patch in this directory is a mutant: it takes one guarantee away. Lines
// before the diff name the tests that watch over that guarantee:
//
//	# test: go test ./internal/alarm -run TestATenantSeesItsOwnNamespaceOnly
//
// Every named test must pass on the tree as it is, and fail on the mutant. A
// mutant that does not apply, does not compile, or whose test does not run at all
// is broken, which is as bad as one that survives: it proves nothing.
//
// Mutants are applied to a copy of the tree, never to the checkout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// errNotAllCaught is the failure that the printed lines already explain.
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
	dir     string
	only    *regexp.Regexp
	check   bool
	quick   bool
	verbose bool
	timeout time.Duration
	within  time.Duration
	shuffle bool
}

func parseFlags(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "test/mutants", "where the patches are")
	flags.BoolVar(&o.check, "check", false, "only check that every patch names a test and applies")
	flags.BoolVar(&o.quick, "quick", false, "take it for granted that the tests pass without the mutations")
	flags.BoolVar(&o.verbose, "v", false, "show what the tests print")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "for one run of one test")
	flags.DurationVar(&o.within, "within", 0, "begin no further mutant after this time, and say how many are left; 0 is no limit")
	flags.BoolVar(&o.shuffle, "shuffle", false, "run them in a random order, so that with -within each has its turn some time")
	only := flags.String("run", "", "only mutants whose name matches this regular expression")
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
	mutants, err := load(o.dir, o.only)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	t, err := copyTree(ctx, root)
	if err != nil {
		return err
	}
	defer t.remove()
	if o.check {
		return check(ctx, t, mutants)
	}
	if o.shuffle {
		rand.Shuffle(len(mutants), func(i, k int) { mutants[i], mutants[k] = mutants[k], mutants[i] })
	}
	j := judge{tree: t, options: o, baselines: map[string]error{}, out: os.Stdout}
	return j.all(ctx, mutants)
}

// check reports the mutants that no longer fit the code.
func check(ctx context.Context, t tree, mutants []mutant) error {
	var errs []error
	for _, m := range mutants {
		if err := t.applies(ctx, m.path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	_, err := fmt.Fprintf(os.Stdout, "%d mutants apply\n", len(mutants))
	return err
}
