package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one patch, and the tests that must notice it.
type mutant struct {
	name  string     // of the file, without .patch
	path  string     // absolute
	tests []testArgs // at least one; each must fail
}

// testArgs are the arguments of a `go test`, as the header has them.
type testArgs []string

// String is the command line, for the reader.
func (a testArgs) String() string { return "go test " + strings.Join(a, " ") }

// module splits off `-C DIR`, for a test of another module of the repository: the Go
// command demands that it comes first.
func (a testArgs) module() (dir, rest []string) {
	if len(a) > 1 && a[0] == "-C" {
		return a[:2], a[2:]
	}
	return nil, a
}

// load reads the patches of a directory, in the order of their names.
func load(dir string, only *regexp.Regexp) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if !only.MatchString(name) {
			continue
		}
		m, err := loadOne(name, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutant in %s matches %q", dir, only)
	}
	return mutants, nil
}

func loadOne(name, path string) (mutant, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return mutant{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return mutant{}, err
	}
	defer func() { _ = f.Close() }()
	tests, err := parseHeader(f)
	return mutant{name: name, path: path, tests: tests}, err
}

const (
	testHeader  = "# test:"
	testCommand = "go test "
)

// parseHeader reads the lines before the diff.
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
		return nil, fmt.Errorf("no line %q before the diff", testHeader+" "+testCommand+"PACKAGE -run TEST")
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

var errQuote = errors.New("quote without an end")

// splitWords splits at blanks, as a shell does for words and for '...' and "..."
// without escapes.
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
