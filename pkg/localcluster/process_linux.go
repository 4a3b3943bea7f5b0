package localcluster

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// StartChild starts a command that ends together with this process, even if this process
// is killed.
//
// The kernel kills the child when the thread that started it ends, not the process. Go
// ends a thread when a goroutine that is locked to it returns. A thread that never ends
// therefore starts all children.
func StartChild(cmd *exec.Cmd) error {
	// The child gets its own process group, so that Ctrl-C only reaches this process,
	// which stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	permanentThread() <- func() { started <- cmd.Start() }
	return <-started
}

var permanentThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// commandLine returns the arguments of a process. It returns nil if the process does not
// exist or has ended.
func commandLine(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid)
	data, err := os.ReadFile(dir + "/cmdline")
	// A process has an executable before it has a command line, and none after its end.
	for attempt := 0; attempt < 100 && err == nil && len(data) == 0; attempt++ {
		if _, err := os.Readlink(dir + "/exe"); err != nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
		data, err = os.ReadFile(dir + "/cmdline")
	}
	if err != nil || len(data) == 0 {
		return nil
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}
