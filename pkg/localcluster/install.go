package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// toolkitModule is the module of this package, whose version decides what Install builds.
	toolkitModule = "github.com/bongsu-io/bongsu"
	// controlPlane is the module of the control plane below it, the command in that module, and the
	// name of the binary.
	controlPlane = "controlplane"
)

// Install returns the directory with the binaries of the control plane, for [Config.Assets]. If
// [DefaultAssets] finds none, Install builds them from their Go modules and keeps them in the
// user's cache directory. That takes minutes once for each version of this module, and needs Go
// and a POSIX shell. It downloads modules only, as `go build` does: the environment of the go
// command applies. Several processes wait for each other.
//
// The version is that of this module in the Go module of the working directory. If a replace
// directive names a checkout of this module, Install builds from the checkout.
//
// progress gets lines for the user. It can be nil.
func Install(ctx context.Context, progress func(line string)) (dir string, err error) {
	if dir, err := DefaultAssets(); err == nil || !errors.Is(err, ErrNoAssets) || os.Getenv(AssetsEnv) != "" {
		return dir, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	i := installer{progress: progress}
	if i.cache, err = os.UserCacheDir(); err != nil {
		return "", err
	}
	i.cache = filepath.Join(i.cache, "bongsu", "k8s")
	if dir, err = i.install(ctx); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return dir, nil
}

// installer builds the binaries in a directory below cache.
type installer struct {
	cache    string
	progress func(line string)
}

// module is an answer of the go command about a module.
type module struct {
	Path, Version, Dir, Error string
	Main                      bool
	Replace                   *module
}

func (i *installer) install(ctx context.Context) (dir string, err error) {
	var toolkit module
	if err := i.goCommand(ctx, &toolkit, "list", "-m", "-json", toolkitModule); err != nil {
		return "", err
	}
	if err := os.MkdirAll(i.cache, 0o700); err != nil {
		return "", err
	}
	unlock, err := i.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if toolkit.isLocal() {
		return i.fromCheckout(ctx, filepath.Join(toolkit.Dir, controlPlane))
	}
	return i.fromProxy(ctx, &toolkit)
}

// isLocal reports whether a module is a directory of the user, and not a version.
func (m *module) isLocal() bool {
	return m.Main || m.Replace != nil && m.Replace.Version == ""
}

// pseudoVersion is a version made of a commit. Its group is the commit.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+incompatible)?$`)

// query returns the argument of `go mod download` for the module of the control plane. All modules
// of a repository have the same versions. Pseudo-versions of two modules can differ before the
// commit, with which they end.
func (m *module) query() string {
	path, version := m.Path, m.Version
	if m.Replace != nil {
		path, version = m.Replace.Path, m.Replace.Version
	}
	if commit := pseudoVersion.FindStringSubmatch(version); commit != nil {
		version = commit[1]
	}
	return path + "/" + controlPlane + "@" + version
}

// fromCheckout builds the binaries of a directory that can change at any time.
func (i *installer) fromCheckout(ctx context.Context, source string) (dir string, err error) {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, source) // never returns an error
	dir = filepath.Join(i.cache, fmt.Sprintf("checkout-%x", hash.Sum64()))
	return dir, i.build(ctx, source, dir)
}

// fromProxy builds the binaries of a version, unless they exist.
func (i *installer) fromProxy(ctx context.Context, toolkit *module) (dir string, err error) {
	var downloaded module
	if err := i.goCommand(ctx, &downloaded, "mod", "download", "-json", toolkit.query()); err != nil {
		return "", err
	}
	dir = filepath.Join(i.cache, downloaded.Version+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	if _, err := assetsIn(dir); err == nil {
		return dir, nil
	}
	work, err := os.MkdirTemp(i.cache, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	// The replace directives of the module apply only if it is the main module, and files in
	// the module cache must not be changed.
	source, built := filepath.Join(work, "source"), filepath.Join(work, "built")
	if err := os.CopyFS(source, os.DirFS(downloaded.Dir)); err != nil {
		return "", err
	}
	if err := i.build(ctx, source, built); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(built, dir)
}

// build builds the binary and its links in a directory.
func (i *installer) build(ctx context.Context, source, dir string) error {
	binary := filepath.Join(dir, controlPlane)
	if err := i.run(ctx, source, "sh", "build.sh", binary); err != nil {
		return err
	}
	return i.run(ctx, dir, binary, "link")
}

// run runs a command and passes its output on, line by line.
func (i *installer) run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, buildEnvironment()
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			i.progress(lines.Text())
		}
		_, _ = io.Copy(io.Discard, reader) // after a line that is too long
	}()
	err := cmd.Run()
	_ = writer.Close() // never returns an error
	<-done
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// buildEnvironment returns the environment of commands. The binaries run on this machine, whatever
// the user's tests are built for. Without debug information, the compiler needs less time.
func buildEnvironment() []string {
	return append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "GOFLAGS=-trimpath -buildvcs=false -gcflags=all=-dwarf=false")
}

// goCommand decodes the answer of the go command in the working directory.
func (i *installer) goCommand(ctx context.Context, answer *module, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if decodeErr := json.Unmarshal(out, answer); decodeErr == nil && answer.Error != "" {
		return errors.New(answer.Error)
	}
	if err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errOut.Bytes()))
	}
	return nil
}

// lockPause is how long to wait before another attempt to get the lock.
const lockPause = time.Second

// lock waits until no other process builds, and excludes others.
func (i *installer) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(i.cache, "lock"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		if attempt == 0 {
			i.progress("waiting for another process that builds the control plane")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockPause):
		}
	}
}
