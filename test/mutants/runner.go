package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// testTimeout is the time that one run of one test may take. A patch's header can
// set its own -timeout.
const testTimeout = 5 * time.Minute

// runner runs the mutants one after the other and prints each result.
type runner struct {
	tree      tree
	verbose   bool
	baselines map[string]error // by command: nil if the test passes on the unchanged code
	out       io.Writer
}

var (
	errSurvived  = errors.New("passes on the mutant: the test does not check what the mutant breaks")
	errNotRun    = errors.New("no test finished: check the test's name and whether it is skipped")
	errNoBuild   = errors.New("does not compile")
	errAlwaysRed = errors.New("fails on the unchanged code")
)

// runAll returns errNotAllCaught if a mutant survived or is broken.
func (r *runner) runAll(ctx context.Context, mutants []mutant) error {
	caught := 0
	for _, m := range mutants {
		start := time.Now()
		second, err := r.runOne(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			caught++
		}
		r.print(m, second, err, time.Since(start))
	}
	_, _ = fmt.Fprintf(r.out, "%d passed, %d failed\n", caught, len(mutants)-caught)
	if caught < len(mutants) {
		return errNotAllCaught
	}
	return nil
}

func (r *runner) print(m mutant, second bool, err error, took time.Duration) {
	result, note := "caught", ""
	switch {
	case err == nil && second:
		note = ", in the second run"
	case errors.Is(err, errSurvived):
		result = "SURVIVED"
	case err != nil:
		result = "BROKEN"
	}
	_, _ = fmt.Fprintf(r.out, "%-8s  %-44s %6.1fs%s\n", result, m.name, took.Seconds(), note)
	if err != nil {
		_, _ = fmt.Fprintf(r.out, "          %v\n", err)
	}
}

// runOne returns nil if every test of the mutant notices it, and whether a test
// needed a second run.
func (r *runner) runOne(ctx context.Context, m mutant) (second bool, err error) {
	for _, test := range m.tests {
		if err := r.baseline(ctx, test); err != nil {
			return false, err
		}
	}
	if err := r.tree.applyPatch(ctx, m.path); err != nil {
		return false, err
	}
	var errs []error
	for _, test := range m.tests {
		again, err := r.notices(ctx, test)
		second, errs = second || again, append(errs, err)
	}
	return second, errors.Join(append(errs, r.tree.revertPatch(ctx, m.path))...)
}

// baseline returns an error if a test does not pass on the unchanged code. It runs
// each test once.
func (r *runner) baseline(ctx context.Context, test testArgs) error {
	err, known := r.baselines[test.String()]
	if !known {
		err = r.expect(ctx, test, passed)
		r.baselines[test.String()] = err
	}
	return err
}

// notices returns nil if the test fails, and whether it ran twice. A test that passes
// gets a second run, because on a real cluster the result can depend on timing.
func (r *runner) notices(ctx context.Context, test testArgs) (second bool, err error) {
	if err := r.expect(ctx, test, failed); !errors.Is(err, errSurvived) {
		return false, err
	}
	uncached := append(testArgs{"-count=1"}, test...) // the cache holds the first run
	return true, r.expect(ctx, uncached, failed)
}

// expect runs a test. If the outcome is not the wanted one, the error ends with the
// last lines of the test's output.
func (r *runner) expect(ctx context.Context, test testArgs, want outcome) error {
	got, output, err := r.tree.goTest(ctx, test)
	if err != nil {
		return fmt.Errorf("%s: %w", test, err)
	}
	if r.verbose {
		_, _ = fmt.Fprintf(r.out, "--> %s\n%s", test, output)
	}
	if got == want {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", test, got.unwanted(), tail(output, 2000))
}

// tail returns the end of a text, from the beginning of a line.
func tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[len(s)-limit:]
	if _, lines, ok := strings.Cut(s, "\n"); ok {
		return "...\n" + lines
	}
	return s
}

// outcome is the result of one `go test`; for several packages, the greatest one.
type outcome int

const (
	notRun  outcome = iota // no test passed or failed
	passed                 // a test passed, none failed
	failed                 // a test failed, panicked or took too long
	noBuild                // the code or the test does not compile
)

// unwanted returns the error of an outcome that is not the wanted one.
func (o outcome) unwanted() error {
	switch o {
	case passed:
		return errSurvived
	case failed:
		return errAlwaysRed
	case noBuild:
		return errNoBuild
	case notRun:
	}
	return errNotRun
}

// goTest runs a test in the tree and returns its outcome and output.
func (t tree) goTest(ctx context.Context, args testArgs) (outcome, string, error) {
	module, rest := args.module()
	// The header's flags come last, so that they win. Vet is off because a mutant may
	// contain code that vet rejects.
	all := slices.Concat([]string{"test"}, module, []string{"-json", "-vet=off", "-timeout=" + testTimeout.String()}, rest)
	var stdout, stderr bytes.Buffer
	cmd := t.command(ctx, "go", all...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return notRun, "", ctx.Err()
	}
	result, output, err := readEvents(&stdout)
	if err != nil {
		return notRun, "", fmt.Errorf("%w; output of the go command: %s", errors.Join(err, runErr), stderr.String())
	}
	return result, output + stderr.String(), nil
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Test        string
	Output      string
	FailedBuild string
}

// readEvents returns the outcome and the output of one run.
func readEvents(r io.Reader) (outcome, string, error) {
	var output strings.Builder
	result := notRun
	for decoder := json.NewDecoder(r); ; {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return result, output.String(), nil
		}
		if err != nil {
			return notRun, "", fmt.Errorf("read the output of go test -json: %w", err)
		}
		output.WriteString(e.Output)
		result = max(result, e.outcome())
	}
}

// outcome returns the least outcome that the whole run can have after this event. It
// ignores the `pass` of a package, which also appears when no test ran.
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

// tree is a copy of the checkout, to which patches are applied.
type tree struct {
	dir string
	env []string // environment of the commands that run in it
}

// copyTree copies the files of the working directory that git tracks, and new files
// that git does not ignore. The tests use the control plane of the checkout.
func copyTree(ctx context.Context, root string) (tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return tree{}, err
	}
	files, err := listFiles(ctx, root)
	if err != nil {
		return tree{}, err
	}
	dir, err := os.MkdirTemp("", "bongsu-mutants-")
	if err != nil {
		return tree{}, err
	}
	t := tree{dir: dir, env: append(os.Environ(),
		"BONGSU_ASSETS="+filepath.Join(root, "bin", "k8s"),
		// Without it, git would look for a repository above the copy.
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
	)}
	for _, file := range files {
		err := copyFile(filepath.Join(root, file), filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, but still in git's index
		}
		if err != nil {
			t.remove()
			return tree{}, err
		}
	}
	return t, nil
}

func listFiles(ctx context.Context, root string) ([]string, error) {
	git := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the checkout: %w", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"), nil
}

// copyFile copies a file or a symbolic link.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

func (t tree) remove() { _ = os.RemoveAll(t.dir) }

// checkPatches returns an error for each patch that does not apply, or if a package that it changes
// does not compile. The go command takes longer to start than to compile a package, so patches of
// different files are compiled together. If that fails, each of them is compiled alone.
func (t tree) checkPatches(ctx context.Context, mutants []mutant) error {
	var errs []error
	for len(mutants) > 0 && ctx.Err() == nil {
		var together, later []mutant
		var all []string
		for _, m := range mutants {
			files, err := t.changedFiles(ctx, m.path)
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
			case slices.ContainsFunc(files, func(f string) bool { return slices.Contains(all, f) }):
				later = append(later, m)
			default:
				together, all = append(together, m), append(all, files...)
			}
		}
		if t.compile(ctx, together, all) != nil {
			for _, m := range together {
				files, err := t.changedFiles(ctx, m.path)
				if err == nil {
					err = t.compile(ctx, []mutant{m}, files)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
				}
			}
		}
		mutants = later
	}
	return errors.Join(errs...)
}

// changedFiles returns the files that a patch changes.
func (t tree) changedFiles(ctx context.Context, patch string) ([]string, error) {
	changed, err := t.command(ctx, "git", "apply", "--numstat", "-z", patch).Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the patch: %w", err)
	}
	var files []string
	for entry := range strings.SplitSeq(strings.Trim(string(changed), "\x00"), "\x00") {
		files = append(files, entry[strings.LastIndexByte(entry, '\t')+1:])
	}
	return files, nil
}

// compile applies the patches, compiles the packages of their files, and reverts the patches.
func (t tree) compile(ctx context.Context, mutants []mutant, files []string) (err error) {
	for _, m := range mutants {
		if err := t.applyPatch(ctx, m.path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.revertPatch(ctx, m.path)) }()
	}
	modules := map[string][]string{} // directories of packages, by the directory of their module
	for _, file := range files {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			module := t.moduleOf(file)
			dir, err := filepath.Rel(module, filepath.Dir(file))
			if err != nil {
				return err
			}
			modules[module] = append(modules[module], "./"+dir)
		}
	}
	for module, dirs := range modules {
		err = errors.Join(err, t.build(ctx, module, dirs))
	}
	return err
}

// moduleOf returns the directory of the module that contains a file.
func (t tree) moduleOf(file string) string {
	for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(t.dir, dir, "go.mod")); err == nil {
			return dir
		}
	}
	return "."
}

// build compiles the packages of a module.
func (t tree) build(ctx context.Context, module string, dirs []string) error {
	output, err := t.command(ctx, "go", append([]string{"build", "-C", module, "-o", os.DevNull}, dirs...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", errNoBuild, bytes.TrimSpace(output))
	}
	return nil
}

func (t tree) applyPatch(ctx context.Context, patch string) error {
	return t.gitApply(ctx, patch)
}

func (t tree) revertPatch(ctx context.Context, patch string) error {
	return t.gitApply(ctx, "--reverse", patch)
}

func (t tree) gitApply(ctx context.Context, args ...string) error {
	git := t.command(ctx, "git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	output, err := git.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the patch does not apply: %s", bytes.TrimSpace(output))
	}
	return nil
}

func (t tree) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = t.dir, t.env
	// An interrupt gives a test the chance to stop the processes it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	return cmd
}
