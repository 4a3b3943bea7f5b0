package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTwoBuildsWriteTheSameArchive(t *testing.T) {
	one := makeImage(t, "TZ=UTC", "USER=one")
	other := makeImage(t, "TZ=Asia/Seoul", "USER=other")
	if !bytes.Equal(one, other) {
		t.Error("two builds of the same tree wrote different archives")
	}
}

// makeImage runs make in a copy of the repository. It returns an archive for one platform.
func makeImage(t *testing.T, environment ...string) []byte {
	t.Helper()
	tree := copyTree(t)
	build := exec.CommandContext(t.Context(), "make", "-C", tree, "image",
		"PLATFORMS=linux/amd64", "VERSION=v1.2.3", "REVISION=0123abc", "SOURCE_DATE_EPOCH=1700000000")
	build.Env = append(os.Environ(), "MAKEFLAGS=", "MAKEOVERRIDES=") // those of a make that runs this test do not apply
	build.Env = append(build.Env, environment...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive, err := os.ReadFile(filepath.Join(tree, "bin", "bongsu-image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
