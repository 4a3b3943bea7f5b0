package command

import (
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// inside is set in the second run of a test: see inEmptyRoot.
const inside = "BONGSU_TEST_INSIDE"

// authority is the certificate of a public authority, DigiCert Global Root G2.
//
//go:embed testdata/authority.pem
var authority []byte

func TestCertificatesArePartOfTheBinary(t *testing.T) {
	if !inEmptyRoot(t) {
		return
	}
	block, _ := pem.Decode(authority)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{CurrentTime: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
		t.Errorf("Verify() = %v", err)
	}
}

func TestTimeZonesArePartOfTheBinary(t *testing.T) {
	if !inEmptyRoot(t) {
		return
	}
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Unix(1700000000, 0).In(seoul).Zone(); offset != 9*60*60 {
		t.Errorf("Seoul is %d s ahead of UTC", offset)
	}
}

// inEmptyRoot runs the test a second time, in a root directory that contains only the test
// binary. It returns true there.
func inEmptyRoot(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		if files, err := os.ReadDir("/etc"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the root directory is not empty: /etc has %v, %v", files, err)
		}
		return true
	}
	root := t.TempDir()
	copyExecutable(t, filepath.Join(root, "test"))
	again := exec.CommandContext(t.Context(), "/test", "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = []string{inside + "=1"}
	again.Dir = "/"
	again.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() != 0 {
		again.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	out, err := again.CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.Skipf("needs root, or namespaces of users: %v", err)
	case errors.Is(err, fs.ErrNotExist):
		t.Skipf("the test is not static, which it is with CGO_ENABLED=0: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func copyExecutable(t *testing.T, to string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o700); err != nil {
		t.Fatal(err)
	}
}
