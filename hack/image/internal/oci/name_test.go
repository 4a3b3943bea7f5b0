package oci_test

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/hack/image/internal/oci"
)

func TestANameIsCompletedAsContainerdDoes(t *testing.T) {
	for given, want := range map[string]string{
		"bongsu":                       "/library/bongsu:latest",
		"team/bongsu:v1":               "/team/bongsu:v1",
		"localhost/bongsu:v1":          "localhost/bongsu:v1",
		"registry.example:5000/b:v1-2": "registry.example:5000/b:v1-2",
	} {
		if got, err := oci.ParseName(given); err != nil || !strings.HasSuffix(got.String(), want) {
			t.Errorf("ParseName(%q) = %v, %v, want ...%s", given, got, err, want)
		}
	}
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	for _, given := range []string{"", "Bongsu", "bongsu:", "bongsu@sha256:" + strings.Repeat("0", 64)} {
		if got, err := oci.ParseName(given); err == nil {
			t.Errorf("ParseName(%q) = %v, want an error", given, got)
		}
	}
}
