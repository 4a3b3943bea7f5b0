// Test runs `go test` and prints each package and the output of tests that fail. At the
// end, it prints the measurements of tests and the ten slowest tests.
//
//	go run ./hack/test [FLAG...] PACKAGE...
//
// The arguments are those of `go test`, and so is the exit code. A test reports a
// measurement with t.Attr("summary", text).
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

func main() {
	command := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...) //nolint:noctx // an interrupt in the terminal reaches it too
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	err = show(os.Stdout, output)
	err = errors.Join(command.Wait(), err)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

// event is a line of `go test -json`: see `go doc test2json` and `go help buildjson`.
type event struct {
	Action, Package, Test, Output, Key, Value string
	Elapsed                                   float64 // seconds
}

// worthShowing is the time of the quickest test among the slowest ones.
const worthShowing = 500 * time.Millisecond

// test is one with its subtests.
type test struct {
	pkg, name string
	took      time.Duration
}

// results are those of all packages so far.
type results struct {
	out io.Writer
	// outputs of packages and tests that have not ended, by package and test. The output
	// of the package itself is at "".
	outputs   map[string]map[string]string
	slowest   map[string]map[string]time.Duration
	ran       []test
	failed    []string
	summaries []string
}

// show prints results from the output of `go test -json`.
func show(out io.Writer, in io.Reader) error {
	r := &results{out: out, outputs: map[string]map[string]string{}, slowest: map[string]map[string]time.Duration{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.add(e)
		} else if len(line) > 0 {
			r.print(string(line)) // an error of the go command
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	r.end()
	return nil
}

func (r *results) print(s string) { _, _ = io.WriteString(r.out, s) }

func (r *results) add(e event) {
	if r.outputs[e.Package] == nil {
		r.outputs[e.Package], r.slowest[e.Package] = map[string]string{}, map[string]time.Duration{}
	}
	outputs := r.outputs[e.Package]
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "output":
		outputs[e.Test] += e.Output
	case "attr":
		if e.Key == "summary" {
			r.summaries = append(r.summaries, fmt.Sprintf("%s: %s: %s\n", path.Base(e.Package), e.Test, e.Value))
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
			return
		}
		if e.Action == "fail" {
			r.print(outputs[e.Test])
			r.failed = append(r.failed, e.Package+" "+e.Test)
		}
		delete(outputs, e.Test)
		// The time of a test does not contain that of its parallel subtests.
		name, _, _ := strings.Cut(e.Test, "/")
		times := r.slowest[e.Package]
		times[name] = max(times[name], time.Duration(e.Elapsed*float64(time.Second)))
	}
}

// endPackage prints the last line of a package. If the package failed, it prints what
// came before too, and the output of tests that did not end.
func (r *results) endPackage(e event) {
	outputs := r.outputs[e.Package]
	whole := strings.TrimRight(outputs[""], "\n")
	last := whole[strings.LastIndex(whole, "\n")+1:]
	switch e.Action {
	case "fail":
		for name, output := range outputs {
			if name != "" {
				r.print(output)
				r.failed = append(r.failed, e.Package+" "+name)
			}
		}
		if !slices.ContainsFunc(r.failed, func(f string) bool { return strings.HasPrefix(f, e.Package+" ") }) {
			r.failed = append(r.failed, e.Package)
		}
		r.print(whole + "\n")
	case "pass":
		r.print(last + "\n")
	}
	if !strings.Contains(last, "(cached)") {
		for name, took := range r.slowest[e.Package] {
			r.ran = append(r.ran, test{e.Package, name, took})
		}
	}
	delete(r.outputs, e.Package)
	delete(r.slowest, e.Package)
}

func (r *results) end() {
	for _, s := range r.summaries {
		r.print(s)
	}
	r.ran = slices.DeleteFunc(r.ran, func(t test) bool { return t.took < worthShowing })
	slices.SortFunc(r.ran, func(a, b test) int { return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.name, b.name)) })
	if len(r.ran) > 0 {
		r.print("\nThe slowest tests:\n")
	}
	for _, t := range r.ran[:min(10, len(r.ran))] {
		r.print(fmt.Sprintf("%7.1f s  %s %s\n", t.took.Seconds(), path.Base(t.pkg), t.name))
	}
	if len(r.failed) > 0 {
		r.print("\nFailed:\n  " + strings.Join(r.failed, "\n  ") + "\n")
	}
}
