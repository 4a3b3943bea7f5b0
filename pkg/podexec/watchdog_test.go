package podexec

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// shellsHere returns the shells of this machine, as commands that behave like sh.
func shellsHere(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, argv := range map[string][]string{"dash": {"dash"}, "busybox": {"busybox", "sh"}, "bash": {"bash", "--posix"}} {
		if path, err := exec.LookPath(argv[0]); err == nil {
			found[name] = append([]string{path}, argv[1:]...)
		}
	}
	if len(found) == 0 {
		t.Skip("no shell found on this machine")
	}
	return found
}

// ran is the result of a command under the watchdog.
type ran struct {
	output string
	end    *commandExit
	begun  bool
	took   time.Duration
}

// runGuarded runs a command under the watchdog, as a node would. It returns when all
// its streams are closed.
func runGuarded(t *testing.T, shell, env, command []string, limit time.Duration) ran {
	t.Helper()
	const mark = "MARK"
	var out output
	s := newReportFilter(&out, mark)
	argv := withWatchdog(mark, command, limit)
	cmd := exec.Command(shell[0], slices.Concat(shell[1:], argv[1:])...)
	cmd.Stdout, cmd.Stderr = &out, s
	cmd.WaitDelay = 20 * time.Second // then a test fails because of the process left behind
	cmd.Env = append(os.Environ(), env...)
	begun := time.Now()
	err := cmd.Run()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	r := ran{took: time.Since(begun)}
	r.begun, r.end = s.close()
	r.output, _ = out.read()
	return r
}

func TestWatchdog(t *testing.T) {
	const hour = time.Hour
	for name, tc := range map[string]struct {
		command []string
		env     []string
		limit   time.Duration
		output  string
		end     commandExit
	}{
		"forwards output and exit code":        {command: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, limit: hour, output: "out\nerr\n", end: commandExit{code: 3}},
		"ends with the command":                {command: []string{"true"}, limit: hour},
		"kills at the deadline":                {command: []string{"sleep", "60"}, limit: time.Second, end: commandExit{code: killedExitCode, timedOut: true}},
		"kills the command's children":         {command: []string{"sh", "-c", "sleep 60 & sleep 60; exit 1"}, limit: time.Second, end: commandExit{code: killedExitCode, timedOut: true}},
		"kills a command that ignores signals": {command: []string{"sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"}, limit: time.Second, end: commandExit{code: killedExitCode, timedOut: true}},
		"killed by its own signal 9":           {command: []string{"sh", "-c", "kill -9 $$"}, limit: hour, end: commandExit{code: killedExitCode}},
		"does not run shell builtins":          {command: []string{"exit", "0"}, limit: hour, end: commandExit{code: 127}},
		"keeps the environment":                {command: []string{"sh", "-c", "echo $mark $limit $t $c $s $w"}, env: []string{"mark=1", "limit=2", "t=3", "c=4", "s=5", "w=6"}, limit: hour, output: "1 2 3 4 5 6\n"},
		"closes standard input":                {command: []string{"cat"}, limit: hour},
		"keeps arguments":                      {command: []string{"printf", "%s|", "a b", "", "$HOME", "*", "-n"}, limit: hour, output: "a b||$HOME|*|-n|"},
	} {
		for shell, argv := range shellsHere(t) {
			t.Run(name+", by "+shell, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				tag := "bongsu_test_tag=" + rand.Text()
				r := runGuarded(t, argv, append(tc.env, tag), tc.command, tc.limit)
				g.Expect(r.begun).To(BeTrue())
				g.Expect(r.end).NotTo(BeNil(), r.output)
				g.Expect(*r.end).To(Equal(tc.end), r.output)
				g.Expect(r.took).To(BeNumerically("<", 20*time.Second))
				if tc.output != "" {
					g.Expect(strings.SplitAfter(r.output, "\n")).To(ConsistOf(strings.SplitAfter(tc.output, "\n")))
				}
				g.Eventually(func() []string { return processesWith(tag) }, 5*time.Second).Should(BeEmpty(), "a process was left behind")
			})
		}
	}
}

// processesWith returns the command lines of the processes that have a variable in
// their environment.
func processesWith(variable string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var found []string
	for _, file := range files {
		environ, _ := os.ReadFile(file)
		if !bytes.Contains(environ, []byte(variable+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, fmt.Sprintf("%q", line))
	}
	return found
}

func TestWatchdogOutlivesItsShell(t *testing.T) {
	for name, tc := range map[string]struct {
		command []string
		limit   time.Duration
	}{
		"and kills":                 {[]string{"sleep", "60"}, 2 * time.Second},
		"and ends with the command": {[]string{"sleep", "2"}, time.Hour},
	} {
		for shell, argv := range shellsHere(t) {
			t.Run(name+", by "+shell, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				tag := "bongsu_test_tag=" + rand.Text()
				guard := withWatchdog("MARK", tc.command, tc.limit)
				cmd := exec.Command(argv[0], slices.Concat(argv[1:], guard[1:])...)
				cmd.Env = append(os.Environ(), tag)
				g.Expect(cmd.Start()).To(Succeed())
				sleep := HavePrefix(`"sleep`) // the command and the timer
				g.Eventually(func() []string { return processesWith(tag) }).Should(ContainElements(sleep, sleep))
				g.Expect(cmd.Process.Kill()).To(Succeed())
				_ = cmd.Wait()
				g.Expect(processesWith(tag)).NotTo(BeEmpty())
				g.Eventually(func() []string { return processesWith(tag) }, 20*time.Second).Should(BeEmpty())
			})
		}
	}
}

func TestWatchdogWithoutSetsidKillsTheCommand(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "PATH=" + toolsIn(t, "sleep")
			r := runGuarded(t, argv, []string{path}, []string{"sleep", "60"}, time.Second)
			NewWithT(t).Expect(r.end).To(Equal(&commandExit{code: killedExitCode, timedOut: true}), r.output)
		})
	}
}

func TestWatchdogWithoutSleepKillsNothing(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "busybox" {
				t.Skip("busybox has a sleep builtin")
			}
			path := "PATH=" + toolsIn(t, "sh")
			r := runGuarded(t, argv, []string{path}, []string{"sh", "-c", "echo done"}, time.Second)
			NewWithT(t).Expect(r.end).To(Equal(&commandExit{}), r.output)
			NewWithT(t).Expect(r.output).To(Equal("done\n"))
		})
	}
}

// toolsIn returns a directory that contains only these programs.
func toolsIn(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path, err := exec.LookPath(name)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(os.Symlink(path, filepath.Join(dir, name))).To(Succeed())
	}
	return dir
}

func TestGuardedCountsWholeSeconds(t *testing.T) {
	for limit, want := range map[time.Duration]string{
		0: "1", time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Hour: "3600",
	} {
		got := withWatchdog("MARK", []string{"a", "b"}, limit)
		NewWithT(t).Expect(got[3:]).To(Equal([]string{"sh", "MARK", want, "a", "b"}), limit.String())
	}
}

func TestReportFilter(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, tc := range map[string]struct {
		in    string
		out   string
		begun bool
		end   *commandExit
	}{
		"no report":                       {in: "a\nb", out: "a\nb"},
		"both reports":                    {in: "MARK begun 0\na\nMARK ended 3\n", out: "a\n", begun: true, end: &commandExit{code: 3}},
		"report within a line":            {in: "MARK begun 0\naMARK ended 0\n", out: "a", begun: true, end: &commandExit{}},
		"output after the report":         {in: "MARK ended 0\nlater\n", out: "later\n", end: &commandExit{}},
		"killed":                          {in: "MARK killed 137\n", end: &commandExit{code: 137, timedOut: true}},
		"ended just before it was killed": {in: "MARK killed 0\n", end: &commandExit{}},
		"second report is ignored":        {in: "MARK ended 1\nMARK ended 0\n", end: &commandExit{code: 1}},
		"incomplete report":               {in: "MARK end", out: "MARK end"},
		"incomplete marker":               {in: "a MAR", out: "a MAR"},
		"marker after a partial one":      {in: "MAMARK ended 0\n", out: "MA", end: &commandExit{}},
		"marker in a long line":           {in: "sh MARK 5 " + long, out: "sh MARK 5 " + long},
		"marker without a report":         {in: "MARK\n", out: ""},
	} {
		for _, size := range []int{1, 3, 1000} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				var o output
				s := newReportFilter(&o, "MARK")
				for rest := []byte(tc.in); len(rest) > 0; {
					n := min(size, len(rest))
					g.Expect(s.Write(rest[:n])).To(Equal(n))
					rest = rest[n:]
				}
				begun, e := s.close()
				kept, _ := o.read()
				g.Expect(kept).To(Equal(tc.out))
				g.Expect(begun).To(Equal(tc.begun))
				g.Expect(e).To(Equal(tc.end))
			})
		}
	}
}
