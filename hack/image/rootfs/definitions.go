package main

import (
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// path is where the packages have their commands. Not every engine has a default.
const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// definition is an image that is made of packages.
type definition struct {
	name     string
	packages []string // with what they depend on, not what they recommend
	config   v1.Config
}

// image returns the name of the image. It names no registry, so that no node pulls it by
// mistake.
func (d definition) image() string { return "localhost/" + d.name + ":e2e" }

// definitions contains all images. Each also contains the shell and tools of busybox, for
// commands in its containers.
var definitions = []definition{
	{
		name:     "memcached",
		packages: []string{"memcached"},
		config:   v1.Config{User: "65532:65532", Env: []string{path}, Entrypoint: []string{"memcached"}},
	},
	{
		// The user, home and port are those of the Jupyter project's images, which the
		// operator expects. The server reads its token from JUPYTER_TOKEN.
		name:     "jupyter-notebook",
		packages: []string{"jupyter-notebook"},
		config: v1.Config{
			User: "1000:100", WorkingDir: "/home/jovyan", Env: []string{path, "HOME=/home/jovyan", "LANG=C.UTF-8", "SHELL=/bin/sh"},
			Entrypoint: []string{"jupyter-notebook"}, Cmd: []string{"--ip=0.0.0.0", "--port=8888", "--no-browser"},
		},
	},
}

func names() []string {
	var all []string
	for _, d := range definitions {
		all = append(all, d.name)
	}
	return all
}

// find returns the definitions of these names: of none, all of them.
func find(wanted []string) ([]definition, error) {
	if len(wanted) == 0 {
		return definitions, nil
	}
	var found []definition
	for _, name := range wanted {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("there is no image %q: want one of %q", name, names())
		}
		found = append(found, definitions[i])
	}
	return found, nil
}
