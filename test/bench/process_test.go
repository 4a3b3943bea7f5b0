package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// operator is one that runs as a process of its own.
type operator struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// startOperator starts `bongsu-operator` as its own service account. It ends with
// the benchmark at the latest.
func startOperator(b *testing.B, c *cluster.Cluster, binary, dataDir string) *operator {
	b.Helper()
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	must(b, c.WriteServiceAccountKubeconfig(b.Context(), "bongsu-system", "bongsu", kubeconfig))
	o := &operator{}
	o.cmd = exec.Command(binary, "--kubeconfig", kubeconfig, "--data-dir", dataDir)
	o.cmd.Stderr = &o.log
	must(b, o.cmd.Start())
	b.Cleanup(func() { o.stop(b) })
	return o
}

// stop ends the process and returns when it is gone. A second call does nothing.
func (o *operator) stop(b *testing.B) {
	b.Helper()
	if o.cmd.ProcessState != nil {
		return
	}
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	if err := o.cmd.Wait(); err != nil {
		b.Errorf("bongsu-operator: %v\n%s", err, &o.log)
	}
}

// memory is what a process occupies, in bytes.
type memory struct{ resident, peak int64 }

func (o *operator) memory(b *testing.B) memory {
	b.Helper()
	return memoryOf(b, o.cmd.Process.Pid)
}

// memoryOf reads what the kernel tells of a process: VmRSS, and VmHWM, which is
// the highest that the former ever was.
func memoryOf(b *testing.B, pid int) memory {
	b.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skipf("this system does not tell how much memory a process has: %v", err)
	}
	defer func() { _ = file.Close() }()
	var m memory
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		var kilobytes int64
		switch name {
		case "VmRSS":
			_, err = fmt.Sscan(value, &kilobytes)
			m.resident = kilobytes << 10
		case "VmHWM":
			_, err = fmt.Sscan(value, &kilobytes)
			m.peak = kilobytes << 10
		}
		must(b, err)
	}
	return m
}
