// Command rootfs builds image archives from Debian's packages, for tests on a real node
// without a registry: memcached, and a notebook server. It needs Linux, root and mmdebstrap.
// It uses the package sources of the machine, and keeps archives that are up to date. The
// images are only for tests: they get no security updates.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

const usage = `Builds image archives from Debian's packages, for tests on a real node.

usage: rootfs [flags] [NAME...]

Without names, it builds all: %s.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rootfs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("rootfs", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), usage, strings.Join(names(), ", "))
		flags.PrintDefaults()
	}
	output := flags.String("output", ".", "the `directory` to write NAME.tar into")
	sources := flags.String("sources", aptSources(), "the `file` with the package sources for apt")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := find(flags.Args())
	if err != nil {
		return err
	}
	suite, err := release()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*output, 0o750); err != nil {
		return err
	}
	for _, d := range wanted {
		b := builder{definition: d, suite: suite, sources: *sources, archive: filepath.Join(*output, d.name+".tar"), stdout: stdout}
		if err := b.ensure(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

// aptSources returns the file with the package sources of this machine.
func aptSources() string {
	const current, former = "/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"
	if _, err := os.Stat(current); err == nil {
		return current
	}
	return former
}

// release returns the code name of the Debian release on this machine.
func release() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("read the Debian release: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", errors.New("read the Debian release: /etc/os-release has no VERSION_CODENAME")
}

// created is the time of the images and their files.
var created = time.Unix(0, 0).UTC()
