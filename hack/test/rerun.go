package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxTests is the number of failed tests above which none runs again: something is wrong.
	maxTests = 5
	// maxReruns is how often a test runs again.
	maxReruns = 2
	// maxLines limits the output of a failed test in the list of those that ran again.
	maxLines = 20

	// allowed and never are values of the attribute "rerun". A test with random input says
	// never, because it would run with other input.
	allowed, never = "allowed", "never"
)

// mayRunAgain reports whether the failed tests may run again. If one may not, none does,
// because the result is the same.
func (r *results) mayRunAgain() bool {
	tests := r.failedTests()
	return !r.abnormal && len(tests) > 0 && len(tests) <= maxTests &&
		!slices.ContainsFunc(tests, func(t name) bool { return r.reruns[t] != allowed })
}

// failedTests returns the failed tests without their subtests.
func (r *results) failedTests() []name {
	var tests []name
	for _, f := range r.failed {
		if !slices.Contains(tests, f.root()) {
			tests = append(tests, f.root())
		}
	}
	return tests
}

// runAgain runs each failed test again, alone and at most twice. It reports whether each
// has passed then, and leaves those in r.failed that have not.
func (r *results) runAgain(args []string) bool {
	var failed []name
	for _, test := range r.failedTests() {
		result, passed := "failed again", false
		for n := 1; n <= maxReruns && !passed; n++ {
			r.print(fmt.Sprintf("\nRunning %s again, %d of %d times.\n", test, n, maxReruns))
			again, err := goTest(r.out, rerunArgs(args, test))
			if err == nil && slices.Contains(again.passed, test) {
				result, passed = fmt.Sprintf("passed when it ran again, %d of %d times", n, maxReruns), true
			}
		}
		if !passed {
			failed = append(failed, test)
		}
		r.ranAgain = append(r.ranAgain, fmt.Sprintf("  %s %s. It failed with:\n%s", test, result, r.outputOf(test)))
	}
	r.failed = failed
	return len(failed) == 0
}

// outputOf returns the first lines of a failed test and its failed subtests.
func (r *results) outputOf(test name) string {
	var lines []string
	for _, f := range r.failed {
		if f.root() == test {
			lines = append(lines, strings.Split(strings.TrimRight(r.failedOutput[f], "\n"), "\n")...)
		}
	}
	return "    " + strings.Join(lines[:min(maxLines, len(lines))], "\n    ") + "\n"
}

// rerunArgs returns the arguments of `go test` for one test. Arguments that are no packages
// stay, and the last -run and -count apply.
func rerunArgs(args []string, test name) []string {
	flags := slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "github.com/")
	})
	return append([]string{test.pkg}, append(flags, "-count=1", "-run=^"+regexp.QuoteMeta(test.test)+"$")...)
}
