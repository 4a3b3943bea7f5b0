package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// bomRef identifies the binary in the SBOM.
const bomRef = "bongsu-operator"

// billOfMaterials returns the SBOM of a binary, as CycloneDX in JSON. It lists Go and every
// module, from the build information in the binary.
func billOfMaterials(binary []byte, version string, created time.Time) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("write the SBOM: %w", err)
	}
	components := []cyclonedx.Component{component("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		components = append(components, componentOf(module))
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: created.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: bomRef, Type: cyclonedx.ComponentTypeApplication, Name: info.Path, Version: version,
		},
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: bomRef, Dependencies: refs(components)}}
	var text bytes.Buffer
	// Scanners do not read newer versions yet.
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write the SBOM: %w", err)
	}
	return text.Bytes(), nil
}

// componentOf returns the module that was compiled: the replacement, if there is one.
func componentOf(module *debug.Module) cyclonedx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	return component(module.Path, module.Version)
}

func component(module, version string) cyclonedx.Component {
	url := packageurl.NewPackageURL(packageurl.TypeGolang, path.Dir(module), path.Base(module), version, nil, "").ToString()
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: module, Version: version, PackageURL: url}
}

func refs(components []cyclonedx.Component) *[]string {
	list := make([]string, len(components))
	for i := range components {
		list[i] = components[i].BOMRef
	}
	return &list
}
