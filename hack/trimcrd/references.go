package main

import (
	"slices"
	"strings"
)

// scopeReferences sets in which namespace a receiver's references to Secrets are, and reports
// whether the CRD is that of a receiver. Both kinds have the same Go types.
func scopeReferences(crd map[string]any) bool {
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	switch names["kind"] {
	case "AlarmReceiver":
		eachReference(spec, func(schema map[string]any) { delete(properties(schema), "namespace") })
	case "ClusterAlarmReceiver":
		eachReference(spec, func(schema map[string]any) {
			required, _ := schema["required"].([]any)
			if !slices.Contains(required, any("namespace")) {
				schema["required"] = append(required, "namespace")
			}
		})
	default:
		return false
	}
	return true
}

// eachReference calls fn with the schema of each reference to a Secret in node.
func eachReference(node any, fn func(schema map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			if schema, ok := child.(map[string]any); ok && strings.HasSuffix(name, "SecretRef") {
				fn(schema)
				continue
			}
			eachReference(child, fn)
		}
	case []any:
		for _, child := range node {
			eachReference(child, fn)
		}
	}
}
