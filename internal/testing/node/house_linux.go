package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// houseEnv tells the processes inside where their directory is.
const houseEnv = "BONGSU_NODE_HOUSE"

// housePrefix begins the names of the directories, and so of the cgroups.
const housePrefix = "bongsu-node-"

// house is all that a run has outside of its namespaces: a directory, and cgroups of
// the same name.
type house struct {
	dir string
	// lock is held for as long as anybody is in.
	lock *os.File
}

func houseOf(dir string) house { return house{dir: dir} }

func (h house) path(elem ...string) string {
	return filepath.Join(append([]string{h.dir}, elem...)...)
}

// newHouse makes a directory, which overlay mounts are to be possible in.
func newHouse() (house, error) {
	dir, err := os.MkdirTemp("", housePrefix)
	if err != nil {
		return house{}, err
	}
	h := houseOf(dir)
	if h.lock, err = lockHouse(h); err != nil {
		return house{}, err
	}
	return h, nil
}

// cgroup is the cgroup of a node's pods. It is at the top, where all controllers are.
func (h house) cgroup(node string) string { return filepath.Base(h.dir) + "." + node }

// errOccupied says that a run still has a house.
var errOccupied = errors.New("somebody is in")

func lockHouse(h house) (*os.File, error) {
	f, err := os.OpenFile(h.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errOccupied
	}
	return f, nil
}

// remove removes what there is, once nobody is in.
func (h house) remove() error {
	err := errors.Join(removeCgroups(h.cgroup("*")), os.RemoveAll(h.dir))
	if err != nil {
		return fmt.Errorf("clean up %s: %w", h.dir, err)
	}
	return nil
}

// removeLeftovers removes the houses of runs that were killed.
func removeLeftovers() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), housePrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		h := houseOf(dir)
		if h.lock, err = lockHouse(h); errors.Is(err, errOccupied) {
			continue
		}
		if err := errors.Join(err, h.remove()); err != nil {
			return fmt.Errorf("a former run: %w", err)
		}
		_ = h.lock.Close()
	}
	return nil
}
