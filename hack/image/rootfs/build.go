package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/bongsu-io/bongsu/hack/image/internal/oci"
)

// finish is run on the extracted packages.
//
//go:embed finish.sh
var finish []byte

// builder makes one image.
type builder struct {
	definition

	suite, sources string
	archive        string // the file to write
	stdout         io.Writer
}

// ensure builds the image if its definition has changed since the last build. It ignores
// new versions of Debian's packages.
func (b builder) ensure(ctx context.Context) error {
	key, err := b.key()
	if err != nil {
		return err
	}
	if b.isMade(key) {
		_, err := fmt.Fprintf(b.stdout, "%s is up to date.\n", b.archive)
		return err
	}
	begun := time.Now()
	if _, err := fmt.Fprintf(b.stdout, "Making %s of Debian's packages, which takes a minute or two.\n", b.archive); err != nil {
		return err
	}
	if err := b.make(ctx); err != nil {
		return err
	}
	// Last: an archive without a key is made again.
	if err := os.WriteFile(b.keyFile(), []byte(key), 0o600); err != nil {
		return err
	}
	info, err := os.Stat(b.archive)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.stdout, "%s is %s: %d MB, made in %v.\n", b.archive, b.image(), info.Size()>>20, time.Since(begun).Round(time.Second))
	return err
}

// key identifies what the image is made of.
func (b builder) key() (string, error) {
	sources, err := os.ReadFile(b.sources)
	if err != nil {
		return "", fmt.Errorf("find out where Debian's packages are: %w", err)
	}
	parts, err := json.Marshal([]any{b.arguments("", ""), sources, finish, b.name, b.config})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(parts)
	return hex.EncodeToString(sum[:]), nil
}

func (b builder) keyFile() string { return b.archive + ".key" }

func (b builder) isMade(key string) bool {
	former, err := os.ReadFile(b.keyFile())
	if err != nil || string(former) != key {
		return false
	}
	_, err = os.Stat(b.archive)
	return err == nil
}

func (b builder) make(ctx context.Context) error {
	if err := os.Remove(b.keyFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	name, err := oci.ParseName(b.image())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(b.archive), ".rootfs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree := filepath.Join(dir, "tree.tar")
	if err := b.bootstrap(ctx, dir, tree); err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(tree, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return err
	}
	image, err := oci.Image(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, layer, b.config, created)
	if err != nil {
		return err
	}
	_, err = oci.WriteArchive(b.archive, name, []v1.Image{image}, created)
	return err
}

// arguments returns the arguments of mmdebstrap. It extracts packages without configuring
// them, which would take four times as long and need a dozen more packages.
func (b builder) arguments(hook, tree string) []string {
	packages := append([]string{"busybox"}, b.packages...)
	return []string{
		"--mode=root", "--variant=extract", "--skip=output/dev", `--aptopt=Apt::Install-Recommends "false"`,
		"--include=" + strings.Join(packages, ","), "--extract-hook=" + hook, b.suite, tree, b.sources,
	}
}

// bootstrap makes a tar of the packages' files.
func (b builder) bootstrap(ctx context.Context, dir, tree string) error {
	hook, err := filepath.Abs(filepath.Join(dir, "finish.sh"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(hook, finish, 0o700); err != nil { //nolint:gosec // a script must be executable
		return err
	}
	command := exec.CommandContext(ctx, "mmdebstrap", b.arguments(hook, tree)...)
	command.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", created.Unix()))
	command.Stdout, command.Stderr = b.stdout, b.stdout
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // it cleans up
	err = command.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: it is Debian's package of that name", err)
	}
	return err
}
