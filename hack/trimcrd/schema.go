package main

import "slices"

// trimTemplates trims the schemas of pod templates in node, and reports whether there are
// any.
func trimTemplates(node any) bool {
	found := false
	switch node := node.(type) {
	case map[string]any:
		if isPodTemplate(node) {
			allowNoContainers(node)
			removeDescriptions(properties(node))
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
