package main

import (
	"bytes"
	"debug/elf"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// packed returns an archive with the operator for amd64. For arm64, it contains a tiny
// program, because compiling the operator again takes minutes.
func packed(t *testing.T) (archive, operator string) {
	t.Helper()
	archive = filepath.Join(t.TempDir(), "image.tar")
	operator = buildFor(t, root, "./cmd/bongsu-operator", "linux/amd64")
	tiny := buildFor(t, ".", "./testdata/tiny", "linux/arm64")
	err := run([]string{
		"-output", archive, "-license", filepath.Join(root, "LICENSE"), "-name", "localhost/bongsu:v1.2.3",
		"-version", "v1.2.3", "-revision", "0123abc", "-created", "1700000000",
		"linux/amd64=" + operator, "linux/arm64=" + tiny,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return archive, operator
}

func TestTheArchiveContainsAnImageForEachPlatform(t *testing.T) {
	archive, operator := packed(t)
	index, described := readIndex(t, archive)

	t.Run("the name", func(t *testing.T) {
		want := map[string]string{
			"io.containerd.image.name":          "localhost/bongsu:v1.2.3",
			"org.opencontainers.image.ref.name": "v1.2.3",
		}
		if diff := cmp.Diff(want, described.Annotations); diff != "" {
			t.Error(diff)
		}
	})

	byPlatform := images(t, index)
	if got := slices.Sorted(maps.Keys(byPlatform)); !slices.Equal(got, []string{"linux/amd64", "linux/arm64"}) {
		t.Fatalf("platforms %q", got)
	}
	for platform, image := range byPlatform {
		t.Run(platform, func(t *testing.T) {
			got := config(t, image)
			if got.Platform().String() != platform {
				t.Errorf("the config is for %s", got.Platform())
			}
			checkUser(t, got.Config.User)
			files := filesOf(t, image)
			checkFiles(t, files)
			checkEntrypoint(t, files, got.Config.Entrypoint, platform)
			manifest, err := image.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantLabels, got.Config.Labels); diff != "" {
				t.Errorf("labels: %s", diff)
			}
			if diff := cmp.Diff(wantLabels, manifest.Annotations); diff != "" {
				t.Errorf("annotations: %s", diff)
			}
		})
	}

	t.Run("the SBOM lists the modules of the operator", func(t *testing.T) {
		listed := listedModules(t, filesOf(t, byPlatform["linux/amd64"])["usr/share/doc/bongsu/sbom.cdx.json"].content)
		if diff := cmp.Diff(goVersion(t, operator), listed); diff != "" {
			t.Errorf("go version -m (-) and the SBOM (+):\n%s", diff)
		}
	})

	t.Run("an engine without OCI layouts finds the first image", func(t *testing.T) {
		image, err := tarball.ImageFromPath(archive, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config(t, byPlatform["linux/amd64"]), config(t, image)); diff != "" {
			t.Error(diff)
		}
	})
}

var wantLabels = map[string]string{
	"org.opencontainers.image.title":       "Bongsu",
	"org.opencontainers.image.description": "A Kubernetes operator that makes a shared cluster explain itself",
	"org.opencontainers.image.source":      "https://github.com/bongsu-io/bongsu",
	"org.opencontainers.image.licenses":    "Apache-2.0",
	"org.opencontainers.image.version":     "v1.2.3",
	"org.opencontainers.image.revision":    "0123abc",
	"org.opencontainers.image.created":     "2023-11-14T22:13:20Z",
}

// checkUser checks that user and group are numbers and not root, as runAsNonRoot requires.
func checkUser(t *testing.T, user string) {
	t.Helper()
	for id := range strings.SplitSeq(user, ":") {
		if number, err := strconv.Atoi(id); err != nil || number == 0 {
			t.Errorf("the user is %q, want numbers other than 0", user)
		}
	}
}

// checkFiles checks that only root can write the files, and that no file is setuid or setgid.
func checkFiles(t *testing.T, files map[string]file) {
	t.Helper()
	for name, file := range files {
		if file.Uid != 0 || file.Gid != 0 || file.Mode&0o7022 != 0 {
			t.Errorf("/%s has owner %d:%d and mode %o", name, file.Uid, file.Gid, file.Mode)
		}
	}
}

func checkEntrypoint(t *testing.T, files map[string]file, entrypoint []string, platform string) {
	t.Helper()
	if len(entrypoint) != 1 {
		t.Fatalf("entrypoint %q", entrypoint)
	}
	started, found := files[strings.TrimPrefix(entrypoint[0], "/")]
	if !found || started.Mode&0o111 != 0o111 {
		t.Fatalf("%s is not executable", entrypoint[0])
	}
	binary, err := elf.NewFile(bytes.NewReader(started.content))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}[platform]
	if binary.Machine != want {
		t.Errorf("the binary is for %v", binary.Machine)
	}
	for _, program := range binary.Progs {
		if program.Type == elf.PT_INTERP {
			t.Error("the binary needs a loader, which the image does not contain")
		}
	}
}
