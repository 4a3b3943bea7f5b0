//go:build unix && !linux

package localcluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// StartChild starts a command. On this platform, the child survives if this process is
// killed. [Start] kills components that are left over from an earlier process.
func StartChild(cmd *exec.Cmd) error {
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
