package chart

import (
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// Values returns those that are not as in the chart's values.yaml: what is said in
// files, of which the last goes first, and by settings such as replicas=1, which go
// before all files. Unlike with Helm, the namespace is made unless they say otherwise.
func Values(files, settings []string) (map[string]any, error) {
	values := map[string]any{"namespace": map[string]any{"create": true}}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var said map[string]any
		if err := yaml.UnmarshalStrict(raw, &said); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		values = loader.MergeMaps(values, said)
	}
	for _, setting := range settings {
		if err := strvals.ParseInto(setting, values); err != nil {
			return nil, fmt.Errorf("--set %s: %w", setting, err)
		}
	}
	return values, nil
}
