package localcluster

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// spawn starts a child that dies with this process, even if that is killed.
//
// The kernel sends the signal when the thread that started the child ends, not
// the process. Go ends a thread when a goroutine locked to it returns, and any
// caller of ours may be such a one: so children are started by one thread that
// never ends.
func spawn(cmd *exec.Cmd) error {
	// A group of its own: Ctrl-C is for the parent, which stops its children in
	// an order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	immortalThread() <- func() { started <- cmd.Start() }
	return <-started
}

var immortalThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// commandLine returns the arguments that a process was started with; none if
// there is no such process, or it has ended and nobody has asked how.
func commandLine(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(data) == 0 {
		return nil
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}
