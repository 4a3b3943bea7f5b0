package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const apiIntroduction = `# API reference

The fields of each kind, their defaults and limits, and the rules that the API
server enforces; below them, the reasons that conditions and Events carry.
` + "`kubectl explain`" + ` shows the same of fields.

`

type crd = apiextensionsv1.CustomResourceDefinition

func apiPage(w *bytes.Buffer) error {
	crds, err := readCRDs("config/crd")
	if err != nil {
		return err
	}
	fmt.Fprint(w, apiIntroduction)
	for _, definition := range crds {
		writeKind(w, definition)
	}
	return writeReasons(w, reasonFiles...)
}

func readCRDs(dir string) ([]crd, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var crds []crd
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var definition crd
		if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		crds = append(crds, definition)
	}
	slices.SortFunc(crds, func(a, b crd) int { return strings.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind) })
	return crds, nil
}

func writeKind(w *bytes.Buffer, definition crd) {
	names, version := definition.Spec.Names, definition.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(w, "## %s\n\n%s\n\n", names.Kind, escape(schema.Description))
	fmt.Fprintf(w, "`%s/%s`, scope %s; in kubectl `%s`", definition.Spec.Group, version.Name, definition.Spec.Scope, names.Plural)
	for _, short := range names.ShortNames {
		fmt.Fprintf(w, " or `%s`", short)
	}
	fmt.Fprint(w, ".\n\n| field | type | meaning |\n|---|---|---|\n")
	for _, part := range []string{"metadata", "spec", "status"} {
		for _, f := range fieldsOf(part, schema.Properties[part], slices.Contains(schema.Required, part)) {
			fmt.Fprintf(w, "| `%s` | %s | %s |\n", f.path, f.kind, f.meaning)
		}
	}
	fmt.Fprintln(w)
}
