package main

// nameRule is the field of a rule about the name of an object.
const nameRule = ".metadata.name"

// declareName declares metadata.name in the schemas that have a rule about it, and reports whether
// there are any. A rule can only name a field that its schema declares. Without it, the error of
// the API server begins with "<nil>".
func declareName(node any) bool {
	found := false
	switch node := node.(type) {
	case map[string]any:
		rules, _ := node["x-kubernetes-validations"].([]any)
		for _, rule := range rules {
			if r, ok := rule.(map[string]any); ok && r["fieldPath"] == nameRule {
				properties(node)["metadata"] = map[string]any{
					"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
				}
				found = true
			}
		}
		for _, child := range node {
			found = declareName(child) || found
		}
	case []any:
		for _, child := range node {
			found = declareName(child) || found
		}
	}
	return found
}
