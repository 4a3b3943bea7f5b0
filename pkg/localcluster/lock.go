package localcluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ErrInUse means that a running cluster has the directory already.
var ErrInUse = errors.New("a local cluster is already running there")

// lockDir takes the lock on a cluster's directory. It goes when the file is
// closed, or the process that opened it ends, in whatever way: children do not
// inherit it, as Go opens files close-on-exec.
func lockDir(dir layout) (*os.File, error) {
	f, err := os.OpenFile(dir.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w%s", dir, ErrInUse, holder(dir))
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// Who holds it is for the message above, and no more than a courtesy.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return f, nil
}

func holder(dir layout) string {
	pid, err := os.ReadFile(dir.lock())
	if err != nil || len(pid) == 0 {
		return ""
	}
	return ", started by process " + strings.TrimSpace(string(pid))
}
