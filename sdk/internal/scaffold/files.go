package scaffold

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// files are the files of a project as they were before a command. The zero value keeps nothing.
type files struct {
	dir  string
	kept map[string]file // nil if nothing is kept
}

type file struct {
	mode    fs.FileMode
	content []byte
}

// skipped directories contain nothing that a command writes, and can be large.
var skipped = map[string]bool{".git": true, "bin": true, "vendor": true}

// keep reads the present files.
func (f *files) keep() error {
	kept := map[string]file{}
	err := f.walk(func(path string, mode fs.FileMode) error {
		if mode.IsDir() {
			kept[path] = file{mode: mode}
			return nil
		}
		content, err := os.ReadFile(path)
		kept[path] = file{mode: mode, content: content}
		return err
	})
	if err == nil {
		f.kept = kept
	}
	return err
}

// changes returns the paths of files that are new, and of those that differ.
func (f *files) changes() (added, changed []string, err error) {
	err = f.walk(func(path string, mode fs.FileMode) error {
		if mode.IsDir() {
			return nil
		}
		old, exists := f.kept[path]
		if !exists {
			added = append(added, path)
			return nil
		}
		content, err := os.ReadFile(path)
		if !bytes.Equal(content, old.content) {
			changed = append(changed, path)
		}
		return err
	})
	return added, changed, err
}

// restore removes files that are new, and writes those that changed.
func (f *files) restore() error {
	if f.kept == nil {
		return nil
	}
	var added []string
	errs := []error{f.walk(func(path string, _ fs.FileMode) error {
		if _, old := f.kept[path]; !old {
			added = append(added, path)
		}
		return nil
	})}
	for _, path := range added {
		errs = append(errs, os.RemoveAll(path))
	}
	for path, old := range f.kept {
		if old.mode.IsDir() {
			continue
		}
		if content, err := os.ReadFile(path); err != nil || !bytes.Equal(content, old.content) {
			errs = append(errs, os.WriteFile(path, old.content, old.mode.Perm()))
		}
	}
	return errors.Join(errs...)
}

// walk visits directories and regular files.
func (f *files) walk(visit func(path string, mode fs.FileMode) error) error {
	return filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == f.dir {
			return err
		}
		if entry.IsDir() && skipped[entry.Name()] {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil || !entry.IsDir() && !info.Mode().IsRegular() {
			return err
		}
		return visit(path, info.Mode())
	})
}
