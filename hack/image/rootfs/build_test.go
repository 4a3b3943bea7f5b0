package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func sample(t *testing.T) builder {
	t.Helper()
	dir := t.TempDir()
	b := builder{definition: definitions[0], suite: "stable", sources: filepath.Join(dir, "sources"), archive: filepath.Join(dir, "a.tar"), stdout: new(bytes.Buffer)}
	write(t, b.sources, "deb x")
	return b
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnImageIsMadeAgainOnlyOfOtherThings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *builder)
		want   bool
	}{
		"nothing":         {func(*testing.T, *builder) {}, true},
		"a package":       {func(_ *testing.T, b *builder) { b.packages = []string{"nginx"} }, false},
		"the command":     {func(_ *testing.T, b *builder) { b.config.Cmd = []string{"-v"} }, false},
		"Debian":          {func(_ *testing.T, b *builder) { b.suite = "testing" }, false},
		"where it is":     {func(t *testing.T, b *builder) { write(t, b.sources, "deb y") }, false},
		"it was deleted":  {func(t *testing.T, b *builder) { remove(t, b.archive) }, false},
		"it was not done": {func(t *testing.T, b *builder) { remove(t, b.keyFile()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := sample(t)
			key, err := b.key()
			if err != nil {
				t.Fatal(err)
			}
			write(t, b.archive, "")
			write(t, b.keyFile(), key)
			tc.change(t, &b)
			if key, err = b.key(); err != nil {
				t.Fatal(err)
			}
			if got := b.isMade(key); got != tc.want {
				t.Errorf("isMade() = %t", got)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestAnUnknownImageIsNamed(t *testing.T) {
	if _, err := find([]string{"memcached", "nginx"}); err == nil || err.Error() != `there is no image "nginx": want one of ["memcached" "jupyter-notebook"]` {
		t.Errorf("find() = %v", err)
	}
}
