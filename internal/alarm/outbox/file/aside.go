package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Recovery describes a damaged file that was set aside.
type Recovery struct {
	// Path is the new path of the file. Its WAL is beside it, if there was one.
	Path string
	// Cause describes the damage.
	Cause error
}

// maxSetAside limits the damaged files that are kept. The newest are kept. Each can be as
// large as the outbox.
const maxSetAside = 1

const setAsideInfix = ".corrupt-"

// setAside renames a damaged file and its WAL, so that an administrator can still open
// both. It removes the index of the WAL, which only an open connection uses.
func setAside(path string, now time.Time) (to string, err error) {
	to = path + setAsideInfix + now.UTC().Format("20060102T150405.000000000")
	if err := os.Rename(path, to); err != nil {
		return "", err
	}
	if err := ignoreMissing(os.Rename(path+"-wal", to+"-wal")); err != nil {
		return "", err
	}
	if err := ignoreMissing(os.Remove(path + "-shm")); err != nil {
		return "", err
	}
	return to, prune(path)
}

// prune removes all but the newest damaged files. ReadDir sorts their names by age.
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
