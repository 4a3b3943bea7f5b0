package toolkit

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const toolkitPath = "github.com/bongsu-io/bongsu"

// goFile finds the files in a page: code that begins with a comment with the name.
var goFile = regexp.MustCompile("(?ms)^```go\n(// (\\w+\\.go)\n.*?)^```$")

// consumer is a module that requires the toolkit, with the code of the pages for
// authors of operators. Its
// cache has no binaries.
type consumer struct {
	t   *testing.T
	dir string
	env []string
}

// checkout returns the root of this repository.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// newConsumer returns a module with the same dependencies as the toolkit, so that nothing is
// downloaded that the toolkit does not need.
func newConsumer(t *testing.T, require string, env ...string) *consumer {
	t.Helper()
	c := &consumer{t: t, dir: t.TempDir(), env: append(os.Environ(), "GOWORK=off", "BONGSU_ASSETS=", "XDG_CACHE_HOME="+t.TempDir())}
	c.env = append(c.env, "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"))
	c.env = append(c.env, env...)
	for _, name := range []string{"build-your-own.md", "test-your-operator.md"} {
		page := read(t, filepath.Join(checkout(t), "docs", name))
		for _, file := range goFile.FindAllStringSubmatch(page, -1) {
			write(t, filepath.Join(c.dir, file[2]), []byte(file[1]))
		}
	}
	mod := strings.Replace(read(t, filepath.Join(checkout(t), "go.mod")), "module "+toolkitPath, "module example.com/consumer", 1)
	write(t, filepath.Join(c.dir, "go.mod"), []byte(mod+"\n"+require+"\n"))
	write(t, filepath.Join(c.dir, "go.sum"), []byte(read(t, filepath.Join(checkout(t), "go.sum"))))
	return c
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// test runs the tests of the module and returns their output.
func (c *consumer) test() string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "go", "test", "-mod=mod", "-count=1", "-v", ".")
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	for _, name := range []string{"TestTheAPIServerIsReal", "TestADeploymentBecomesAvailable"} {
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+name)) {
			c.t.Fatalf("%s did not pass: %v\n%s", name, err, out)
		}
	}
	return string(out)
}

const building = "Building the controlplane binary of Kubernetes v"

func TestAModuleTestsOnTheClusterOfACheckout(t *testing.T) {
	c := newConsumer(t, fmt.Sprintf("require %s v0.0.0\nreplace %s => %s", toolkitPath, toolkitPath, checkout(t)))
	if out := c.test(); !strings.Contains(out, building) {
		t.Errorf("the first test does not say that it builds:\n%s", out)
	}
}

// The version is that of the toolkit, and is built once. Go's build cache remembers which packages
// a version contains, so each run has its own.
func TestAModuleTestsOnTheClusterOfAVersion(t *testing.T) {
	version := fmt.Sprintf("v0.0.1-test.%d", time.Now().UnixNano())
	proxy := t.TempDir()
	publish(t, proxy, toolkitPath, checkout(t), version)
	publish(t, proxy, toolkitPath+"/controlplane", filepath.Join(checkout(t), "controlplane"), version)
	c := newConsumer(t, fmt.Sprintf("require %s %s", toolkitPath, version),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+","+goEnv(t, "GOPROXY"), "GONOSUMDB="+toolkitPath+","+toolkitPath+"/*", "GOFLAGS=-modcacherw")
	cache := goEnv(t, "GOMODCACHE")
	t.Cleanup(func() { forget(t, cache, version) })
	if out := c.test(); !strings.Contains(out, building) {
		t.Errorf("the first test does not say that it builds:\n%s", out)
	}
	if out := c.test(); strings.Contains(out, building) {
		t.Errorf("the second test builds again:\n%s", out)
	}
}

// publish adds a version of a module to the directory of a module proxy (go help goproxy). It
// contains the committed files, and those to be committed, without nested modules.
func publish(t *testing.T, proxy, module, dir, version string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard")
	list.Dir = dir
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	nested := regexp.MustCompile(`(?m)^(.+/)go\.mod$`).FindAllStringSubmatch(string(files), -1)
	var archive bytes.Buffer
	zipped := zip.NewWriter(&archive)
	for name := range strings.Lines(string(files)) {
		name = strings.TrimSpace(name)
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || inAny(name, nested) { // deleted, or of another module
			continue
		}
		file, err := zipped.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = file.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, "list"), []byte(version+"\n"))
	write(t, filepath.Join(at, version+".info"), fmt.Appendf(nil, `{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, version))
	write(t, filepath.Join(at, version+".mod"), []byte(read(t, filepath.Join(dir, "go.mod"))))
	write(t, filepath.Join(at, version+".zip"), archive.Bytes())
}

func inAny(name string, directories [][]string) bool {
	for _, d := range directories {
		if strings.HasPrefix(name, d[1]) {
			return true
		}
	}
	return false
}

// forget removes the version from the module cache.
func forget(t *testing.T, cache, version string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(cache, filepath.FromSlash("cache/download/"+toolkitPath), "@v", version+"*"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(cache, filepath.FromSlash("cache/download/"+toolkitPath+"/controlplane"), "@v", version+"*"))
	if err != nil {
		t.Fatal(err)
	}
	paths = append(append(paths, more...), filepath.Join(cache, toolkitPath+"@"+version), filepath.Join(cache, toolkitPath, "controlplane@"+version))
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
}
