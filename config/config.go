// Package config embeds the manifests that every install needs, in the order in
// which they must be applied: kinds, rights, admission policies.
package config

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bongsu-io/bongsu/internal/operator/feature"
)

//go:embed crd/*.yaml rbac/*.yaml admission/*.yaml monitoring/*.yaml
var files embed.FS

// commonRole is the name of the generated roles that every replica needs.
const commonRole = "bongsu"

// RoleOf returns the name of the generated roles of a capability, and of their bindings.
func RoleOf(c feature.Feature) string { return commonRole + "-" + string(c) }

// Roles returns the names of the generated roles that an operator with these
// capabilities needs.
func Roles(chosen []feature.Feature) []string {
	names := []string{commonRole}
	for _, c := range chosen {
		names = append(names, RoleOf(c))
	}
	return names
}

// order puts what others refer to first; within a folder, names are sorted, and
// rbac/operator.yaml, with the namespace, comes before the roles.
var order = []string{"crd", "rbac", "admission"}

// Objects returns the manifests of an install without the operator's workload. All kinds
// and policies are among them, but only the rights of the capabilities that were chosen.
func Objects(chosen []feature.Feature) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, dir := range order {
		decoded, err := in(dir)
		if err != nil {
			return nil, err
		}
		objects = append(objects, decoded...)
	}
	return without(objects, chosen), nil
}

// RBAC returns the manifests of rights, of the chosen capabilities alone. It reads no
// others: those of the kinds are large.
func RBAC(chosen []feature.Feature) ([]*unstructured.Unstructured, error) {
	objects, err := in("rbac")
	return without(objects, chosen), err
}

// without leaves out roles and bindings of capabilities that were not chosen.
func without(objects []*unstructured.Unstructured, chosen []feature.Feature) []*unstructured.Unstructured {
	var unwanted []string
	for _, c := range feature.All() {
		if !slices.Contains(chosen, c) {
			unwanted = append(unwanted, RoleOf(c))
		}
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group == "rbac.authorization.k8s.io" && slices.Contains(unwanted, o.GetName())
	})
}

func in(dir string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, dir+"/*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		decoded, err := decode(name)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

func decode(name string) ([]*unstructured.Unstructured, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return Decode(f)
}
