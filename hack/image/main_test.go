package main

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestABinaryThatCannotStartIsRefused(t *testing.T) {
	tiny := buildFor(t, ".", "./testdata/tiny", "linux/arm64")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dynamic := withLoader(t, tiny)
	for name, tc := range map[string]struct{ arg, want string }{
		"for another platform": {"linux/amd64=" + tiny, "built for EM_AARCH64, not for linux/amd64"},
		"with a loader":        {"linux/arm64=" + dynamic, "build it with CGO_ENABLED=0"},
		"an unknown platform":  {"linux/sparc=" + tiny, "use linux/amd64 or linux/arm64"},
		"not a binary":         {"linux/amd64=" + script, "not a program for Linux"},
		"missing":              {"linux/amd64=/nowhere", "no such file"},
		"without a platform":   {tiny, "want PLATFORM=BINARY"},
		"empty":                {"", "want PLATFORM=BINARY"},
	} {
		t.Run(name, func(t *testing.T) {
			output := filepath.Join(t.TempDir(), "image.tar")
			err := run([]string{"-output", output, "-license", filepath.Join(root, "LICENSE"), tc.arg}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if _, err := os.Stat(output); err == nil {
				t.Error("an archive was written")
			}
		})
	}
}

// withLoader returns a copy of a binary whose first program header requires a loader.
func withLoader(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const headers = 64 // of ELF itself, in bytes
	binary.LittleEndian.PutUint32(content[headers:], uint32(elf.PT_INTERP))
	path = filepath.Join(t.TempDir(), "dynamic")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
