package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// WantedEnv requests the tests if it is not empty. It is then an error if they cannot run.
const WantedEnv = "BONGSU_E2E_NODE"

// roleEnv is the role of a process that runs the test binary.
const roleEnv = "BONGSU_NODE_ROLE"

const (
	roleInit = "init" // the first process in the namespaces
	roleTest = "test" // runs the tests
)

// Main runs a package's tests in their own namespaces and exits. Call it from TestMain. If
// WantedEnv is not set, it runs no test and exits with 0.
func Main(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case roleTest:
		os.Exit(m.Run())
	case roleInit:
		os.Exit(runInit())
	}
	if os.Getenv(WantedEnv) == "" {
		fmt.Println("skipped: tests on a real node need root and Debian packages: run `make e2e-node`")
		os.Exit(0)
	}
	code, err := runInside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: tests on a real node:", err)
		code = 1
	}
	os.Exit(code)
}

// runInside runs the test binary again as the first process of new namespaces, and cleans
// up when it has ended.
func runInside() (code int, err error) {
	if err := checkMachine(); err != nil {
		return 0, err
	}
	if err := removeLeftovers(); err != nil {
		return 0, err
	}
	s, err := createSandbox()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()

	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+roleInit, sandboxEnv+"="+s.dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("make namespaces: %w", err)
	}
	go killOnSignal(cmd.Process)
	_ = cmd.Wait() // the result is in ProcessState
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()), nil
}

// killOnSignal kills the tests when this process receives a signal. The kernel then kills
// all processes in their namespaces.
func killOnSignal(p *os.Process) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	<-signals
	_ = p.Kill()
}

// cniPlugins is the directory of the Debian package.
const cniPlugins = "/usr/lib/cni"

// checkMachine returns an error that names the requirements this machine does not meet.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("not root: run them as root")
	}
	var missing []string
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "iptables", "conntrack"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if _, err := os.Stat(cniPlugins + "/bridge"); err != nil {
		missing = append(missing, cniPlugins+"/bridge")
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s not found: run `make e2e-node`, which installs the Debian packages containerd, runc, iptables, iproute2, conntrack and containernetworking-plugins",
			strings.Join(missing, ", "))
	}
	return nil
}

// sandboxEnv passes the directory of the sandbox to the processes inside.
const sandboxEnv = "BONGSU_NODE_SANDBOX"

// sandboxPrefix is the prefix of the names of directories and cgroups.
const sandboxPrefix = "bongsu-node-"

// sandbox is what a run has outside of its namespaces: a directory, and cgroups of the same
// name.
type sandbox struct {
	dir string
	// lock is held until the run ends.
	lock *os.File
}

func newSandbox(dir string) sandbox { return sandbox{dir: dir} }

func (s sandbox) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// createSandbox creates and locks a directory. Its file system must allow overlay mounts.
func createSandbox() (sandbox, error) {
	dir, err := os.MkdirTemp("", sandboxPrefix)
	if err != nil {
		return sandbox{}, err
	}
	s := newSandbox(dir)
	if s.lock, err = lockSandbox(s); err != nil {
		return sandbox{}, err
	}
	return s, nil
}

// cgroup returns the cgroup of a node's pods. It is at the top level, where all controllers
// are.
func (s sandbox) cgroup(node string) string { return filepath.Base(s.dir) + "." + node }

// errInUse means that the run of a sandbox has not ended.
var errInUse = errors.New("the sandbox is in use")

func lockSandbox(s sandbox) (*os.File, error) {
	f, err := os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errInUse
	}
	return f, nil
}

// remove deletes the cgroups and the directory. No process may be left in the sandbox.
func (s sandbox) remove() error {
	err := errors.Join(removeCgroups(s.cgroup("*")), os.RemoveAll(s.dir))
	if err != nil {
		return fmt.Errorf("clean up %s: %w", s.dir, err)
	}
	return nil
}

// removeLeftovers removes the sandboxes of runs that were killed.
func removeLeftovers() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), sandboxPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		s := newSandbox(dir)
		if s.lock, err = lockSandbox(s); errors.Is(err, errInUse) {
			continue
		}
		if err := errors.Join(err, s.remove()); err != nil {
			return fmt.Errorf("remove an earlier run: %w", err)
		}
		_ = s.lock.Close()
	}
	return nil
}

// runInit is the first process in the namespaces. It mounts their file systems, starts the
// tests, and adopts orphans. When it exits, the kernel kills all other processes.
func runInit() int {
	s := newSandbox(os.Getenv(sandboxEnv))
	if err := s.mountAll(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: mount the file systems of the sandbox:", err)
		return 1
	}
	if err := os.Setenv(roleEnv, roleTest); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: start the tests:", err)
		return 1
	}
	return reapUntil(pid)
}

// reapUntil reaps all processes that end, including orphans, until pid ends. It returns the
// exit code of pid.
func reapUntil(pid int) int {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR || ended != pid && err == nil:
		case err != nil:
			fmt.Fprintln(os.Stderr, "FAIL: wait for the tests:", err)
			return 1
		case status.Signaled():
			fmt.Fprintln(os.Stderr, "FAIL: the tests were killed:", status.Signal())
			return 1
		default:
			return status.ExitStatus()
		}
	}
}

// mountAll mounts file systems that only the processes inside see.
func (s sandbox) mountAll() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// /run contains sockets of shims, names of network namespaces, and the lock of iptables.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/var/log", "/var/lib"} { // kubelet and CNI always write here
		if err := s.overlay(dir); err != nil {
			return err
		}
	}
	return s.replaceSysctls()
}

// overlay redirects writes to a directory of the machine to the sandbox.
func (s sandbox) overlay(dir string) error {
	upper, work := s.path("overlays", dir), s.path("overlays", dir+".work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if err := syscall.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay on %s: %w: set TMPDIR to a directory that is not on an overlay", dir, err)
	}
	return nil
}

// sysctls are settings of the whole kernel that the kubelet changes.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// replaceSysctls mounts files of the sandbox over the sysctls, so that the kubelet changes
// only these files.
func (s sandbox) replaceSysctls() error {
	for _, name := range sysctls {
		sysctl := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(sysctl)
		if err != nil {
			return err
		}
		own := s.path(strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(own, value, 0o600); err != nil {
			return err
		}
		if err := syscall.Mount(own, sysctl, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("shadow %s: %w", sysctl, err)
		}
	}
	return nil
}
