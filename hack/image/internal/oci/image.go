// Package oci builds container images and writes them into archives, without a container
// engine. The result depends only on the arguments: it uses no clock, no environment and no
// registry.
package oci

import (
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image returns an image with one layer. The labels of the config are also the annotations
// of its manifest: engines show the labels, registries the annotations.
func Image(platform v1.Platform, layer v1.Layer, config v1.Config, created time.Time) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layer)
	if err != nil {
		return nil, fmt.Errorf("image for %s: %w", platform, err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image for %s: %w", platform, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.Variant
	file.Created = v1.Time{Time: created}
	file.Config = config
	for i := range file.History {
		file.History[i].Created = file.Created
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("image for %s: %w", platform, err)
	}
	return mutate.Annotations(image, config.Labels).(v1.Image), nil
}
