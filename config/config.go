// Package config embeds the manifests that every install needs, in the order in
// which they must be applied: kinds, rights, admission policies.
package config

import (
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

//go:embed crd/*.yaml rbac/*.yaml admission/*.yaml monitoring/*.yaml
var files embed.FS

// order puts what others refer to first; within a folder, names are sorted, and
// rbac/operator.yaml, with the namespace, comes before role.yaml.
var order = []string{"crd", "rbac", "admission"}

// Objects returns the manifests of an install without the operator's workload.
func Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, dir := range order {
		decoded, err := in(dir)
		if err != nil {
			return nil, err
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

// RBAC returns the manifests of rights. It reads no others: those of the kinds are
// large.
func RBAC() ([]*unstructured.Unstructured, error) { return in("rbac") }

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
