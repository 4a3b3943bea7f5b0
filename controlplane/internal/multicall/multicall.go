// Package multicall lets several programs live in one binary and picks one by
// the name the binary is called by.
//
// It must not import any of the programs: then its tests, unlike those of the
// binary, take no minutes to link.
package multicall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Program is one of the programs in the binary.
type Program struct {
	Name    string
	Summary string // one line for the help text
	// Main runs the program on os.Args. Like any main function it may end the
	// process itself; when it returns, the program has succeeded.
	Main func()
}

// Binary is the binary as a whole.
type Binary struct {
	Name     string
	Summary  string
	Programs []Program // in the order of the help text
}

// linkCommand is the argument with which the binary makes the links.
const linkCommand = "link"

// Run runs the program that os.Args selects. With the argument link, it makes the links
// beside the binary instead. It exits with a help text if there is no such program.
func (b *Binary) Run() {
	if len(os.Args) == 2 && os.Args[1] == linkCommand {
		if err := b.linkBesideBinary(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(exitFailed)
		}
		return
	}
	program, args, ok := b.Choose(os.Args)
	if !ok {
		os.Exit(b.Explain(os.Args, os.Stdout, os.Stderr))
	}
	os.Args = args // every program reads its flags from here
	program.Main()
}

func (b *Binary) linkBesideBinary() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	return b.Link(path)
}

// Link makes a link to the binary for each program, in the directory of the binary. It
// replaces existing links.
func (b *Binary) Link(binary string) error {
	for _, p := range b.Programs {
		link := filepath.Join(filepath.Dir(binary), p.Name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Base(binary), link); err != nil {
			return err
		}
	}
	return nil
}

// Choose returns the program that argv asks for, and the argv that this program
// is to see. It goes by the name of the binary or, where that is none of the
// programs, by the first argument. ok is false if neither names a program.
func (b *Binary) Choose(argv []string) (program Program, args []string, ok bool) {
	if len(argv) > 0 {
		if program, ok = b.lookup(base(argv[0])); ok {
			return program, argv, true
		}
	}
	if len(argv) > 1 {
		program, ok = b.lookup(argv[1])
		return program, argv[1:], ok
	}
	return Program{}, nil, false
}

func (b *Binary) lookup(name string) (Program, bool) {
	i := slices.IndexFunc(b.Programs, func(p Program) bool { return p.Name == name })
	if i < 0 {
		return Program{}, false
	}
	return b.Programs[i], true
}

func base(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}
