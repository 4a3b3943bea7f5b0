package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// endStale ends what a former run on this directory has left behind, having been
// killed itself. Whoever calls it holds the directory's lock: no living run has
// a claim on these processes.
func endStale(ctx context.Context, dir layout) error {
	files, err := filepath.Glob(filepath.Join(dir.pidFiles(), "*.pid"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := endStaleProcess(ctx, dir, file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

func endStaleProcess(ctx context.Context, dir layout, pidFile string) error {
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return nil // cut short by a crash: then there is nothing to go by
	}
	name := strings.TrimSuffix(filepath.Base(pidFile), ".pid")
	if !isOurs(commandLine(pid), name, dir) {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("end %s (process %d) of an earlier run: %w", name, pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return !isOurs(commandLine(pid), name, dir), nil
	})
}

// isOurs tells a component of this directory's cluster from whatever process
// may have got its number since: it bears the component's name, and has been
// told of a file in the directory.
func isOurs(args []string, name string, dir layout) bool {
	if len(args) == 0 || filepath.Base(args[0]) != name {
		return false
	}
	return strings.Contains(strings.Join(args, " "), string(dir)+string(filepath.Separator))
}
