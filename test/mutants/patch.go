package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one patch and the tests that must notice it.
type mutant struct {
	name  string     // the file name without .patch
	path  string     // absolute
	tests []testArgs // at least one; each must fail
}

// testArgs are the arguments of a `go test` in a patch's header.
type testArgs []string

// String returns the command line.
func (a testArgs) String() string { return "go test " + strings.Join(a, " ") }

// module splits off `-C DIR`, which selects another module of the repository. The
// go command requires it to be the first flag.
func (a testArgs) module() (dir, rest []string) {
	if len(a) > 1 && a[0] == "-C" {
		return a[:2], a[2:]
	}
	return nil, a
}

// load reads the patches of a directory, sorted by name.
func load(dir string) ([]mutant, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, path := range paths {
		tests, err := readTests(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		mutants = append(mutants, mutant{
			name: strings.TrimSuffix(filepath.Base(path), ".patch"), path: path, tests: tests,
		})
	}
	return mutants, nil
}

func readTests(path string) ([]testArgs, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return parseHeader(f)
}

const (
	testHeader  = "# test:"
	testCommand = "go test "
)

// parseHeader reads the tests from the lines above the diff. It returns an error if
// there is none.
func parseHeader(r io.Reader) ([]testArgs, error) {
	var tests []testArgs
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ") {
			break
		}
		command, ok := strings.CutPrefix(line, testHeader)
		if !ok {
			continue
		}
		args, err := parseCommand(command)
		if err != nil {
			return nil, err
		}
		tests = append(tests, args)
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no test is named: add a line %q above the diff", testHeader+" "+testCommand+"PACKAGE -run TEST")
	}
	return tests, lines.Err()
}

func parseCommand(command string) (testArgs, error) {
	command = strings.TrimSpace(command)
	rest, ok := strings.CutPrefix(command, testCommand)
	if !ok {
		return nil, fmt.Errorf("%q does not begin with %q", command, testCommand)
	}
	return splitWords(rest)
}

var errQuote = errors.New("quote is not closed")

// splitWords splits at blanks like a shell. It understands '...' and "..." and no
// escapes.
func splitWords(s string) ([]string, error) {
	var words []string
	for s = strings.TrimLeft(s, " \t"); s != ""; s = strings.TrimLeft(s, " \t") {
		word, rest, err := nextWord(s)
		if err != nil {
			return nil, err
		}
		words, s = append(words, word), rest
	}
	return words, nil
}

func nextWord(s string) (word, rest string, err error) {
	for s != "" && !strings.ContainsAny(s[:1], " \t") {
		if quote := s[:1]; quote == "'" || quote == `"` {
			quoted, after, ok := strings.Cut(s[1:], quote)
			if !ok {
				return "", "", fmt.Errorf("%w: %s", errQuote, s)
			}
			word, s = word+quoted, after
			continue
		}
		end := strings.IndexAny(s, " \t'\"")
		if end < 0 {
			end = len(s)
		}
		word, s = word+s[:end], s[end:]
	}
	return word, s, nil
}
