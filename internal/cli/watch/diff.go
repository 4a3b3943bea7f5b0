package watch

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"sigs.k8s.io/yaml"
)

// Diff returns the whole difference of two states of an object, as a unified diff
// of YAML without a header; it is empty if none may be shown. The resourceVersion,
// which differs always, is left out.
func Diff(from, to *Object) (string, error) {
	former, err := document(from)
	if err != nil {
		return "", err
	}
	present, err := document(to)
	if err != nil {
		return "", err
	}
	unified, err := udiff.ToUnified("", "", former, udiff.Lines(former, present), udiff.DefaultContextLines)
	if err != nil {
		return "", fmt.Errorf("compare: %w", err)
	}
	_, hunks, _ := strings.Cut(unified, "\n+++ \n")
	return hunks, nil
}

func document(o *Object) (string, error) {
	content := maps.Clone(o.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "resourceVersion")
		content["metadata"] = metadata
	}
	asJSON, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(escape(asJSON)) // which is read as YAML
	return string(text), err
}
