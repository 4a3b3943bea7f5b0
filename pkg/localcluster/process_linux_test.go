package localcluster

import (
	"os/exec"
	"sync"
	"testing"
)

// Start returns when the program is being executed, which the kernel has not finished then.
func TestAProcessThatHasJustBegunHasACommandLine(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				cmd := exec.Command("sleep", "300")
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				args := commandLine(cmd.Process.Pid)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if len(args) != 2 {
					t.Errorf("the command line is %q", args)
				}
			}
		})
	}
	all.Wait()
}
