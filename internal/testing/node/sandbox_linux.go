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

// WantedEnv says, set to anything, that the tests are to run: it is an error then if
// they cannot.
const WantedEnv = "BONGSU_E2E_NODE"

// stageEnv tells a process of the tests' binary which of its parts it is to play.
const stageEnv = "BONGSU_NODE_STAGE"

const (
	stageInit = "init" // the first process in the namespaces
	stageTest = "test" // runs the tests
)

// Main runs a package's tests in namespaces of their own, and ends the process. Call it
// from TestMain. If the tests were not asked for it says so and succeeds.
func Main(m *testing.M) {
	switch os.Getenv(stageEnv) {
	case stageTest:
		os.Exit(m.Run())
	case stageInit:
		os.Exit(beInit())
	}
	if os.Getenv(WantedEnv) == "" {
		fmt.Printf("skipped: tests on a real node need root and Debian's packages; `make e2e-node` runs them\n")
		os.Exit(0)
	}
	code, err := runInside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: tests on a real node:", err)
		code = 1
	}
	os.Exit(code)
}

// runInside runs this process again as the first one in new namespaces, and cleans up
// after it.
func runInside() (code int, err error) {
	if err := checkMachine(); err != nil {
		return 0, err
	}
	if err := removeLeftovers(); err != nil {
		return 0, err
	}
	h, err := newHouse()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.remove()) }()

	// The kernel ends the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), stageEnv+"="+stageInit, houseEnv+"="+h.dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("make namespaces: %w", err)
	}
	go killOnSignal(cmd.Process)
	_ = cmd.Wait() // how it ended is in ProcessState
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()), nil
}

// killOnSignal ends the tests when this process is to end. All that runs in their
// namespaces ends with them.
func killOnSignal(p *os.Process) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	<-signals
	_ = p.Kill()
}

// cniPlugins is where Debian has them.
const cniPlugins = "/usr/lib/cni"

// checkMachine tells what this machine lacks.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("they need root")
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
		return fmt.Errorf("this machine has no %s: `make e2e-node` installs the Debian packages containerd, runc, iptables, iproute2, conntrack and containernetworking-plugins",
			strings.Join(missing, ", "))
	}
	return nil
}

// houseEnv tells the processes inside where their directory is.
const houseEnv = "BONGSU_NODE_HOUSE"

// housePrefix begins the names of the directories, and so of the cgroups.
const housePrefix = "bongsu-node-"

// house is all that a run has outside of its namespaces: a directory, and cgroups of
// the same name.
type house struct {
	dir string
	// lock is held for as long as anybody is in.
	lock *os.File
}

func houseOf(dir string) house { return house{dir: dir} }

func (h house) path(elem ...string) string {
	return filepath.Join(append([]string{h.dir}, elem...)...)
}

// newHouse makes a directory, which overlay mounts are to be possible in.
func newHouse() (house, error) {
	dir, err := os.MkdirTemp("", housePrefix)
	if err != nil {
		return house{}, err
	}
	h := houseOf(dir)
	if h.lock, err = lockHouse(h); err != nil {
		return house{}, err
	}
	return h, nil
}

// cgroup is the cgroup of a node's pods. It is at the top, where all controllers are.
func (h house) cgroup(node string) string { return filepath.Base(h.dir) + "." + node }

// errOccupied says that a run still has a house.
var errOccupied = errors.New("somebody is in")

func lockHouse(h house) (*os.File, error) {
	f, err := os.OpenFile(h.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errOccupied
	}
	return f, nil
}

// remove removes what there is, once nobody is in.
func (h house) remove() error {
	err := errors.Join(removeCgroups(h.cgroup("*")), os.RemoveAll(h.dir))
	if err != nil {
		return fmt.Errorf("clean up %s: %w", h.dir, err)
	}
	return nil
}

// removeLeftovers removes the houses of runs that were killed.
func removeLeftovers() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), housePrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		h := houseOf(dir)
		if h.lock, err = lockHouse(h); errors.Is(err, errOccupied) {
			continue
		}
		if err := errors.Join(err, h.remove()); err != nil {
			return fmt.Errorf("a former run: %w", err)
		}
		_ = h.lock.Close()
	}
	return nil
}

// beInit is the first process in the namespaces: it makes them habitable, starts the
// tests, and inherits orphans. When it ends, the kernel ends all others.
func beInit() int {
	h := houseOf(os.Getenv(houseEnv))
	if err := h.furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: make the namespaces habitable:", err)
		return 1
	}
	if err := os.Setenv(stageEnv, stageTest); err != nil {
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

// reapUntil waits for whatever process ends, as nobody else does for orphans, until one
// does, and returns its exit code.
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
			fmt.Fprintln(os.Stderr, "FAIL: the tests were ended:", status.Signal())
			return 1
		default:
			return status.ExitStatus()
		}
	}
}

// furnish makes mounts that only the processes inside see.
func (h house) furnish() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Sockets of shims, names of network namespaces, the lock of iptables.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/var/log", "/var/lib"} { // where kubelet and CNI write, whatever they are told
		if err := h.cover(dir); err != nil {
			return err
		}
	}
	return h.shadowTunables()
}

// cover has what is written to a directory of the machine's go to the house.
func (h house) cover(dir string) error {
	upper, work := h.path("covers", dir), h.path("covers", dir+".work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if err := syscall.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("cover %s: %w (the directory for temporary files must not be on an overlay itself: see TMPDIR)", dir, err)
	}
	return nil
}

// tunables are of the whole kernel, and the kubelet sets them.
var tunables = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// shadowTunables has the kubelet set files of the house instead.
func (h house) shadowTunables() error {
	for _, name := range tunables {
		tunable := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(tunable)
		if err != nil {
			return err
		}
		own := h.path(strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(own, value, 0o600); err != nil {
			return err
		}
		if err := syscall.Mount(own, tunable, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("shadow %s: %w", tunable, err)
		}
	}
	return nil
}
