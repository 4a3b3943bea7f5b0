// Wording checks the language of documentation, comments and messages. It finds words
// that slow readers down, long sentences, and statements that open with a relative word:
//
//	go run ./hack/wording -help
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// errFindings is the failure that the printed findings explain.
var errFindings = errors.New("the wording check has findings")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFindings):
		os.Exit(1)
	default:
		_, _ = fmt.Fprintln(os.Stderr, "wording:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("wording", flag.ContinueOnError)
	count := flags.Bool("count", false, "print only the number of findings in each directory")
	flags.Usage = func() { printUsage(flags) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := listFiles(ctx, flags.Args())
	if err != nil {
		return err
	}
	found, err := checkFiles(files)
	if err != nil {
		return err
	}
	if *count {
		printCounts(out, found)
	} else {
		printFindings(out, found)
	}
	if len(found) > 0 {
		return errFindings
	}
	return nil
}

func printUsage(flags *flag.FlagSet) {
	out := flags.Output()
	_, _ = fmt.Fprint(out, `usage: go run ./hack/wording [flags] [path...]

Checks the wording of Markdown, and of comments and messages in Go, shell scripts,
Makefiles, YAML and Helm templates. In Go, it also checks names of test cases, other
strings of tests, and identifiers. Run it in the root of the repository. Without a path, it checks each file that Git does not
ignore, except generated files (.gitattributes) and testdata. The exit code is 1
if there are findings.

Flags:
`)
	flags.PrintDefaults()
	_, _ = fmt.Fprintf(out, `
Rules:
  - A sentence has at most %d words. Code and addresses count as one word.
  - No statement opens with What, That, Of or Who. A question ends with "?".
  - No causative, such as "has the pod checked": write %s.
  - Words that are not used, as regular expressions, and what to write instead:
`, maxWords, causativeInstead)
	printTerms(out, terms)
	_, _ = fmt.Fprint(out, `  - In other strings of tests, only these words are checked. Identifiers of Go contain
    neither them nor these:
`)
	printTerms(out, codeTerms)
	_, _ = fmt.Fprint(out, `
Exceptions: put a comment "wording:ok REASON" at the end of the line, or add an
entry to hack/wording/exceptions.txt.
`)
}

func printTerms(out io.Writer, terms []term) {
	for _, t := range terms {
		_, _ = fmt.Fprintf(out, "      %s\n          %s\n", t.pattern, t.instead)
	}
}

func printFindings(out io.Writer, found []finding) {
	for _, f := range found {
		_, _ = fmt.Fprintln(out, f)
	}
}

// printCounts prints how many findings each directory has, the most first.
func printCounts(out io.Writer, found []finding) {
	counts := map[string]int{}
	for _, f := range found {
		counts[path.Dir(f.path)]++
	}
	dirs := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for _, dir := range dirs {
		_, _ = fmt.Fprintf(out, "%6d %s\n", counts[dir], dir)
	}
	_, _ = fmt.Fprintf(out, "%6d in total\n", len(found))
}

//go:embed exceptions.txt
var exceptionList string

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

// parseExceptions reads entries of the form "path | text | reason".
func parseExceptions(list string) ([]exception, error) {
	var found []exception
	for _, entry := range entries(list) {
		columns := strings.Split(entry, " | ")
		if len(columns) != 3 {
			return nil, fmt.Errorf("exceptions.txt: invalid entry %q: write path | text | reason", entry)
		}
		found = append(found, exception{columns[0], columns[1], columns[2]})
	}
	return found, nil
}

func (e exception) covers(f finding) bool {
	return isWithin(f.path, e.path) && (e.text == "*" || strings.Contains(oneLine(f.sentence), e.text))
}

// isWithin reports whether a file is at a path or below it.
func isWithin(file, path string) bool {
	return path == "." || file == path || strings.HasPrefix(file, path+"/")
}

// listFiles returns the files at some paths, by default all, that Git does not ignore
// and .gitattributes does not call generated.
func listFiles(ctx context.Context, paths []string) ([]string, error) {
	// Git does not apply attributes to a directory that is itself a pathspec, so that
	// the paths are compared here.
	list, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"--deduplicate", "--", ":(exclude,attr:linguist-generated)").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var wanted, files []string
	for _, p := range paths {
		wanted = append(wanted, path.Clean(p))
	}
	if len(wanted) == 0 {
		wanted = []string{"."}
	}
	for file := range strings.SplitSeq(string(list), "\x00") {
		isIn := func(p string) bool { return isWithin(file, p) }
		if file != "" && !strings.Contains(file, "/testdata/") && slices.ContainsFunc(wanted, isIn) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("there are no files to check: name paths in the repository that are not generated")
	}
	return files, nil
}

// checkFiles returns the findings in all files, in the order of the files.
func checkFiles(files []string) ([]finding, error) {
	exceptions, err := parseExceptions(exceptionList)
	if err != nil {
		return nil, err
	}
	byFile := make([][]finding, len(files))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range files {
		group.Go(func() error {
			content, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) {
				return nil // it is deleted, but still in the index
			}
			if err == nil {
				byFile[i], err = checkFile(file, content, exceptions)
			}
			return err
		})
	}
	err = group.Wait()
	return slices.Concat(byFile...), err
}

// checkFile returns the findings in a file that no exception covers, by line.
func checkFile(file string, content []byte, exceptions []exception) ([]finding, error) {
	passages, err := extract(file, content)
	if err != nil {
		return nil, err
	}
	var found []finding
	marks := markedLines(content)
	for number, reason := range marks {
		if reason == "" {
			found = append(found, finding{path: file, line: number, problem: "wording:ok has no reason: write it behind"})
		}
	}
	for _, p := range passages {
		found = append(found, check(file, p)...)
	}
	found = slices.DeleteFunc(found, func(f finding) bool {
		covers := func(e exception) bool { return e.covers(f) }
		return marks[f.line] != "" || slices.ContainsFunc(exceptions, covers)
	})
	slices.SortStableFunc(found, func(a, b finding) int { return a.line - b.line })
	return found, nil
}

// mark excepts a line. Its reason must follow.
var mark = regexp.MustCompile(`(?://|#|<!--)[ \t]*wording:ok\b(.*)`)

// markedLines returns the reasons of exceptions by line.
func markedLines(content []byte) map[int]string {
	reasons := map[int]string{}
	for _, at := range mark.FindAllSubmatchIndex(content, -1) {
		reason := strings.TrimSuffix(string(content[at[2]:at[3]]), "-->")
		reasons[lineOf(content, at[0])] = strings.TrimSpace(reason)
	}
	return reasons
}

// lineOf returns the number of the line that contains an offset.
func lineOf(content []byte, offset int) int {
	return 1 + bytes.Count(content[:offset], []byte("\n"))
}
