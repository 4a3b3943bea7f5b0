// Wording checks the language of documentation, comments and messages: words that
// slow readers down, sentences that are too long, and sentences that open with a
// relative word. Run it with -help for the rules:
//
//	go run ./hack/wording [flags] [path...]
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// errFindings is the failure that the printed findings explain.
var errFindings = errors.New("the check has findings")

func main() {
	switch err := run(os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFindings):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "wording:", err)
		os.Exit(2)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("wording", flag.ContinueOnError)
	count := flags.Bool("count", false, "print only the number of findings of each directory")
	all := flags.Bool("all", false, "also check the paths that unchecked.txt lists")
	flags.Usage = func() { usage(flags) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	listed := unchecked()
	if *all {
		listed = nil
	}
	paths, err := listFiles(flags.Args(), listed)
	if err != nil {
		return err
	}
	found, err := checkFiles(paths)
	if err != nil {
		return err
	}
	if *count {
		printCounts(out, found)
	} else {
		for _, f := range found {
			fmt.Fprintln(out, f)
		}
	}
	if len(found) > 0 {
		return errFindings
	}
	return nil
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out, `usage: go run ./hack/wording [flags] [path...]

Checks the wording of Markdown, of comments and strings in Go, shell scripts,
Makefiles, YAML and Helm templates, and of the names of test cases. Without a
path, it checks every file that Git does not ignore, except generated files
(.gitattributes) and the paths in hack/wording/unchecked.txt. A path of that list
is checked if it is given. The exit code is 1 if there are findings.

Flags:
`)
	flags.PrintDefaults()
	fmt.Fprintf(out, `
Rules:
  - A sentence has at most %d words. Code and addresses count as one word.
  - No statement opens with What, That, Of or Who. Questions end with "?".
  - No causative: "has X looked at". Write: %s.
  - Words that are not used, as regular expressions, and what to write instead:
`, maxWords, causativeInstead)
	for _, t := range terms {
		fmt.Fprintf(out, "      %-55s %s\n", t.pattern, t.instead)
	}
	fmt.Fprint(out, `
Exceptions: end the line with a comment "wording:ok REASON", or add an entry to
hack/wording/exceptions.txt.
`)
}

var (
	//go:embed unchecked.txt
	uncheckedList string
	//go:embed exceptions.txt
	exceptionList string
)

// unchecked returns the paths that are not checked yet.
func unchecked() []string { return entries(uncheckedList) }

// entries returns the lines of a list without comments and empty lines.
func entries(list string) []string {
	var found []string
	for l := range strings.Lines(list) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			found = append(found, l)
		}
	}
	return found
}

// exception is a text that may break the rules in some files.
type exception struct {
	path, text, reason string
}

// parseExceptions reads lines of the form "path | text | reason".
func parseExceptions(list string) ([]exception, error) {
	var found []exception
	for _, l := range entries(list) {
		column := strings.Split(l, " | ")
		if len(column) != 3 {
			return nil, fmt.Errorf("exceptions.txt: %q: write path | text | reason", l)
		}
		found = append(found, exception{column[0], column[1], column[2]})
	}
	return found, nil
}

func (e exception) covers(f finding) bool {
	return within(f.path, e.path) && strings.Contains(oneLine(f.text), e.text)
}

// within reports whether a file is a path, or below it.
func within(file, path string) bool {
	return path == "." || file == path || strings.HasPrefix(file, strings.TrimSuffix(path, "/")+"/")
}

// listFiles returns the files at some paths, by default all, that Git does not ignore
// and .gitattributes does not call generated. It leaves out files below skipped paths,
// unless they are given.
func listFiles(paths, skipped []string) ([]string, error) {
	args := []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"}
	cmd := exec.Command("git", append(append(args, paths...), ":(exclude,attr:linguist-generated)")...)
	cmd.Stderr = os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for file := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		isSkipped := func(p string) bool { return within(file, p) && !slices.Contains(paths, p) }
		if !slices.ContainsFunc(skipped, isSkipped) && !strings.Contains(file, "/testdata/") {
			files = append(files, file)
		}
	}
	return files, nil
}

// checkFiles returns the findings of all files, in their order.
func checkFiles(paths []string) ([]finding, error) {
	exceptions, err := parseExceptions(exceptionList)
	if err != nil {
		return nil, err
	}
	byFile := make([][]finding, len(paths))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		group.Go(func() error {
			content, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				return nil // deleted, and not yet in the index
			}
			if err != nil {
				return err
			}
			byFile[i], err = checkFile(path, content, exceptions)
			return err
		})
	}
	err = group.Wait()
	return slices.Concat(byFile...), err
}

// allowed marks a line whose wording is excepted. A reason must follow.
var allowed = regexp.MustCompile(`(?://|#|<!--)\s*wording:ok\b[ \t]*(.*)`)

// checkFile returns the findings of a file that no exception covers.
func checkFile(path string, content []byte, exceptions []exception) ([]finding, error) {
	var found []finding
	excepted := map[int]bool{}
	if bytes.Contains(content, []byte("wording:ok")) {
		for _, l := range splitLines(string(content), 1, 1) {
			if m := allowed.FindStringSubmatch(l.text); m != nil {
				excepted[l.number] = true
				if !strings.ContainsFunc(m[1], isWordRune) {
					found = append(found, finding{path, l.number, "an exception without a reason: write it behind wording:ok", ""})
				}
			}
		}
		content = blank(allowed, content)
	}
	passages, err := extract(path, content)
	if err != nil {
		return nil, err
	}
	for _, p := range passages {
		for _, f := range check(path, p) {
			covers := func(e exception) bool { return e.covers(f) }
			if !excepted[f.line] && !slices.ContainsFunc(exceptions, covers) {
				found = append(found, f)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return a.line - b.line })
	return found, nil
}

// printCounts prints how many findings each directory has, the worst first.
func printCounts(out io.Writer, found []finding) {
	counts := map[string]int{}
	var dirs []string
	for _, f := range found {
		dir := path.Dir(f.path)
		if counts[dir] == 0 {
			dirs = append(dirs, dir)
		}
		counts[dir]++
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return counts[b] - counts[a] })
	for _, dir := range dirs {
		fmt.Fprintf(out, "%6d %s\n", counts[dir], dir)
	}
	fmt.Fprintf(out, "%6d in all\n", len(found))
}
