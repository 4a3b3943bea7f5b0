// Package process runs the operator as a separate process, which a test can kill. The program
// of the process is that of the test.
package process

import (
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/operator/cmd"
)

// operatorEnv makes the program of the test run as bongsu-operator.
const operatorEnv = "BONGSU_TEST_OPERATOR"

// Main does nothing in a test. In a process of Start, it is cmd/bongsu-operator, and exits with
// the test. Call it first in TestMain.
func Main() {
	if os.Getenv(operatorEnv) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	os.Exit(command.Main(cmd.New()))
}

// Process is a process of the operator.
type Process struct {
	cmd     *exec.Cmd
	stdin   io.Closer // the process exits when it is closed, for example with the test
	ended   chan struct{}
	endedAt time.Time // set before ended is closed
}

// Start starts bongsu-operator with these arguments.
func Start(output io.Writer, args ...string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), operatorEnv+"=1")
	c.Stdout, c.Stderr = output, output
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: c, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = c.Wait() // the result is in ProcessState
		p.endedAt = time.Now()
	}()
	return p, nil
}

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has exited
	<-p.ended
	_ = p.stdin.Close()
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// EndedAt is the time at which the process ended. It waits for the end.
func (p *Process) EndedAt() time.Time {
	<-p.ended
	return p.endedAt
}

// Result describes how the process ended.
func (p *Process) Result() string { return p.cmd.ProcessState.String() }
