package scaffold

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
)

func TestTheArchiveContainsAllImagesAndTheManifestOfDocker(t *testing.T) {
	var images []v1.Image
	for range 2 {
		image, err := random.Image(64, 1)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	name, err := imageTag("example.com/cache-operator:v1")
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "bin", "image.tar")
	if err := writeArchive(output, name, images); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, output)
	files["index.json"] = strings.Join(strings.Fields(files["index.json"]), "")
	if !strings.Contains(files["index.json"], `"io.containerd.image.name":"example.com/cache-operator:v1"`) {
		t.Error("containerd does not find the name:", files["index.json"])
	}
	if !strings.Contains(files["manifest.json"], `"RepoTags":["example.com/cache-operator:v1"]`) {
		t.Error("Docker does not find the name:", files["manifest.json"])
	}
	for _, image := range images {
		digest, err := image.Digest()
		if _, exists := files["blobs/sha256/"+digest.Hex]; err != nil || !exists {
			t.Errorf("the archive does not contain %s: %v", digest, err)
		}
	}
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	files := map[string]string{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

func TestTheImageHasATag(t *testing.T) {
	for image, want := range map[string]string{
		"example.com/a:v1": "example.com/a:v1",
		"example.com/a":    "example.com/a:latest",
		"Example":          "invalid image",
		"example.com/a@sha256:" + strings.Repeat("0", 64): "has a digest",
	} {
		name, err := imageTag(image)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && name.String() != want {
			t.Errorf("%s: got %v, %v", image, name, err)
		}
	}
}

func TestOnlyPlatformsOfLinuxCanBeBuilt(t *testing.T) {
	newTypes(t)
	for _, platform := range []string{"windows", "linux", "/amd64", "windows/amd64", "linux/foo", "linux/amd64,linux/foo", "linux/arm/v6", `""`} {
		if err := run(t, "build --image a:1 --platform "+platform); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
			t.Errorf("%s: got the error %v", platform, err)
		}
	}
	if _, err := os.Stat("bin"); err == nil {
		t.Error("something was built")
	}
}
