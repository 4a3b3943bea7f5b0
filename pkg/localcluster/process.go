package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// process is a running component.
type process struct {
	component Component
	cmd       *exec.Cmd
	dir       layout
	exited    chan struct{} // closed after the end
	stopped   atomic.Bool   // the end is expected
}

// startProcess runs a component and writes its output to a new log. It keeps the log of
// the previous run.
func startProcess(dir layout, c Component, cmd *exec.Cmd) (*process, error) {
	if err := os.Rename(dir.log(c), dir.previousLog(c)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.OpenFile(dir.log(c), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()

	cmd.Dir = string(dir)
	cmd.Stdout, cmd.Stderr = log, log
	if err := StartChild(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c, err)
	}
	p := &process{component: c, cmd: cmd, dir: dir, exited: make(chan struct{})}
	go p.wait()
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(dir.pidFile(c), []byte(pid), 0o600); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// command returns the command of a component.
func (c *Cluster) command(component Component) *exec.Cmd {
	cmd := exec.Command(c.binary(string(component)), c.args(component)...)
	cmd.Env = c.environment(component)
	return cmd
}

// environment returns the variables of a component with this configuration.
func (c *Cluster) environment(component Component) []string {
	env := environment(c.dir)
	if component == Kwok && c.config.ExecPath != "" {
		env = append(env, "PATH="+c.config.ExecPath) // replaces the first PATH
	}
	if c.config.GCPercent != 0 {
		env = append(env, "GOGC="+strconv.Itoa(c.config.GCPercent))
	}
	return env
}

// environment returns the variables of any component. HOME points to the cluster's
// directory, so that the component does not touch the user's files.
func environment(dir layout) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + string(dir),
		"TMPDIR=" + dir.tmp(),
		"KWOK_WORKDIR=" + dir.tmp(),
	}
}

func (p *process) wait() {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	close(p.exited)
}

// stop asks the process to end, and kills it after the grace period or at the end of ctx.
// It returns when the process has ended.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	p.stopped.Store(true)
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-p.exited:
	case <-ctx.Done():
	}
	p.kill()
}

// kill kills the process if it runs.
func (p *process) kill() {
	p.stopped.Store(true)
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
	_ = os.Remove(p.dir.pidFile(p.component))
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ComponentError means that a component ended unexpectedly.
type ComponentError struct {
	Component Component
	// Status is how it ended, such as "exit status 1" or "signal: killed".
	Status string
	// LogFile is the path of its log, and LogTail the last lines of the log.
	LogFile, LogTail string
}

func (e *ComponentError) Error() string {
	return fmt.Sprintf("%s ended unexpectedly (%s); last lines of its log %s:\n%s",
		e.Component, e.Status, e.LogFile, e.LogTail)
}

func (p *process) failure() error {
	file := p.dir.log(p.component)
	return &ComponentError{
		Component: p.component,
		Status:    p.cmd.ProcessState.String(),
		LogFile:   file,
		LogTail:   LogTail(file),
	}
}

// Limits of ComponentError.LogTail.
const (
	tailBytes = 4096
	tailLines = 15
)

// LogTail returns the last lines of a log, for an error message.
func LogTail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	data, _ := io.ReadAll(f)
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// killStale kills the processes that an earlier run in the directory left behind because
// it was killed. The caller must hold the lock of the directory, so that no other run
// uses them.
func killStale(ctx context.Context, dir layout) error {
	files, err := filepath.Glob(filepath.Join(dir.pidFiles(), "*.pid"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := killStaleProcess(ctx, dir, file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

func killStaleProcess(ctx context.Context, dir layout, pidFile string) error {
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return nil // incomplete because of a crash
	}
	name := strings.TrimSuffix(filepath.Base(pidFile), ".pid")
	if !isComponentOf(commandLine(pid), name, dir) {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("end %s (process %d) of an earlier run: %w", name, pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return !isComponentOf(commandLine(pid), name, dir), nil
	})
}

// isComponentOf reports whether a process is a component of the cluster, and not another
// process with a reused ID. A component has the right name and a file of the directory
// among its arguments.
func isComponentOf(args []string, name string, dir layout) bool {
	if len(args) == 0 || filepath.Base(args[0]) != name {
		return false
	}
	return strings.Contains(strings.Join(args, " "), string(dir)+string(filepath.Separator))
}
