package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs the tests of a package with a cluster, and ends the process with their result. It
// replaces envtest. Call it in TestMain:
//
//	var cluster *localcluster.Cluster
//
//	func TestMain(m *testing.M) {
//		localcluster.Main(m, localcluster.Config{}, func(c *localcluster.Cluster) error {
//			cluster = c
//			return nil
//		})
//	}
//
// Without Config.Assets, Main calls [Install]. Without Config.Dir, the cluster has a temporary
// directory, which Main removes. prepare gets the cluster before the tests run, for example to
// install CustomResourceDefinitions. If it fails, no test runs.
func Main(m interface{ Run() int }, config Config, prepare func(*Cluster) error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := runMain(ctx, m, config, prepare)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// stopTimeout limits how long Main waits for the end of the cluster.
const stopTimeout = time.Minute

func runMain(ctx context.Context, m interface{ Run() int }, config Config, prepare func(*Cluster) error) (code int, err error) {
	if config.Dir == "" {
		if config.Dir, err = os.MkdirTemp("", "localcluster-"); err != nil {
			return 0, err
		}
		config.UnsafeNoFsync = true
		defer func() { err = errors.Join(err, os.RemoveAll(config.Dir)) }()
	}
	if config.Assets == "" {
		if config.Assets, err = Install(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) }); err != nil {
			return 0, err
		}
	}
	cluster, err := Start(ctx, config)
	if err != nil {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = errors.Join(err, cluster.Stop(ctx))
	}()
	if err := prepare(cluster); err != nil {
		return 0, fmt.Errorf("prepare the cluster: %w", err)
	}
	return m.Run(), nil
}
