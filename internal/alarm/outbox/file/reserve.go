package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	// PageSize is the page size of the file, SQLite's default.
	PageSize = 4096
	// maxReserve is the most that is reserved, in bytes.
	maxReserve = 16 << 20
)

// reserved returns the bytes that are reserved in a file with a limit.
func reserved(maxBytes int64) int64 { return min(maxBytes/16, maxReserve) }

// usable returns the bytes that can be used without the reserve, in whole pages.
func usable(maxBytes int64) int64 { return (maxBytes - reserved(maxBytes)) / PageSize * PageSize }

// ReserveName is the name of the file that keeps space on the disk, beside the database.
const ReserveName = "reserve"

// reserve keeps space on a disk that something else fills. The file is made empty when a
// change fails that is allowed to use it. Until it has its size again, nothing else may use
// that space. An empty file says so to the next process.
type reserve struct {
	path string
	size int64 // 0 is no reserve

	mu sync.Mutex
	// spent: the file is empty.
	spent bool
}

// open creates the file. A disk that is too small for it gets none.
func (r *reserve) open() error {
	if r.size == 0 {
		return nil
	}
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if r.fill() != nil {
			r.size = 0
			return ignoreMissing(os.Remove(r.path))
		}
		return nil
	case err != nil:
		return err
	}
	r.spent = info.Size() < r.size
	return nil
}

// spend empties the file, and reports whether that freed space.
func (r *reserve) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == 0 || r.spent || os.Truncate(r.path, 0) != nil {
		return false
	}
	r.spent = true
	return true
}

// restore fills the file again after it was spent. It fails with ErrFull if the disk has no
// space for it.
func (r *reserve) restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == 0 || !r.spent {
		return nil
	}
	if err := r.fill(); err != nil {
		return errors.Join(ErrFull, err, os.Truncate(r.path, 0))
	}
	r.spent = false
	return nil
}

// fill writes the file if as much stays free beside it. It fails with ErrFull otherwise.
func (r *reserve) fill() error {
	if err := checkDisk(filepath.Dir(r.path), 2*uint64(r.size)); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for left := r.size; left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	return errors.Join(err, f.Close())
}

// checkDisk fails with ErrFull if fewer bytes are free on the disk of a directory.
func checkDisk(dir string, want uint64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < want {
		return fmt.Errorf("%w: %d bytes are free", ErrFull, free)
	}
	return nil
}
