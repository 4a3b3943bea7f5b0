package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// Component is one process of the control plane, by the name of its binary.
type Component string

// The components. Etcd and APIServer always run.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
)

// Everything is the Config.Components of a whole cluster, on which Deployments
// come to run.
func Everything() []Component {
	return []Component{ControllerManager, Scheduler, Kwok}
}

// Config says which cluster to start.
type Config struct {
	// Dir holds the cluster, whole: it is created if need be, and nothing is
	// written outside of it. Required.
	Dir string
	// Template is the directory of a stopped cluster. If Dir contains no cluster yet,
	// the new one starts with a copy of its objects and certificates. Default none.
	Template string
	// Assets is the directory of the binaries. Default: DefaultAssets().
	Assets string
	// Components run besides Etcd and APIServer. Default none.
	Components []Component
	// Nodes is how many simulated nodes to make sure of: node-0, node-1, ...
	// They join only where Kwok runs.
	Nodes int
	// EventTTL is how long the API server keeps an Event. Default one hour.
	EventTTL time.Duration
	// NodeLease is how long KWOK holds a node without renewing its lease. Default 40 s.
	NodeLease time.Duration
	// ExecPath has commands that are run in simulated pods (pods/exec) really run: on
	// this machine, by whoever runs the cluster, from the directories that it lists as
	// a PATH does. KWOK asks nobody who connects to it on loopback for a credential: it
	// is for tests. Default: no command is run.
	ExecPath string
	// NodeAddress is an address of this machine at which pods of a real kubelet reach
	// the API server, through the Service kubernetes. The API server then listens on
	// every address: it is for a network namespace of one's own. Default: loopback
	// only, and the Service leads nowhere.
	NodeAddress string
	// UnsafeNoFsync makes etcd faster, at the price of its data should the
	// machine (not merely the process) crash. For tests.
	UnsafeNoFsync bool
	// Progress, if set, is told what is going on, a line at a time.
	Progress func(line string)
	// Clock tells when certificates are due for renewal. Default: the real one.
	Clock clock.PassiveClock
}

// complete returns the configuration with its defaults filled in.
func (c Config) complete() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("no directory given for the local cluster")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	c.Dir = dir
	if c.Assets == "" {
		if c.Assets, err = DefaultAssets(); err != nil {
			return c, err
		}
	}
	if c.EventTTL == 0 {
		c.EventTTL = time.Hour
	}
	if c.NodeLease == 0 {
		c.NodeLease = 40 * time.Second
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c, nil
}

// AssetsEnv names the environment variable that tells where the binaries are.
const AssetsEnv = "BONGSU_ASSETS"

// ErrNoAssets means that the binaries of the control plane are not built yet.
var ErrNoAssets = errors.New("the control plane's binaries are missing: run `make build`, or set " + AssetsEnv)

// DefaultAssets finds the directory of the control plane's binaries: what
// $BONGSU_ASSETS says, else k8s/ beside the running executable, else bin/k8s/
// in the working directory or one above it, where tests find it.
func DefaultAssets() (string, error) {
	if dir := os.Getenv(AssetsEnv); dir != "" {
		return assetsIn(dir)
	}
	if exe, err := os.Executable(); err == nil {
		if dir, err := assetsIn(filepath.Join(filepath.Dir(exe), "k8s")); err == nil {
			return dir, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if found, err := assetsIn(filepath.Join(dir, "bin", "k8s")); err == nil {
			return found, nil
		}
	}
	return "", ErrNoAssets
}

func assetsIn(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, string(APIServer))); err != nil {
		return "", fmt.Errorf("%w (looked in %s)", ErrNoAssets, dir)
	}
	return filepath.Abs(dir)
}
