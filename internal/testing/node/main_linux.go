package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
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
