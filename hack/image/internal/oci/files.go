package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is a regular file of an image. It belongs to root.
type File struct {
	Path    string // absolute, in the image
	Mode    int64  // permissions
	Content []byte
}

// Layer is a layer of these files and the directories that they are in. Its bytes
// follow from the files and the time alone.
func Layer(files []File, created time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	if err := writeFiles(&archive, files, created); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func writeFiles(to io.Writer, files []File, created time.Time) error {
	archive := tar.NewWriter(to)
	for _, directory := range directories(files) {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: directory + "/", Mode: 0o755, ModTime: created}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("layer: %s: %w", directory, err)
		}
	}
	for _, file := range slices.SortedFunc(slices.Values(files), byPath) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(file.Path, "/"),
			Mode: file.Mode, Size: int64(len(file.Content)), ModTime: created,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("layer: %s: %w", file.Path, err)
		}
		if _, err := archive.Write(file.Content); err != nil {
			return fmt.Errorf("layer: %s: %w", file.Path, err)
		}
	}
	return archive.Close()
}

func byPath(a, b File) int { return strings.Compare(a.Path, b.Path) }

// directories are those that the files are in, each after the one that it is in.
func directories(files []File) []string {
	var found []string
	for _, file := range files {
		for dir := path.Dir(file.Path); dir != "/"; dir = path.Dir(dir) {
			found = append(found, strings.TrimPrefix(dir, "/"))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
