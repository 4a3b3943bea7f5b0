package local

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"
)

// Processes that do not stop within stopTimeout are killed, which takes time as well.
func TestStoppingTakesLessThan10Seconds(t *testing.T) {
	if stopTimeout >= 10*time.Second || operatorGrace >= stopTimeout {
		t.Errorf("the time limits are %v and %v", stopTimeout, operatorGrace)
	}
}

func TestAnOperatorThatIgnoresSIGTERMIsKilled(t *testing.T) {
	o := &operatorProcess{cmd: exec.Command("sh", "-c", "trap '' TERM; echo >&3; read forever"), ended: make(chan struct{})}
	ready, err := startWithPipes(o.cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ready.Close() }()
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stopping, cancel := context.WithCancel(t.Context())
	cancel()
	go o.wait(stopping, func(err error) { t.Error(err) })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	o.stop(ctx)
	if got := o.cmd.ProcessState.String(); got != "signal: killed" {
		t.Errorf("the process ended with %q", got)
	}
}
