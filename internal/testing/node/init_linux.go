package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

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
