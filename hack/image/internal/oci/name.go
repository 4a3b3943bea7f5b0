package oci

import (
	"fmt"

	"github.com/distribution/reference"
)

// ParseName reads the name of an image with its tag, and completes it as Kubernetes
// and containerd do before they look an image up. Without a tag it is "latest".
func ParseName(text string) (reference.NamedTagged, error) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return nil, fmt.Errorf("image name %q: %w: want a name such as localhost/bongsu:v1", text, err)
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.NamedTagged); ok {
		return tagged, nil
	}
	return nil, fmt.Errorf("image name %q: want a tag, not a digest: the digest follows from what is built", text)
}
