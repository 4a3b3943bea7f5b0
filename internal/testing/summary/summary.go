// Package summary keeps what tests have to tell people, as `go test` shows nothing
// of what a test prints that passes. `make test` shows it, also of tests whose
// result was cached.
package summary

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// dirEnv names the directory for the summaries, which exists. hack/test.sh sets it.
const dirEnv = "BONGSU_TEST_SUMMARIES"

// longAgo is when all summaries are said to have been written. For `go test` they
// are files that a test uses: a result is not cached if one is new, and not taken
// from the cache if one is not there any more.
var longAgo = time.Unix(0, 0)

// Summary is that of one test: a line.
type Summary struct {
	t    *testing.T
	pkg  string
	file string // empty if nobody wants it
}

// New returns the summary of a test that begins. What it said formerly is forgotten.
func New(t *testing.T) *Summary {
	t.Helper()
	s := &Summary{t: t, pkg: packageOfTests()}
	if dir := os.Getenv(dirEnv); dir != "" {
		s.file = filepath.Join(dir, strings.ReplaceAll(s.pkg+"."+t.Name(), "/", "_"))
		if err := os.Remove(s.file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return s
}

// Printf says it in the test's log, and at the end of `make test`.
func (s *Summary) Printf(format string, args ...any) {
	s.t.Helper()
	text := fmt.Sprintf(format, args...)
	s.t.Log(text)
	if s.file == "" {
		return
	}
	line := fmt.Sprintf("%s: %s: %s\n", path.Base(s.pkg), s.t.Name(), text)
	if err := os.WriteFile(s.file, []byte(line), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chtimes(s.file, longAgo, longAgo); err != nil {
		s.t.Fatal(err)
	}
}

// packageOfTests is the import path of the package whose tests run.
func packageOfTests() string {
	info, _ := debug.ReadBuildInfo() // the go command always writes it
	return strings.TrimSuffix(info.Path, ".test")
}
