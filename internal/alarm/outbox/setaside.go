package outbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Recovery tells of a damaged file that was set aside.
type Recovery struct {
	// Path is where the file is now; its WAL, if it had one, is beside it.
	Path string
	// Cause is what was found wrong with it.
	Cause error
}

// Recovered returns what was set aside when this ledger was opened, or nil.
func (l *Store) Recovered() *Recovery { return l.recovered }

// maxSetAside is how many damaged files are kept: the newest.
const maxSetAside = 3

const setAsideInfix = ".corrupt-"

// setAside renames the damaged file and its WAL, so that an administrator can
// still open the pair, and removes the WAL's index, which is of no use without
// a process that has it open.
func (l *Store) setAside(path string, cause error) (*Recovery, error) {
	if err := l.closeDatabase(); err != nil {
		// The damage itself may keep SQLite from closing cleanly; the file
		// descriptors are gone either way, and the cause is already known.
		cause = errors.Join(cause, err)
	}
	aside := path + setAsideInfix + l.clock.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Rename(path, aside); err != nil {
		return nil, err
	}
	if err := ignoreMissing(os.Rename(path+"-wal", aside+"-wal")); err != nil {
		return nil, err
	}
	if err := ignoreMissing(os.Remove(path + "-shm")); err != nil {
		return nil, err
	}
	return &Recovery{Path: aside, Cause: cause}, prune(path)
}

// prune removes all but the newest files set aside; their names, as ReadDir lists them, sort by age.
func prune(path string) error {
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	prefix := filepath.Base(path) + setAsideInfix
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		return !strings.HasPrefix(f.Name(), prefix) || strings.HasSuffix(f.Name(), "-wal")
	})
	for len(files) > maxSetAside {
		oldest := filepath.Join(filepath.Dir(path), files[0].Name())
		err = errors.Join(err, os.Remove(oldest), ignoreMissing(os.Remove(oldest+"-wal")))
		files = files[1:]
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
