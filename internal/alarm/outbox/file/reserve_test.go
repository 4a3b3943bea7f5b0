package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// disk mounts a small file system.
func disk(t *testing.T, size string) (mount string) {
	t.Helper()
	mount = t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	return mount
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	for err == nil {
		_, err = f.Write(make([]byte, PageSize))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// Something else fills the disk. Only changes that are allowed to use the reserve succeed.
func TestTheReserveIsForReservedChanges(t *testing.T) {
	const limit = 32 << 20
	mount := disk(t, "24m")
	dir, rest := filepath.Join(mount, "data"), filepath.Join(mount, "rest")
	f := open(t, dir, limit)
	assertReserve := func(want int64) {
		t.Helper()
		if info, err := os.Stat(filepath.Join(dir, ReserveName)); err != nil || info.Size() != want {
			t.Errorf("the reserve is %v (%v), want %d bytes", info, err, want)
		}
	}
	assertReserve(limit / 16)
	fillDisk(t, rest)
	large := strings.Repeat("a", 512<<10)
	for name, mode := range map[string]Mode{"that waits": 0, "that is lazy": Lazy, "that is bounded": Bounded, "that is both": Lazy | Bounded} {
		if err := f.Write(t.Context(), "store a note", mode, note(large)); !errors.Is(err, ErrFull) {
			t.Errorf("a change %s: got %v, want ErrFull", name, err)
		}
	}
	assertReserve(limit / 16)
	must(t, f.Write(t.Context(), "store a note", Lazy|Reserved, note(large)))
	assertReserve(0)
	if err := f.Write(t.Context(), "store a note", Bounded, note("small")); !errors.Is(err, ErrFull) {
		t.Errorf("a small note was stored in the space of the reserve: %v", err)
	}
	must(t, f.Close())

	f = open(t, dir, limit) // the empty file says that the reserve is spent
	if err := f.Write(t.Context(), "store a note", Bounded, note("small")); !errors.Is(err, ErrFull) {
		t.Errorf("the next process stored a small note in the space of the reserve: %v", err)
	}
	must(t, os.Remove(rest))
	must(t, f.Write(t.Context(), "store a note", Bounded, note("small")))
	assertReserve(limit / 16)
	assertTexts(t, f, large, "small")
}

func TestADiskThatIsTooSmallForAReserveWorks(t *testing.T) {
	dir := filepath.Join(disk(t, "8m"), "data")
	for range 2 {
		f := open(t, dir, 512<<20)
		write(t, f, "a")
		must(t, f.Close())
	}
	if _, err := os.Stat(filepath.Join(dir, ReserveName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a reserve: %v", err)
	}
}

func TestTheSpaceOfADiskIsChecked(t *testing.T) {
	mount := disk(t, "64m")
	f := open(t, filepath.Join(mount, "data"), 0)
	must(t, f.CheckSpace(t.Context()))
	must(t, os.WriteFile(filepath.Join(mount, "ballast"), make([]byte, 40<<20), 0o600))
	if err := f.CheckSpace(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	must(t, f.Close())
}

func TestAFileIsNearlyFullAtSevenEighths(t *testing.T) {
	f := open(t, t.TempDir(), 160*PageSize)
	for full := false; !full; {
		must(t, f.CheckSpace(t.Context()))
		write(t, f, strings.Repeat("a", 2*PageSize))
		var err error
		full, err = f.NearlyFull(t.Context())
		must(t, err)
	}
	if used, err := f.Used(t.Context()); err != nil || used < 131*PageSize || used > 136*PageSize {
		t.Errorf("it is nearly full with %d bytes (%v)", used, err)
	}
	if err := f.CheckSpace(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}
