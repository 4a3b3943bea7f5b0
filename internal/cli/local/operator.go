package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/version"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// clusterName is the name of the cluster in messages.
const clusterName = "local"

// operatorGrace is the time that the operator has to stop. It leaves enough of
// stopTimeout for the cluster.
const operatorGrace = 4 * time.Second

const operatorBinary = "bongsu-operator"

// FindOperator returns the path of bongsu-operator. It looks beside this executable, then in
// $PATH.
func FindOperator() (string, error) {
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target // kubectl-bongsu can be a link
		}
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), operatorBinary)); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath(operatorBinary); err == nil {
		return filepath.Abs(path)
	}
	return "", errors.New("bongsu-operator not found beside bongsu or in $PATH: install both from one build (make build), or pass --no-operator")
}

// operatorProcess is bongsu-operator as a child process.
type operatorProcess struct {
	config  Config
	cluster *localcluster.Cluster
	cmd     *exec.Cmd     // nil if it was not started
	ended   chan struct{} // closed after the end
}

func (o *operatorProcess) writeKubeconfig(ctx context.Context) error {
	return o.cluster.WriteServiceAccountKubeconfig(ctx, options.Default().Namespace, options.Account, o.kubeconfig())
}

func (o *operatorProcess) kubeconfig() string {
	return filepath.Join(o.cluster.Dir(), "operator.kubeconfig")
}

func (o *operatorProcess) logFile() string {
	return filepath.Join(o.cluster.Dir(), "logs", "operator.log")
}

// start starts the operator and returns when it is at work: it misses no Event after that.
// It calls fail if the operator ends before ctx does.
func (o *operatorProcess) start(ctx context.Context, fail context.CancelCauseFunc) error {
	// The end of ctx does not kill the operator: stop stops it in order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), o.config.Operator, append(o.config.LogArgs,
		"--"+options.LocalFlag, version.String(), "--kubeconfig", o.kubeconfig(), "--cluster-name", clusterName,
		"--controllers", strings.Join(feature.Names(feature.All()), ","), "--data-dir", filepath.Join(o.cluster.Dir(), "data"))...)
	cmd.Stdout = o.config.Out
	cmd.Stderr = o.config.OperatorLog
	if cmd.Stderr == nil {
		log, err := os.Create(o.logFile())
		if err != nil {
			return fmt.Errorf("open the operator's log: %w", err)
		}
		defer func() { _ = log.Close() }()
		cmd.Stderr = log
	}
	ready, err := startWithPipes(cmd)
	if err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	defer func() { _ = ready.Close() }()
	o.cmd, o.ended = cmd, make(chan struct{})
	go o.wait(ctx, fail)
	return o.awaitReady(ctx, ready)
}

// startWithPipes starts the command. The pipe to its standard input stays open until this
// process ends. It returns the pipe on which the operator reports that it is at work.
func startWithPipes(cmd *exec.Cmd) (ready *os.File, err error) {
	ready, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = report.Close() }()
	cmd.ExtraFiles = []*os.File{report} // options.LocalReadyFD
	_, err = cmd.StdinPipe()
	if err == nil {
		err = localcluster.StartChild(cmd)
	}
	if err != nil {
		return nil, errors.Join(err, ready.Close())
	}
	return ready, nil
}

// wait waits until the operator has ended.
func (o *operatorProcess) wait(ctx context.Context, fail context.CancelCauseFunc) {
	_ = o.cmd.Wait() // how it ended is in ProcessState
	if ctx.Err() == nil {
		fail(o.failure())
	}
	close(o.ended)
}

// failure describes the unexpected end of the operator.
func (o *operatorProcess) failure() error {
	if o.config.OperatorLog != nil {
		return fmt.Errorf("the operator ended unexpectedly (%s)", o.cmd.ProcessState)
	}
	return fmt.Errorf("the operator ended unexpectedly (%s); last lines of its log %s:\n%s",
		o.cmd.ProcessState, o.logFile(), localcluster.LogTail(o.logFile()))
}

func (o *operatorProcess) awaitReady(ctx context.Context, ready *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = ready.Close() })
	defer stop()
	if _, err := io.ReadFull(ready, make([]byte, 1)); err == nil {
		return nil
	}
	// The operator has ended, or is about to, or ctx has.
	select {
	case <-o.ended:
		return o.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop stops the operator if it runs, and kills it after operatorGrace or at the end of ctx.
func (o *operatorProcess) stop(ctx context.Context) {
	if o.cmd == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, operatorGrace)
	defer cancel()
	_ = o.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-o.ended:
	case <-ctx.Done():
		_ = o.cmd.Process.Kill()
		<-o.ended
	}
}
