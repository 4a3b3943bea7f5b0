package chart

import (
	"io/fs"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/bongsu-io/bongsu/charts"
	"github.com/bongsu-io/bongsu/config"
)

const (
	// root of the chart in what is embedded.
	root = "bongsu"
	// copies is the folder of the chart that `make generate` copies config into. The
	// binary has no second copy of it.
	copies = "files/"
)

// load returns the chart as Helm would load it from its folder.
func load() (*chartv2.Chart, error) {
	templates, err := filesIn(charts.Bongsu, root, "")
	if err != nil {
		return nil, err
	}
	manifests, err := filesIn(config.Files(), ".", copies)
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(append(templates, manifests...))
}

// filesIn returns the files below a folder, by their names in it, behind a prefix.
func filesIn(from fs.FS, folder, prefix string) ([]*archive.BufferedFile, error) {
	var files []*archive.BufferedFile
	err := fs.WalkDir(from, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		files = append(files, &archive.BufferedFile{Name: prefix + strings.TrimPrefix(path, folder+"/"), Data: data})
		return err
	})
	return files, err
}
