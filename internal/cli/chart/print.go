package chart

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// WriteYAML writes manifests as a stream of documents.
func WriteYAML(w io.Writer, objects Manifests) error {
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes manifests as one List.
func WriteJSON(w io.Writer, objects Manifests) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
}
