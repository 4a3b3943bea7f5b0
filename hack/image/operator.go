package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bongsu-io/bongsu/hack/image/internal/oci"
)

// Paths in the image.
const (
	binaryPath  = "/bongsu-operator"
	licensePath = "/usr/share/doc/bongsu/LICENSE"
	sbomPath    = "/usr/share/doc/bongsu/sbom.cdx.json"
)

// user contains the numbers of user and group. Kubernetes cannot check that a user with a
// name is not root.
const user = "65532:65532"

// operatorImage returns the operator's image for one platform. It contains the binary, its
// license and its SBOM.
func operatorImage(built build, license []byte, version string, labels map[string]string, created time.Time) (v1.Image, error) {
	binary, err := os.ReadFile(built.path)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	if err := checkBinary(binary, built.platform); err != nil {
		return nil, fmt.Errorf("%s: %w", built.path, err)
	}
	sbom, err := billOfMaterials(binary, version, created)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", built.path, err)
	}
	layer, err := oci.Layer([]oci.File{
		{Path: binaryPath, Mode: 0o755, Content: binary},
		{Path: licensePath, Mode: 0o644, Content: license},
		{Path: sbomPath, Mode: 0o644, Content: sbom},
	}, created)
	if err != nil {
		return nil, err
	}
	return oci.Image(built.platform, layer, v1.Config{
		User: user, Entrypoint: []string{binaryPath}, WorkingDir: "/", Labels: labels,
	}, created)
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkBinary returns an error if the binary cannot start in an empty image on the platform.
func checkBinary(binary []byte, platform v1.Platform) error {
	want, known := machines[platform.Architecture]
	if platform.OS != "linux" || !known {
		return fmt.Errorf("no image for %s: use linux/amd64 or linux/arm64", platform)
	}
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("not a program for Linux: %w", err)
	}
	if file.Machine != want {
		return fmt.Errorf("built for %s, not for %s", file.Machine, platform)
	}
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP {
			return errors.New("not static: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
