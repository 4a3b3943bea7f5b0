// Command rootfs makes image archives of Debian's packages, for tests on a real node
// without a registry: of memcached, and of a notebook server. It needs Linux, root and
// mmdebstrap, takes the packages from where the machine's apt does, and makes nothing
// that is there already. The images are for tests alone: nobody keeps them up to date.
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

const usage = `Makes image archives of Debian's packages, for tests on a real node.

usage: rootfs [flags] [NAME...]

Without names, all are made: %s.

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
	sources := flags.String("sources", aptSources(), "the `file` that tells apt where Debian's packages are")
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

// aptSources is the file in which Debian names its own archive.
func aptSources() string {
	const current, former = "/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"
	if _, err := os.Stat(current); err == nil {
		return current
	}
	return former
}

// release is the code name of the Debian that this machine runs.
func release() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("find out which Debian this is: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", errors.New("find out which Debian this is: /etc/os-release has no VERSION_CODENAME")
}

// created is the time that everything in the images bears.
var created = time.Unix(0, 0).UTC()
