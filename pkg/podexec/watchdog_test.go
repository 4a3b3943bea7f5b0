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

// shellsHere are the shells of this machine, each as one that is called sh.
func shellsHere(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, argv := range map[string][]string{"dash": {"dash"}, "busybox": {"busybox", "sh"}, "bash": {"bash", "--posix"}} {
		if path, err := exec.LookPath(argv[0]); err == nil {
			found[name] = append([]string{path}, argv[1:]...)
		}
	}
	if len(found) == 0 {
		t.Skip("there is no shell on this machine")
	}
	return found
}

// ran is what became of a guarded command.
type ran struct {
	output string
	end    *end
	begun  bool
	took   time.Duration
}

// runGuarded runs a command with the watchdog around it, as a node would. It returns
// when nobody has its streams any more.
func runGuarded(t *testing.T, shell, env, command []string, limit time.Duration) ran {
	t.Helper()
	const mark = "MARK"
	var out output
	s := newSieve(&out, mark)
	argv := guarded(mark, command, limit)
	cmd := exec.Command(shell[0], slices.Concat(shell[1:], argv[1:])...)
	cmd.Stdout, cmd.Stderr = &out, s
	cmd.WaitDelay = 20 * time.Second // of what is left behind, a test complains
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
		end     end
	}{
		"passes output and exit code on":          {command: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, limit: hour, output: "out\nerr\n", end: end{code: 3}},
		"ends with a command that ends well":      {command: []string{"true"}, limit: hour},
		"kills at the deadline":                   {command: []string{"sleep", "60"}, limit: time.Second, end: end{code: killed, late: true}},
		"kills the command's children":            {command: []string{"sh", "-c", "sleep 60 & sleep 60; exit 1"}, limit: time.Second, end: end{code: killed, late: true}},
		"kills who ignores signals":               {command: []string{"sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"}, limit: time.Second, end: end{code: killed, late: true}},
		"an own death by signal 9 is no deadline": {command: []string{"sh", "-c", "kill -9 $$"}, limit: hour, end: end{code: killed}},
		"runs programs, not words of the shell":   {command: []string{"exit", "0"}, limit: hour, end: end{code: 127}},
		"leaves the environment alone":            {command: []string{"sh", "-c", "echo $mark $limit $t $c $s $w"}, env: []string{"mark=1", "limit=2", "t=3", "c=4", "s=5", "w=6"}, limit: hour, output: "1 2 3 4 5 6\n"},
		"gives the command nothing to read":       {command: []string{"cat"}, limit: hour},
		"keeps arguments as they are":             {command: []string{"printf", "%s|", "a b", "", "$HOME", "*", "-n"}, limit: hour, output: "a b||$HOME|*|-n|"},
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
				g.Eventually(func() []string { return processesWith(tag) }, 5*time.Second).Should(BeEmpty(), "it has left something behind")
			})
		}
	}
}

// processesWith returns the command lines of the processes with a variable in their
// environment.
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

// The shell is killed, as by a node that gives up on it: the command is not left alone,
// nor is the watchdog left behind.
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
				guard := guarded("MARK", tc.command, tc.limit)
				cmd := exec.Command(argv[0], slices.Concat(argv[1:], guard[1:])...)
				cmd.Env = append(os.Environ(), tag)
				g.Expect(cmd.Start()).To(Succeed())
				sleep := HavePrefix(`"sleep`) // the command, and what counts the seconds
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
			NewWithT(t).Expect(r.end).To(Equal(&end{code: killed, late: true}), r.output)
		})
	}
}

// Where the seconds can not be counted, a command must not be killed at once.
func TestWatchdogWithoutSleepKillsNothing(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "busybox" {
				t.Skip("it brings its sleep along")
			}
			path := "PATH=" + toolsIn(t, "sh")
			r := runGuarded(t, argv, []string{path}, []string{"sh", "-c", "echo done"}, time.Second)
			NewWithT(t).Expect(r.end).To(Equal(&end{}), r.output)
			NewWithT(t).Expect(r.output).To(Equal("done\n"))
		})
	}
}

// toolsIn returns a directory of these programs alone.
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
		got := guarded("MARK", []string{"a", "b"}, limit)
		NewWithT(t).Expect(got[3:]).To(Equal([]string{"sh", "MARK", want, "a", "b"}), limit.String())
	}
}
