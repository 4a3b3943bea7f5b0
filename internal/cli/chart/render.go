package chart

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/config"
)

// Release is the name of every installation: there is one in a cluster.
const Release = "bongsu"

// Manifests are in the order in which they must be applied.
type Manifests = []*unstructured.Unstructured

// Render returns what an installation in a namespace is made of. What the schema of the
// values does not allow is an error that names the value.
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
		objects = append(objects, decoded...)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	return objects, nil
}

// order has what others need first. What is not in it comes last: it is what runs, or
// what looks at that.
var order = []string{
	"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "NetworkPolicy", "PodDisruptionBudget", "Service",
}

func rank(o *unstructured.Unstructured) int {
	if i := slices.Index(order, o.GetKind()); i >= 0 {
		return i
	}
	return len(order)
}

// Workload returns those of the manifests that have to do with the operator as a pod:
// what is neither a kind, nor a right, nor a policy, nor the namespace of it all.
func Workload(objects Manifests) Manifests {
	first := slices.Index(order, "NetworkPolicy")
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return rank(o) < first })
}

// Everything returns what an installation in a namespace may be made of, whatever its
// values are.
func Everything(namespace string) (Manifests, error) {
	monitored := map[string]any{
		"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true},
	}
	var all Manifests
	for _, persistent := range []bool{false, true} {
		objects, err := Render(namespace, map[string]any{
			"metrics": monitored, "persistence": map[string]any{"enabled": persistent},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}
