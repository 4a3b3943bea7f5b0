package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// grace is the time limit for a process to stop after SIGTERM, startPatience for it to
// start. The machine may be busy.
const (
	grace         = 10 * time.Second
	startPatience = 2 * time.Minute
)

// process is a process that this package started.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// startComponent starts kubelet or kube-proxy. Its log is below dir. `make node` builds
// both into a directory below the control plane's binaries.
func startComponent(name, dir string, args ...string) (*process, error) {
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		return nil, err
	}
	return spawn(name, dir, filepath.Join(assets, "node", name), args...)
}

// spawn starts a program. Its log is below dir.
func spawn(name, dir, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, "logs", name+".log"), exited: make(chan struct{})}
	if err := os.MkdirAll(filepath.Dir(p.log), 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the result is in ProcessState
		close(p.exited)
	}()
	return p, nil
}

// await waits until ready returns true. It returns an error if the process ends before.
func (p *process) await(ctx context.Context, ready func(context.Context) bool) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startPatience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("it exited early: %v", p.cmd.ProcessState)
		default:
			return ready(ctx), nil
		}
	})
	if err != nil {
		return fmt.Errorf("start %s: %w; the end of its log:\n%s", p.name, err, p.tail())
	}
	return nil
}

// stop stops the process. It returns an error if the process has already exited. p may be
// nil.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.exited:
		return fmt.Errorf("%s exited early (%v); the end of its log:\n%s", p.name, p.cmd.ProcessState, p.tail())
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has exited
	select {
	case <-p.exited:
	case <-time.After(grace):
		p.kill()
	}
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has exited
	<-p.exited
}

// tail returns the last lines of the log.
func (p *process) tail() []byte {
	const lines = 15
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}
