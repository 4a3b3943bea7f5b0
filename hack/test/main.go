// Test runs `go test` and prints each package and the output of tests that fail. At the
// end, it prints the measurements of tests, the ten slowest tests, and what failed.
//
//	go run ./hack/test [FLAG...] PACKAGE...
//
// The arguments are those of `go test`, and so is the exit code. A test reports a
// measurement with t.Attr("summary", text).
//
// A few tests that fail on a control plane run again, because other processes of a busy
// machine affect them. They call t.Attr("rerun", "allowed"), which the helpers that start a
// control plane do. The output lists them: each is a defect of the test or of the product.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	err := run(os.Stdout, os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

// run runs the tests, and those again that may. It returns nil if each has passed in the
// end, and an *exec.ExitError if not.
func run(out io.Writer, args []string) error {
	r, err := goTest(out, args)
	if r == nil {
		return err
	}
	if err != nil && r.mayRunAgain() && r.runAgain(args) {
		err = nil
	}
	r.end()
	return err
}

// goTest runs `go test` to its end. It returns no results if that is not possible, and an
// *exec.ExitError if tests failed.
func goTest(out io.Writer, args []string) (*results, error) {
	command := exec.Command("go", append([]string{"test", "-json"}, args...)...) //nolint:noctx // an interrupt in the terminal reaches it too
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	r, err := read(out, output)
	if err := errors.Join(err, command.Wait()); err != nil {
		return r, err
	}
	return r, nil
}
