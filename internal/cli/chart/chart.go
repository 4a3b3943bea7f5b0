// Package chart renders the embedded Helm chart into the manifests of an installation,
// with the same result as Helm. It is the only package that uses Helm. It sends no
// requests and applies nothing.
package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/charts"
	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// Release is the Helm release name of every installation. A cluster has only one.
const Release = "bongsu"

// Manifests are objects in the order in which they must be applied.
type Manifests = []*unstructured.Unstructured

// Render returns the manifests of an installation in a namespace. It returns an error that
// names the value if the schema of the chart does not allow the values.
func Render(namespace string, values map[string]any) (Manifests, error) {
	chart, err := load()
	if err != nil {
		return nil, fmt.Errorf("the embedded chart: %w", err)
	}
	release := common.ReleaseOptions{Name: Release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects Manifests
	for _, path := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(path, ".tpl") {
			continue
		}
		decoded, err := config.Decode(bytes.NewReader([]byte(rendered[path])))
		if err != nil {
			return nil, fmt.Errorf("rendered %s: %w", path, err)
		}
		for _, o := range decoded {
			all, err := items(o)
			if err != nil {
				return nil, fmt.Errorf("rendered %s: %w", path, err)
			}
			objects = append(objects, all...)
		}
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	return objects, nil
}

// items returns the items of a list, and any other object itself.
func items(o *unstructured.Unstructured) (all Manifests, err error) {
	if !o.IsList() {
		return Manifests{o}, nil
	}
	err = o.EachListItem(func(item runtime.Object) error {
		all = append(all, item.(*unstructured.Unstructured))
		return nil
	})
	return all, err
}

// order lists kinds in the order of their dependencies. Policies come before the kinds that
// they check. All other kinds, such as workloads, come last.
var order = []string{
	"Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "CustomResourceDefinition",
	"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy", "PodDisruptionBudget",
	"PriorityLevelConfiguration", "FlowSchema", "Service",
}

func rank(o *unstructured.Unstructured) int {
	if i := slices.Index(order, o.GetKind()); i >= 0 {
		return i
	}
	return len(order)
}

// Workload returns the manifests that concern the operator's pods. It excludes the
// namespace, kinds, permissions and admission policies.
func Workload(objects Manifests) Manifests {
	first := slices.Index(order, "NetworkPolicy")
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return rank(o) < first })
}

// Everything returns all manifests that an installation in a namespace may contain, with
// any values.
func Everything(namespace string) (Manifests, error) {
	monitored := map[string]any{
		"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true},
	}
	var everyFeature []any
	for _, f := range feature.All() {
		everyFeature = append(everyFeature, string(f))
	}
	var all Manifests
	for _, persistent := range []bool{false, true} {
		objects, err := Render(namespace, map[string]any{
			"metrics": monitored, "persistence": map[string]any{"enabled": persistent}, "controllers": everyFeature,
			"alarms": map[string]any{"changes": map[string]any{"configMaps": true}},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

const (
	// root is the chart's folder in the embedded file system.
	root = "bongsu"
	// linked is the chart's folder with links to the directories of config. Go does not embed
	// links.
	linked = "files/"
)

// load returns the chart as Helm loads it from its folder.
func load() (*chartv2.Chart, error) {
	templates, err := filesIn(charts.Bongsu, root, "")
	if err != nil {
		return nil, err
	}
	manifests, err := filesIn(config.Files(), ".", linked)
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(append(templates, manifests...))
}

// filesIn returns the files below a folder. Their names are relative to the folder, with
// the prefix added.
func filesIn(from fs.FS, folder, prefix string) ([]*archive.BufferedFile, error) {
	var files []*archive.BufferedFile
	err := fs.WalkDir(from, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		files = append(files, &archive.BufferedFile{Name: prefix + strings.TrimPrefix(path, folder+"/"), Data: data})
		return err
	})
	return files, err
}

// Values returns the values that override the chart's values.yaml. A later file takes
// precedence over an earlier one, and settings such as replicas=1 take precedence over all
// files. Unlike Helm, the result creates the namespace by default.
func Values(files, settings []string) (map[string]any, error) {
	values := map[string]any{"namespace": map[string]any{"create": true}}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(raw, &content); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		values = loader.MergeMaps(values, content)
	}
	for _, setting := range settings {
		if err := strvals.ParseInto(setting, values); err != nil {
			return nil, fmt.Errorf("--set %s: %w", setting, err)
		}
	}
	return values, nil
}

// WriteYAML writes manifests as a stream of YAML documents.
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

// WriteJSON writes manifests as one List in JSON.
func WriteJSON(w io.Writer, objects Manifests) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
}
