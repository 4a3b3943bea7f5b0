package scaffold

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spf13/cobra"
)

func newBuild() *cobra.Command {
	var image, output string
	var platforms []string
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the operator's image without Docker",
		Long: `Build the operator's image without Docker. The archive is for docker load, podman load,
ctr images import and kind load image-archive, and for tools that push OCI archives. The image
contains only the operator, and runs as in the Dockerfile of the project.`,
		Example: `  bongsu-sdk build --image example.com/cache-operator:v1 --platform linux/amd64,linux/arm64`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := findGo(); err != nil {
				return err
			}
			if err := checkPlatforms(c.Context(), platforms); err != nil {
				return err
			}
			name, err := imageTag(image)
			if err != nil {
				return err
			}
			if _, err := generateAndPrint(c); err != nil {
				return err
			}
			var images []v1.Image
			for _, p := range platforms {
				built, err := buildImage(c, p)
				if err != nil {
					return fmt.Errorf("%s: %w", p, err)
				}
				images = append(images, built)
			}
			if err := writeArchive(output, name, images); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is in %s.\n", name, output)
			return err
		},
	}
	c.Flags().StringVar(&image, "image", "", "name and tag of the image. The default is the name of the project")
	c.Flags().StringVar(&output, "output", "bin/image.tar", "file of the archive")
	c.Flags().StringSliceVar(&platforms, "platform", []string{"linux/" + runtime.GOARCH}, "platforms, such as linux/amd64,linux/arm64. The system is always linux")
	return c
}

// checkPlatforms returns the first platform for which no image can be built.
func checkPlatforms(ctx context.Context, platforms []string) error {
	if len(platforms) == 0 {
		return errors.New("no platform: set --platform, for example to linux/amd64")
	}
	list, err := exec.CommandContext(ctx, "go", "tool", "dist", "list").Output()
	if err != nil {
		return fmt.Errorf("go tool dist list: %w", err)
	}
	possible := slices.DeleteFunc(strings.Fields(string(list)), func(p string) bool { return !strings.HasPrefix(p, "linux/") })
	for _, p := range platforms {
		if !slices.Contains(possible, p) {
			return fmt.Errorf("no image can be built for the platform %q: use %s", p, strings.Join(possible, ", "))
		}
	}
	return nil
}

// imageTag returns the name with a tag. The default is the name of the project.
func imageTag(image string) (reference.NamedTagged, error) {
	if image == "" {
		project, err := loadProject()
		if err != nil {
			return nil, err
		}
		image = "localhost/" + project.GetProjectName()
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("invalid image %q: use a name such as example.com/cache-operator:v1", image)
	}
	tagged, ok := reference.TagNameOnly(named).(reference.NamedTagged)
	if !ok {
		return nil, fmt.Errorf("the image %q has a digest: use a tag", image)
	}
	return tagged, nil
}

// buildImage builds the operator for a platform. The same code makes the same image.
func buildImage(c *cobra.Command, platform string) (v1.Image, error) {
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join("bin", "image", p.OS, p.Architecture, "manager")
	environment := []string{"CGO_ENABLED=0", "GOOS=" + p.OS, "GOARCH=" + p.Architecture}
	if err := goBuild(c.Context(), c.ErrOrStderr(), environment, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./cmd"); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "manager", Mode: 0o755, Size: int64(len(content))}
	if err := errors.Join(w.WriteHeader(header), second(w.Write(content)), w.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.AppendLayers(image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = p.OS, p.Architecture
	config.Config = v1.Config{User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/manager"}}
	return mutate.ConfigFile(image, config)
}

func second(_ int, err error) error { return err }

// writeArchive writes an OCI layout, with the manifest that docker load needs for the first image.
func writeArchive(output string, name reference.NamedTagged, images []v1.Image) (err error) {
	dir, err := os.MkdirTemp("", "bongsu-sdk-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	annotations := map[string]string{"io.containerd.image.name": name.String(), "org.opencontainers.image.ref.name": name.Tag()}
	if err := at.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return err
	}
	if err := writeDockerManifest(dir, name, images[0]); err != nil {
		return err
	}
	return pack(output, dir)
}

func writeDockerManifest(dir string, name reference.NamedTagged, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	blob := func(d v1.Hash) string { return "blobs/" + d.Algorithm + "/" + d.Hex }
	described := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{name.String()}}
	for _, layer := range manifest.Layers {
		described.Layers = append(described.Layers, blob(layer.Digest))
	}
	content, err := json.Marshal(tarball.Manifest{described})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), content, 0o600)
}

// pack writes a directory into an archive, which has its name only when it is complete.
func pack(output, dir string) error {
	if err := os.MkdirAll(filepath.Dir(output), 0o750); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(output), ".image-")
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), output)
}
