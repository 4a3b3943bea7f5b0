package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a running component.
type process struct {
	component Component
	cmd       *exec.Cmd
	dir       layout
	exited    chan struct{} // closed when it has
	ending    atomic.Bool   // it was asked to end
}

// startProcess runs a component's binary with its output in its log, of which
// the one before is kept: logs grow with one run, not with all of them.
func startProcess(dir layout, c Component, cmd *exec.Cmd) (*process, error) {
	if err := os.Rename(dir.log(c), dir.formerLog(c)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.OpenFile(dir.log(c), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()

	cmd.Dir = string(dir)
	cmd.Stdout, cmd.Stderr = log, log
	if err := spawn(cmd); err != nil {
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

// command is how a component is started.
func (c *Cluster) command(component Component) *exec.Cmd {
	cmd := exec.Command(c.binary(string(component)), c.args(component)...)
	cmd.Env = environment(c.dir)
	if component == Kwok && c.config.ExecPath != "" {
		cmd.Env = append(cmd.Env, "PATH="+c.config.ExecPath) // the last one counts
	}
	return cmd
}

// environment is all that a component gets to know of the user's: with this
// home it neither reads nor writes files of theirs.
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

// stop asks the process to end, and makes it after the grace, or once the
// context is over. It returns when the process is gone.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	p.ending.Store(true)
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it is gone
	select {
	case <-p.exited:
	case <-ctx.Done():
	}
	p.kill()
}

// kill ends the process at once, if it has not ended yet.
func (p *process) kill() {
	p.ending.Store(true)
	_ = p.cmd.Process.Kill() // fails only if it is gone
	<-p.exited
	_ = os.Remove(p.dir.pidFile(p.component))
}

// running says whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
