package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const apiIntroduction = `# API reference

This page lists the fields of each kind with their defaults, limits and validation rules. At
the end are the conditions, and the reasons of conditions and Events. For a field in your
cluster, run ` + "`kubectl explain`" + `, for example ` + "`kubectl explain jupyter.spec.culling`" + `.

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

type schema = apiextensionsv1.JSONSchemaProps

// field is a row of a kind's table.
type field struct{ path, kind, meaning string }

// fieldsOf returns a row for each field of a schema, beginning with the field itself. Fields
// without a description and rules, such as metadata, have no row.
func fieldsOf(path string, s schema, required bool) []field {
	var fields []field
	if s.Description != "" || len(s.XValidations) > 0 {
		fields = append(fields, field{path, typeOf(s), meaningOf(s, required)})
	}
	if wellKnown(s) != "" {
		return fields
	}
	for element := s.Items; element != nil && element.Schema != nil; element = s.Items {
		path, s = path+"[]", *element.Schema
		if wellKnown(s) != "" {
			return fields
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		fields = append(fields, fieldsOf(path+"."+name, s.Properties[name], slices.Contains(s.Required, name))...)
	}
	return fields
}

// wellKnownTypes are types of Kubernetes, which are documented there, by properties that
// only they have.
var wellKnownTypes = []struct {
	name       string
	properties []string
}{
	{"LabelSelector", []string{"matchExpressions"}},
	{"Condition", []string{"lastTransitionTime", "status"}},
	{"ResourceRequirements", []string{"claims", "limits", "requests"}},
	{"HTTPGetAction", []string{"httpHeaders"}},
	{"PodTemplateSpec", []string{"metadata", "spec"}},
}

// wellKnown returns the name of a schema's type if it is a type of Kubernetes, or "".
func wellKnown(s schema) string {
	if _, isJob := s.Properties["spec"].Properties["template"]; isJob {
		return "JobTemplateSpec"
	}
	for _, t := range wellKnownTypes {
		if !slices.ContainsFunc(t.properties, func(name string) bool { _, found := s.Properties[name]; return !found }) {
			return t.name
		}
	}
	return ""
}

func typeOf(s schema) string {
	switch {
	case wellKnown(s) != "":
		return wellKnown(s)
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(*s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(*s.AdditionalProperties.Schema)
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// meaningOf returns the description, which contains the default, whether the field is
// required, its limits, and the messages of its rules.
func meaningOf(s schema, required bool) string {
	parts := []string{escape(s.Description)}
	if required {
		parts = append(parts, "**Required.**")
	}
	if limits := limitsOf(s); len(limits) > 0 {
		parts = append(parts, "Limits: "+strings.Join(limits, ", ")+".")
	}
	for _, rule := range s.XValidations {
		parts = append(parts, "Rule: "+escape(rule.Message)+".")
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "<br>")
}

func limitsOf(s schema) []string {
	limits := slices.Concat(
		between("entries", s.MinItems, s.MaxItems),
		between("characters", s.MinLength, s.MaxLength),
	)
	if s.Minimum != nil {
		limits = append(limits, fmt.Sprintf("at least %v", *s.Minimum))
	}
	if s.Maximum != nil {
		limits = append(limits, fmt.Sprintf("at most %v", *s.Maximum))
	}
	if s.Pattern != "" {
		limits = append(limits, "matches "+code(s.Pattern))
	}
	if len(s.Enum) > 0 {
		limits = append(limits, "one of "+enumOf(s))
	}
	if s.Items != nil && s.Items.Schema != nil {
		for _, limit := range limitsOf(*s.Items.Schema) {
			limits = append(limits, "each "+limit)
		}
	}
	return limits
}

func between(unit string, least, most *int64) []string {
	switch {
	case least != nil && most != nil:
		return []string{fmt.Sprintf("%d to %d %s", *least, *most, unit)}
	case least != nil:
		return []string{fmt.Sprintf("at least %d %s", *least, unit)}
	case most != nil:
		return []string{fmt.Sprintf("at most %d %s", *most, unit)}
	}
	return nil
}

func enumOf(s schema) string {
	var values []string
	for _, v := range s.Enum {
		values = append(values, code(strings.Trim(string(v.Raw), `"`)))
	}
	return strings.Join(values, ", ")
}

// code formats text as code in a table.
func code(text string) string {
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

var forTable = strings.NewReplacer("|", `\|`, "<", "&lt;", "\n\n", "<br>", "\n", " ")

// escape formats the text of a comment for a cell of a Markdown table.
func escape(text string) string {
	return forTable.Replace(strings.TrimSpace(text))
}
