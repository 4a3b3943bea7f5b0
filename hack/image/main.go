// Command image packs binaries of bongsu-operator into an image archive, without a container
// engine. The archive is an OCI layout in a tar, with an image for each platform. The same
// binaries and flags result in the same bytes. The command neither compiles nor pushes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bongsu-io/bongsu/hack/image/internal/oci"
)

const usage = `Packs binaries of bongsu-operator into an image archive (an OCI layout in a tar).

usage: image [flags] PLATFORM=BINARY...
for example: image -output bongsu.tar -license LICENSE linux/amd64=bin/bongsu-operator

`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// request contains the arguments.
type request struct {
	output, name, version, revision, license string
	created                                  int64 // seconds since 1970
	builds                                   []build
}

// build is a binary and its platform.
type build struct {
	platform v1.Platform
	path     string
}

func parse(args []string) (request, error) {
	var r request
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&r.output, "output", "bongsu-image.tar", "the `file` to write")
	flags.StringVar(&r.name, "name", "localhost/bongsu:latest", "the image's `name` and tag")
	flags.StringVar(&r.version, "version", "unknown", "the version of the binaries")
	flags.StringVar(&r.revision, "revision", "", "the commit of the binaries")
	flags.StringVar(&r.license, "license", "LICENSE", "the `file` with the license's text")
	flags.Int64Var(&r.created, "created", 0, "the time of the image and its files, in `seconds` since 1970")
	if err := flags.Parse(args); err != nil {
		return r, err
	}
	for _, arg := range flags.Args() {
		platform, path, ok := strings.Cut(arg, "=")
		if !ok {
			return r, fmt.Errorf("%q: want PLATFORM=BINARY, for example linux/amd64=bin/bongsu-operator", arg)
		}
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			return r, fmt.Errorf("%q: %w", arg, err)
		}
		r.builds = append(r.builds, build{*parsed, path})
	}
	return r, nil
}

func run(args []string, stdout io.Writer) error {
	r, err := parse(args)
	if err != nil {
		return err
	}
	name, err := oci.ParseName(r.name)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(r.license)
	if err != nil {
		return fmt.Errorf("read the license: %w", err)
	}
	created := time.Unix(r.created, 0).UTC()
	var images []v1.Image
	for _, built := range r.builds {
		image, err := operatorImage(built, license, r.version, r.labels(created), created)
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	digest, err := oci.WriteArchive(r.output, name, images, created)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is %s@%s\n", r.output, name, digest)
	return err
}

// labels returns the labels that the OCI image specification defines.
func (r request) labels(created time.Time) map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       "Bongsu",
		prefix + "description": "A Kubernetes operator that makes a shared cluster explain itself",
		prefix + "source":      "https://github.com/bongsu-io/bongsu",
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     r.version,
		prefix + "created":     created.Format(time.RFC3339),
	}
	if r.revision != "" {
		labels[prefix+"revision"] = r.revision
	}
	return labels
}
