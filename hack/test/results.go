package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`: see `go doc test2json` and `go help buildjson`.
type event struct {
	Action, Package, Test, Output, Key, Value string
	Elapsed                                   float64 // seconds
}

// worthShowing is the time of the quickest test among the slowest ones.
const worthShowing = 500 * time.Millisecond

// name identifies a test. test is empty for a package.
type name struct{ pkg, test string }

func (n name) String() string { return strings.TrimSuffix(n.pkg+" "+n.test, " ") }

// root returns the test that contains a subtest.
func (n name) root() name {
	n.test, _, _ = strings.Cut(n.test, "/")
	return n
}

// timed is a test with its subtests.
type timed struct {
	name
	took time.Duration
}

// results are those of all packages so far.
type results struct {
	out io.Writer
	// outputs of packages and tests that have not ended, by package and test. The output
	// of the package itself is at "".
	outputs   map[string]map[string]string
	slowest   map[string]map[string]time.Duration
	ran       []timed
	summaries []string

	passed []name
	// failed are tests, and packages that failed without a failed test.
	failed []name
	// failedOutput is the output of each test that failed.
	failedOutput map[name]string
	// reruns has the value of the attribute "rerun", by the test and not its subtests.
	reruns map[name]string
	// abnormal means that a package failed in another way than by its tests.
	abnormal bool
	// ranAgain describes each test that ran again.
	ranAgain []string
}

// read prints the output of `go test -json` and returns the results.
func read(out io.Writer, in io.Reader) (*results, error) {
	r := &results{
		out: out, outputs: map[string]map[string]string{}, slowest: map[string]map[string]time.Duration{},
		failedOutput: map[name]string{}, reruns: map[name]string{},
	}
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
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
}

func (r *results) print(s string) { _, _ = io.WriteString(r.out, s) }

func (r *results) add(e event) {
	if r.outputs[e.Package] == nil {
		r.outputs[e.Package], r.slowest[e.Package] = map[string]string{}, map[string]time.Duration{}
	}
	outputs, test := r.outputs[e.Package], name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "build-fail":
		r.abnormal = true
	case "output":
		outputs[e.Test] += e.Output
	case "attr":
		switch e.Key {
		case "summary":
			r.summaries = append(r.summaries, fmt.Sprintf("%s: %s: %s\n", path.Base(e.Package), e.Test, e.Value))
		case "rerun":
			if r.reruns[test.root()] != never {
				r.reruns[test.root()] = e.Value
			}
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
			return
		}
		switch e.Action {
		case "pass":
			r.passed = append(r.passed, test)
		case "fail":
			r.fail(test, outputs[e.Test])
		}
		delete(outputs, e.Test)
		// The time of a test does not contain that of its parallel subtests.
		times := r.slowest[e.Package]
		times[test.root().test] = max(times[test.root().test], time.Duration(e.Elapsed*float64(time.Second)))
	}
}

func (r *results) fail(test name, output string) {
	r.print(output)
	r.failed = append(r.failed, test)
	r.failedOutput[test] = output
}

// endPackage prints the last line of a package. If the package failed, it prints what
// came before too, and the output of tests that did not end.
func (r *results) endPackage(e event) {
	outputs := r.outputs[e.Package]
	whole := strings.TrimRight(outputs[""], "\n")
	last := whole[strings.LastIndex(whole, "\n")+1:]
	switch e.Action {
	case "fail":
		for test, output := range outputs {
			if test != "" {
				r.fail(name{e.Package, test}, output)
				r.abnormal = true
			}
		}
		if !slices.ContainsFunc(r.failed, func(f name) bool { return f.pkg == e.Package }) {
			r.failed = append(r.failed, name{pkg: e.Package})
			r.abnormal = true
		}
		// After a panic, a timeout and os.Exit this line is missing.
		if !strings.Contains("\n"+whole, "\nFAIL\n") {
			r.abnormal = true
		}
		r.print(whole + "\n")
	case "pass":
		r.print(last + "\n")
	}
	if !strings.Contains(last, "(cached)") {
		for test, took := range r.slowest[e.Package] {
			r.ran = append(r.ran, timed{name{e.Package, test}, took})
		}
	}
	delete(r.outputs, e.Package)
	delete(r.slowest, e.Package)
}

func (r *results) end() {
	for _, s := range r.summaries {
		r.print(s)
	}
	r.ran = slices.DeleteFunc(r.ran, func(t timed) bool { return t.took < worthShowing })
	slices.SortFunc(r.ran, func(a, b timed) int { return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.test, b.test)) })
	if len(r.ran) > 0 {
		r.print("\nThe slowest tests:\n")
	}
	for _, t := range r.ran[:min(10, len(r.ran))] {
		r.print(fmt.Sprintf("%7.1f s  %s %s\n", t.took.Seconds(), path.Base(t.pkg), t.test))
	}
	if len(r.ranAgain) > 0 {
		r.print("\nRan again, and each is a defect:\n" + strings.Join(r.ranAgain, ""))
	}
	if len(r.failed) > 0 {
		r.print("\nFailed:\n")
		for _, f := range r.failed {
			r.print("  " + f.String() + "\n")
		}
	}
}
