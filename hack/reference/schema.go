package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// field is a line of a kind's table.
type field struct{ path, kind, meaning string }

// fieldsOf flattens a schema into one line a field, the field itself first. A
// field that says nothing, as metadata, has none.
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

// wellKnown names a type of Kubernetes, which is documented there.
func wellKnown(s schema) string {
	_, expressions := s.Properties["matchExpressions"]
	_, transition := s.Properties["lastTransitionTime"]
	switch {
	case expressions:
		return "LabelSelector"
	case transition:
		return "Condition"
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

// meaningOf is the description, which says the default as well, whether the field
// is required, its limits, and what the API server answers when a rule is broken.
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

// code sets text as code within a table.
func code(text string) string {
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

var forTable = strings.NewReplacer("|", `\|`, "<", "&lt;", "\n\n", "<br>", "\n", " ")

// escape makes a comment's text fit a line of Markdown.
func escape(text string) string {
	return forTable.Replace(strings.TrimSpace(text))
}
