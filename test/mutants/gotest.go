package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// outcome is what became of one `go test`; of several packages, the greatest.
type outcome int

const (
	notRun  outcome = iota // no test ran to a verdict
	passed                 // some test passed, none failed
	failed                 // a test failed, panicked or took too long
	noBuild                // the code or the test does not compile
)

// event is what `go test -json` writes; see `go doc test2json`.
type event struct {
	Action      string
	Test        string
	Output      string
	FailedBuild string
}

// goTest runs a test in the tree, and returns what it printed as well.
func (t tree) goTest(ctx context.Context, args testArgs, timeout time.Duration) (outcome, string, error) {
	module, rest := args.module()
	// What the header says comes last, so that it wins. Vet is left out: a mutant
	// may look odd.
	all := slices.Concat([]string{"test"}, module, []string{"-json", "-vet=off", "-timeout=" + timeout.String()}, rest)
	var stdout, stderr bytes.Buffer
	cmd := t.command(ctx, "go", all...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return notRun, "", ctx.Err()
	}
	result, printed, err := judgeEvents(&stdout)
	if err != nil {
		return notRun, "", fmt.Errorf("%w; the go command said: %s", errors.Join(err, runErr), stderr.String())
	}
	return result, printed + stderr.String(), nil
}

// judgeEvents reads the stream of one run.
func judgeEvents(r io.Reader) (outcome, string, error) {
	var printed strings.Builder
	result := notRun
	for decoder := json.NewDecoder(r); ; {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return result, printed.String(), nil
		}
		if err != nil {
			return notRun, "", fmt.Errorf("read the test's events: %w", err)
		}
		printed.WriteString(e.Output)
		result = max(result, e.outcome())
	}
}

// outcome is what one event says of the whole run. A package's own `pass` is
// not counted: it is there as well when there was no test to run.
func (e event) outcome() outcome {
	switch {
	case e.Action == "build-fail", e.FailedBuild != "":
		return noBuild
	case e.Action == "fail":
		return failed
	case e.Action == "pass" && e.Test != "":
		return passed
	}
	return notRun
}
