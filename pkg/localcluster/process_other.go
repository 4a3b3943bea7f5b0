//go:build unix && !linux

package localcluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// spawn starts a child. On this platform it survives if this process is killed. The next
// start kills it.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// commandLine returns the arguments of a process, or nil if it does not exist. It splits
// arguments that contain spaces.
func commandLine(pid int) []string {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}
