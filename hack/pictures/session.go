package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// workloads do not run. The terminal explains why.
//
//go:embed workloads.yaml
var workloads []byte

// command is entered until its output contains shows: the cluster needs time to find out
// that a workload does not run.
type command struct{ line, shows string }

var explained = []command{
	{"kubectl get pods -n shop", "ImagePullBackOff"},
	{"bongsu explain deployment/web -n shop", "ImagePullBackOff"},
	{"bongsu explain deployment/orders-db -n shop", "ProvisioningFailed"},
	{"bongsu explain service/web -n shop", "NoEndpoints"},
}

// entry is a command and its output.
type entry struct{ command, output string }

// session is a cluster with the workloads, and an environment for commands that use it.
type session struct {
	cluster     *localcluster.Cluster
	environment []string
}

func startSession(ctx context.Context, bin string) (*session, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	assets := filepath.Join(bin, "k8s")
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: dir, Assets: assets, Components: localcluster.Everything(), Nodes: 2, UnsafeNoFsync: true,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &session{cluster, append(os.Environ(),
		"KUBECONFIG="+cluster.Kubeconfig(),
		"PATH="+strings.Join([]string{bin, assets, os.Getenv("PATH")}, string(os.PathListSeparator)),
	)}
	if _, err := s.enter(ctx, "kubectl apply -f -", workloads); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *session) close() error {
	return errors.Join(s.cluster.Stop(context.Background()), os.RemoveAll(s.cluster.Dir()))
}

// enterAll enters all commands again until each shows what it should.
func (s *session) enterAll(ctx context.Context, commands []command) ([]entry, error) {
	for {
		screen, missing, err := s.tryAll(ctx, commands)
		if err != nil || missing == "" {
			return screen, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", missing, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// tryAll enters all commands. If an output lacks what it should show, missing says so.
func (s *session) tryAll(ctx context.Context, commands []command) (screen []entry, missing string, err error) {
	for _, c := range commands {
		output, err := s.enter(ctx, c.line, nil)
		if err != nil {
			return nil, "", err
		}
		if !strings.Contains(output, c.shows) {
			return nil, fmt.Sprintf("%s: %q is not in the output:\n%s", c.line, c.shows, output), nil
		}
		screen = append(screen, entry{c.line, output})
	}
	return screen, "", nil
}

// enter returns the output of a command. Its arguments contain no blanks.
func (s *session) enter(ctx context.Context, line string, input []byte) (string, error) {
	args := strings.Fields(line)
	cmd := exec.CommandContext(ctx, "env", args...) // finds the command in the PATH of its environment
	cmd.Env, cmd.Stdin = s.environment, bytes.NewReader(input)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w:\n%s", line, err, output)
	}
	return string(output), nil
}
