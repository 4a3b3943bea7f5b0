package oci

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The annotations by which an archive says what its image is called. containerd's
// import reads the first, other tools the second, which is the tag alone.
const (
	annotationContainerd = "io.containerd.image.name"
	annotationTag        = "org.opencontainers.image.ref.name"
)

// WriteArchive writes one image for several platforms into an OCI layout in a tar. The
// file appears once it is complete. Engines that know no OCI layout find the first of
// the images in it, by Docker's own manifest.json. It returns the digest of the index,
// by which the image may be pinned.
func WriteArchive(output string, name reference.NamedTagged, images []v1.Image, created time.Time) (v1.Hash, error) {
	index, err := indexOf(images)
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("index: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(output), ".layout-")
	if err != nil {
		return v1.Hash{}, fmt.Errorf("archive: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeLayout(dir, name, index); err != nil {
		return v1.Hash{}, fmt.Errorf("archive: %w", err)
	}
	if err := writeDockerManifest(dir, name, images[0]); err != nil {
		return v1.Hash{}, fmt.Errorf("archive: %w", err)
	}
	if err := packFile(output, os.DirFS(dir), created); err != nil {
		return v1.Hash{}, fmt.Errorf("archive: %w", err)
	}
	return digest, nil
}

// indexOf is the index of one image for several platforms, described as they are.
func indexOf(images []v1.Image) (v1.ImageIndex, error) {
	if len(images) == 0 {
		return nil, errors.New("no image to write: name a platform")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	manifest, err := images[0].Manifest()
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return mutate.Annotations(index, manifest.Annotations).(v1.ImageIndex), nil
}

func writeLayout(dir string, name reference.NamedTagged, index v1.ImageIndex) error {
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		annotationContainerd: name.String(), annotationTag: name.Tag(),
	}))
}

// writeDockerManifest describes an image that is in the layout as `docker save` does.
func writeDockerManifest(dir string, name reference.NamedTagged, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	described := tarball.Descriptor{Config: blobPath(manifest.Config.Digest), RepoTags: []string{name.String()}}
	for _, layer := range manifest.Layers {
		described.Layers = append(described.Layers, blobPath(layer.Digest))
	}
	text, err := json.Marshal(tarball.Manifest{described})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600)
}

func blobPath(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// packFile writes the tar under another name first, so that no incomplete file has its name.
func packFile(output string, tree fs.FS, created time.Time) error {
	file, err := os.CreateTemp(filepath.Dir(output), ".archive-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails if the file was renamed
	err = cmp.Or(pack(file, tree, created), file.Chmod(0o644))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), output)
}

// pack writes a tree in the order of its names, as if root had made all of it then.
func pack(to io.Writer, tree fs.FS, created time.Time) error {
	archive := tar.NewWriter(to)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: created})
		}
		return packOne(archive, tree, name, created)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func packOne(archive *tar.Writer, tree fs.FS, name string, created time.Time) error {
	file, err := tree.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size(), ModTime: created}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
