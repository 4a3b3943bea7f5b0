package chart

import (
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// WriteYAML writes manifests as a stream of documents.
func WriteYAML(w io.Writer, objects []*unstructured.Unstructured) error {
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
func WriteJSON(w io.Writer, objects []*unstructured.Unstructured) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
}
