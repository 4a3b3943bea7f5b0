package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// Component is a process of the control plane, named after its binary.
type Component string

// Etcd and APIServer always run. The others are optional.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
)

// Everything returns the optional components. With them, Deployments run on simulated
// nodes.
func Everything() []Component {
	return []Component{ControllerManager, Scheduler, Kwok}
}

// Config configures a cluster.
type Config struct {
	// Dir is the directory of the cluster. It is created if it does not exist. Required.
	Dir string
	// Template is the directory of a cluster after StopAsTemplate. If Dir contains no
	// cluster yet, the new one starts with a copy of its objects. It has certificates of
	// its own, so it refuses clients of other copies. Default: none.
	Template string
	// Assets is the directory of the binaries. Default: DefaultAssets().
	Assets string
	// Components run in addition to Etcd and APIServer. Default: none.
	Components []Component
	// Nodes is the number of simulated nodes, named node-0, node-1 and so on. They join
	// only if Kwok runs. Default: 0.
	Nodes int
	// EventTTL is how long the API server stores Events. Default: one hour.
	EventTTL time.Duration
	// NodeLease is how long KWOK keeps a node without renewing its lease. Default: 40
	// seconds.
	NodeLease time.Duration
	// ExecPath lists directories, separated like PATH. If it is set, commands in
	// simulated pods (pods/exec) run on this machine, with these programs, as the user of
	// this process. Use it only in tests: any local process can connect to KWOK without
	// credentials. Default: commands fail.
	ExecPath string
	// ForwardPorts maps ports of simulated pods to ports of this machine. Port forwarding to
	// the pods (pods/portforward) connects there, on 127.0.0.1. Use it only in tests, for the
	// same reason. Default: port forwarding fails.
	ForwardPorts map[int32]int32
	// NodeAddress is an address of this machine where pods of a real kubelet can reach
	// the API server. The API server then listens on all addresses, so use it only within
	// a network namespace. Default: the API server listens on loopback, and the Service
	// kubernetes has no endpoints.
	NodeAddress string
	// UnsafeNoFsync makes etcd faster, but a crash of the machine can destroy its data.
	// Use it in tests.
	UnsafeNoFsync bool
	// GCPercent is GOGC of the components: how far their heap grows before they collect garbage.
	// With 200, they need a tenth less CPU time, and up to half as much memory again. Default: 100.
	GCPercent int
	// Progress, if set, is called with each line of progress.
	Progress func(line string)
	// Clock decides when certificates are renewed. Default: the real clock.
	Clock clock.PassiveClock
}

// complete returns the configuration with its defaults.
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

// AssetsEnv is the environment variable with the directory of the binaries.
const AssetsEnv = "BONGSU_ASSETS"

// ErrNoAssets means that the binaries of the control plane were not found.
var ErrNoAssets = errors.New("the control plane's binaries are missing: run `make build`, call localcluster.Install, or set " + AssetsEnv)

// DefaultAssets returns the directory of the control plane's binaries. It is
// $BONGSU_ASSETS if set. Otherwise it is k8s/ beside the executable, or bin/k8s/ in the
// working directory or the nearest directory above it. It returns ErrNoAssets if there is
// none.
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

// layout is the directory of a cluster, with the paths below it.
type layout string

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{string(l)}, elem...)...)
}

func (l layout) lock() string                   { return l.path("lock") }
func (l layout) ports() string                  { return l.path("ports.json") }
func (l layout) kubeconfig() string             { return l.path("kubeconfig") }
func (l layout) auditLog() string               { return l.path("audit.log") }
func (l layout) auditPolicy() string            { return l.path("audit-policy.yaml") }
func (l layout) etcdData() string               { return l.path("etcd") }
func (l layout) firstStart() string             { return l.path("etcd-first-start") }
func (l layout) stages() string                 { return l.path("stages.yaml") }
func (l layout) tmp() string                    { return l.path("tmp") }
func (l layout) pki(file string) string         { return l.path("pki", file) }
func (l layout) pidFiles() string               { return l.path("run") }
func (l layout) pidFile(c Component) string     { return l.path("run", string(c)+".pid") }
func (l layout) log(c Component) string         { return l.path("logs", string(c)+".log") }
func (l layout) previousLog(c Component) string { return l.path("logs", string(c)+".previous.log") }

// make creates the directories. Only their owner can read them, because they contain
// keys.
func (l layout) make() error {
	for _, dir := range []string{"", "pki", "run", "logs", "tmp"} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("create the cluster's directory: %w", err)
		}
	}
	return nil
}

// ErrInUse means that a cluster is running in the directory.
var ErrInUse = errors.New("a local cluster is already running there")

// lockDir locks the directory of a cluster. The lock ends when the file is closed or the
// process ends. Children do not inherit it, because Go opens files close-on-exec.
func lockDir(dir layout) (*os.File, error) {
	f, err := os.OpenFile(dir.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w%s", dir, ErrInUse, lockHolder(dir))
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// The process ID is only for the message of the next lockDir.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return f, nil
}

func lockHolder(dir layout) string {
	pid, err := os.ReadFile(dir.lock())
	if err != nil || len(pid) == 0 {
		return ""
	}
	return ", started by process " + strings.TrimSpace(string(pid))
}
