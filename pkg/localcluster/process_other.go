//go:build unix && !linux

package localcluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// spawn starts a child. There is no way here to have it die with this process;
// should that be killed, the next start ends what it left behind.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// commandLine returns the arguments that a process was started with; none if
// there is no such process. A directory with blanks comes apart, so what is
// looked for in it must be looked for in all of it.
func commandLine(pid int) []string {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}
