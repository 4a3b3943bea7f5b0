package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// ReserveName is the name of the file that keeps space on the disk, beside the database.
const ReserveName = "reserve"

// reserve keeps space on a disk that something else fills. The file is made empty when a
// message cannot be sent or removed for lack of space. Until it has its size again, nothing
// else may use that space. An empty file says so to the next process.
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
	var disk syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(r.path), &disk); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < 2*uint64(r.size) {
		return fmt.Errorf("%w: %d bytes are free", ErrFull, free)
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

// minFreeBytes is the free space of a disk on which a Commit is likely to succeed.
const minFreeBytes = 32 << 20

// CanCommit returns nil if a Commit is likely to succeed: the disk and the file have space,
// and a small transaction reaches the disk. It changes nothing.
func (s *Store) CanCommit(ctx context.Context) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(s.reserve.path), &disk); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < minFreeBytes {
		return fmt.Errorf("%w: %d bytes are free", ErrFull, free)
	}
	used, err := s.Used(ctx)
	if err != nil {
		return err
	}
	if s.maxBytes > 0 && used > usable(s.maxBytes)*pageSize*7/8 {
		return fmt.Errorf("%w: %d bytes are used", ErrFull, used)
	}
	return s.writeBounded(ctx, "check the outbox", func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		return tx.setState(ctx, state)
	})
}
