// Package config embeds the manifests of every installation: kinds, roles and admission
// policies, in the order in which they must be applied.
package config

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bongsu-io/bongsu/internal/feature"
)

//go:embed crd/*.yaml rbac/*.yaml admission/*.yaml monitoring/*.yaml
var files embed.FS

// commonRole is the name of the generated roles that every replica needs.
const commonRole = "bongsu"

// ChangesRole is the role with the resources whose changes and states alarms can watch. It consists
// of the rules of all roles with a label.
const ChangesRole = commonRole + "-changes"

// ChangesRoles returns the roles of an installation that ChangesRole consists of.
func ChangesRoles() []string { return []string{ChangesRole + "-builtin", ChangesRole + "-configmaps"} }

// ShareSecretsRole is the role with which the feature SecretShare reads and writes Secrets. An
// installation binds it in all namespaces, or in those that a value names.
const ShareSecretsRole = commonRole + "-secretshare-secrets"

// RoleOf returns the name of the generated roles of a feature, and of their bindings.
func RoleOf(f feature.Feature) string { return commonRole + "-" + string(f) }

// Roles returns the names of the generated roles that an operator with these features
// needs.
func Roles(chosen []feature.Feature) []string {
	names := []string{commonRole}
	for _, f := range chosen {
		names = append(names, RoleOf(f))
		if f == feature.SecretShare {
			names = append(names, ShareSecretsRole)
		}
	}
	return names
}

// Dirs returns the directories of an installation in the order in which they must be applied.
// Policies come first, so that no object is written unchecked. In a directory, files are
// sorted: rbac/operator.yaml, with the namespace, comes before its other objects.
func Dirs() []string { return []string{"admission", "crd", "rbac"} }

// Objects returns the manifests of an installation, without the operator's workload. They
// include all kinds and policies, but only the roles of the chosen features.
func Objects(chosen []feature.Feature) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, dir := range Dirs() {
		decoded, err := in(dir)
		if err != nil {
			return nil, err
		}
		objects = append(objects, decoded...)
	}
	return without(objects, chosen), nil
}

// The account of the operator and the protected namespaces in the policies that confine the
// operator, as CEL.
const (
	operatorInPolicies  = "'system:serviceaccount:bongsu-system:bongsu'"
	protectedInPolicies = "['kube-system']"
)

// Confine sets the user name of the operator, and the namespaces that it must not write to,
// in the policies that confine the operator. Other objects stay as they are. Namespaces must
// be valid names, because they become a part of a CEL expression.
func Confine(objects []*unstructured.Unstructured, operator string, protected []string) {
	list := "[]"
	if len(protected) > 0 {
		list = "['" + strings.Join(protected, "', '") + "']"
	}
	replacer := strings.NewReplacer(operatorInPolicies, "'"+operator+"'", protectedInPolicies, list)
	for _, o := range objects {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		for _, part := range []string{"matchConditions", "variables"} {
			items, _, _ := unstructured.NestedSlice(o.Object, "spec", part)
			for _, item := range items {
				fields, _ := item.(map[string]any)
				expression, _ := fields["expression"].(string)
				fields["expression"] = replacer.Replace(expression)
			}
			if len(items) > 0 {
				_ = unstructured.SetNestedSlice(o.Object, items, "spec", part) // spec is a map
			}
		}
	}
}

// RBAC returns the roles and bindings of the chosen features. It does not parse the other
// manifests, because the CRDs are large.
func RBAC(chosen []feature.Feature) ([]*unstructured.Unstructured, error) {
	objects, err := in("rbac")
	return without(objects, chosen), err
}

// without removes the roles and bindings of features that were not chosen.
func without(objects []*unstructured.Unstructured, chosen []feature.Feature) []*unstructured.Unstructured {
	var unwanted []string
	for _, f := range feature.All() {
		if !slices.Contains(chosen, f) {
			unwanted = append(unwanted, RoleOf(f))
		}
	}
	if !slices.Contains(chosen, feature.SecretShare) {
		unwanted = append(unwanted, ShareSecretsRole)
	}
	if !slices.Contains(chosen, feature.Alarm) {
		unwanted = append(append(unwanted, ChangesRole), ChangesRoles()...)
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

// Files returns the files of the directories crd, rbac, admission and monitoring.
func Files() fs.FS { return files }

// Decode returns the objects of a YAML stream. It skips empty documents.
func Decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(r, 4096)
	var objects []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(u.Object) > 0:
			objects = append(objects, u)
		}
	}
}
