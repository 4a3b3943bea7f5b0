package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// trimTemplates trims the schemas of pod templates in node, and reports whether there are
// any.
func trimTemplates(node any) bool {
	found := false
	switch node := node.(type) {
	case map[string]any:
		if isPodTemplate(node) {
			allowNoContainers(node)
			removeDescriptions(properties(node))
			boundLists(node, "")
			return true
		}
		for _, child := range node {
			found = trimTemplates(child) || found
		}
	case []any:
		for _, child := range node {
			found = trimTemplates(child) || found
		}
	}
	return found
}

// The limits of lists in a template are those of the operator, which refuses larger ones. The
// API server refuses them at once, and names the field. The operator also limits the sum over
// all containers.
const mostItems = 1000

var mostItemsOf = map[string]int{"containers": 64, "initContainers": 64, "ephemeralContainers": 64, "volumes": 256}

// boundLists limits the lists in the schema of the property name.
func boundLists(schema map[string]any, name string) {
	if items, ok := schema["items"].(map[string]any); ok {
		most, ok := mostItemsOf[name]
		if !ok {
			most = mostItems
		}
		if schema["maxItems"] == nil {
			schema["maxItems"] = most
		}
		boundLists(items, "")
	}
	for child, property := range properties(schema) {
		boundLists(property.(map[string]any), child)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		boundLists(values, "")
	}
}

// A quantity whose exponent has many digits takes minutes to read, and a number beyond 32 bits
// is no IntOrString. One object with such a value would stop the operator for all tenants.
const (
	anyExponent     = `([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$` // as controller-gen writes it
	boundedExponent = `([eE](\+|-)?[0-9]{1,2}))?$`
	// maxQuantity is the maximum length of a quantity, in characters.
	maxQuantity = 64
)

// The rule of a quantity outside of pod templates, and what to write instead. The rule is as
// strict as the pattern that it replaces.
const (
	quantityRule    = "!string(self).matches('[eE].{4}') && isQuantity(string(self))"
	quantityMessage = "not a quantity: write for example 8Gi or 8G, or 500m for a half"
)

// mostQuantities limits a map of quantities. The API server estimates the cost of the rule by
// the size of the map, and rejects the CRD from 8 on.
const mostQuantities = 7

// boundNumbers limits the numbers that Go could not read, or only slowly, everywhere in node.
// It reports whether there are any.
func boundNumbers(node any, inTemplate bool) bool {
	found := false
	switch node := node.(type) {
	case map[string]any:
		inTemplate = inTemplate || isPodTemplate(node)
		if values, ok := node["additionalProperties"].(map[string]any); ok && isQuantity(values) && node["maxProperties"] == nil && !inTemplate {
			node["maxProperties"] = mostQuantities
		}
		if node["x-kubernetes-int-or-string"] == true {
			return boundNumber(node, inTemplate)
		}
		for _, child := range node {
			found = boundNumbers(child, inTemplate) || found
		}
	case []any:
		for _, child := range node {
			found = boundNumbers(child, inTemplate) || found
		}
	}
	return found
}

// boundNumber limits a Quantity or an IntOrString. Outside of templates, a quantity gets a rule
// instead of its pattern, because the API server answers a wrong value with the pattern.
func boundNumber(schema map[string]any, inTemplate bool) bool {
	switch {
	case !isQuantity(schema):
		if schema["pattern"] != nil || hasRule(schema, "isQuantity") {
			return false // a quantity that is bounded already
		}
		schema["minimum"], schema["maximum"] = math.MinInt32, math.MaxInt32
	case inTemplate:
		schema["pattern"] = strings.TrimSuffix(schema["pattern"].(string), anyExponent) + boundedExponent
		schema["maxLength"] = maxQuantity
	default:
		delete(schema, "pattern")
		schema["maxLength"] = maxQuantity
		if !hasRule(schema, quantityRule) {
			rules, _ := schema["x-kubernetes-validations"].([]any)
			schema["x-kubernetes-validations"] = append(rules, map[string]any{"rule": quantityRule, "message": quantityMessage})
		}
	}
	return true
}

// isQuantity reports whether a schema is that of a Quantity, as controller-gen writes it.
func isQuantity(schema map[string]any) bool {
	pattern, _ := schema["pattern"].(string)
	return schema["x-kubernetes-int-or-string"] == true && strings.HasSuffix(pattern, anyExponent)
}

// hasRule reports whether a rule of a schema contains a text.
func hasRule(schema map[string]any, text string) bool {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	return slices.ContainsFunc(rules, func(rule any) bool { return strings.Contains(fmt.Sprint(rule), text) })
}

// isPodTemplate reports whether a schema is that of a PodTemplateSpec: it has metadata, and
// a spec with containers.
func isPodTemplate(schema map[string]any) bool {
	_, hasMetadata := properties(schema)["metadata"]
	_, hasContainers := properties(podSpec(schema))["containers"]
	return hasMetadata && hasContainers
}

func podSpec(template map[string]any) map[string]any {
	spec, _ := properties(template)["spec"].(map[string]any)
	return spec
}

func properties(schema map[string]any) map[string]any {
	found, _ := schema["properties"].(map[string]any)
	return found
}

// allowNoContainers makes containers optional and nullable, because Go writes an empty list
// as null.
func allowNoContainers(template map[string]any) {
	spec := podSpec(template)
	required, _ := spec["required"].([]any)
	required = slices.DeleteFunc(required, func(name any) bool { return name == "containers" })
	if len(required) == 0 {
		delete(spec, "required")
	} else {
		spec["required"] = required
	}
	if containers, ok := properties(spec)["containers"].(map[string]any); ok {
		containers["nullable"] = true
	}
}

// removeDescriptions removes the descriptions of the schemas, but not a property with the
// name description.
func removeDescriptions(properties map[string]any) {
	for _, schema := range properties {
		removeDescription(schema)
	}
}

func removeDescription(node any) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	delete(schema, "description")
	removeDescriptions(properties(schema))
	removeDescription(schema["items"])
	removeDescription(schema["additionalProperties"])
}
