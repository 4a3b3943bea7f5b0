package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// file is one of a tar: its header and what is in it.
type file struct {
	*tar.Header
	content []byte
}

// readTar reads a tar into memory, by names without slashes around them.
func readTar(t *testing.T, from io.Reader) map[string]file {
	t.Helper()
	files := map[string]file{}
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[path.Clean(header.Name)] = file{header, content}
	}
}

// readIndex is the index of the one image in an archive, and how the archive names it.
func readIndex(t *testing.T, archive string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, file := range readTar(t, bytes.NewReader(text)) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if file.Typeflag == tar.TypeDir {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, file.content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the archive holds %d images, want one", len(manifest.Manifests))
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0]
}

// images are those of an index, by the platform that it says they are for.
func images(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, described := range manifest.Manifests {
		image, err := index.Image(described.Digest)
		if err != nil {
			t.Fatal(err)
		}
		found[described.Platform.String()] = image
	}
	return found
}

func config(t *testing.T, image v1.Image) *v1.ConfigFile {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// filesOf are all the files that a container of the image sees.
func filesOf(t *testing.T, image v1.Image) map[string]file {
	t.Helper()
	all := mutate.Extract(image)
	defer func() { _ = all.Close() }()
	return readTar(t, all)
}
