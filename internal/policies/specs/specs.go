// Package specs compares admission policies and their bindings with those of this version. It
// reads no cluster.
package specs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// versionAnnotation is the annotation with the version of a policy or binding, a number that
// grows with each change of any of them. During an upgrade, the policies are newer than the
// operator.
const versionAnnotation = "bongsu.io/policy-version"

// Expected are the policies and their bindings, by name.
type Expected struct {
	policies map[string]admissionv1.ValidatingAdmissionPolicy
	bindings map[string]admissionv1.ValidatingAdmissionPolicyBinding
}

// FromManifests returns the policies and bindings among the manifests of an installation.
func FromManifests(manifests []*unstructured.Unstructured) (Expected, error) {
	e := Expected{
		policies: map[string]admissionv1.ValidatingAdmissionPolicy{},
		bindings: map[string]admissionv1.ValidatingAdmissionPolicyBinding{},
	}
	for _, manifest := range manifests {
		switch manifest.GetKind() {
		case "ValidatingAdmissionPolicy":
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, &policy); err != nil {
				return e, fmt.Errorf("admission policy %s: %w", manifest.GetName(), err)
			}
			setDefaults(policy.Spec.MatchConstraints)
			e.policies[policy.Name] = policy
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, &binding); err != nil {
				return e, fmt.Errorf("binding of admission policy %s: %w", manifest.GetName(), err)
			}
			e.bindings[binding.Name] = binding
		}
	}
	return e, nil
}

// setDefaults sets what the API server sets:
// https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/validating-admission-policy-v1/
func setDefaults(m *admissionv1.MatchResources) {
	if m.MatchPolicy == nil {
		m.MatchPolicy = new(admissionv1.Equivalent)
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range m.ResourceRules {
		if rule := &m.ResourceRules[i]; rule.Scope == nil {
			rule.Scope = new(admissionv1.AllScopes)
		}
	}
}

// Same reports whether a policy or binding of a cluster has the spec of its manifest.
func Same(found, manifest *unstructured.Unstructured) (bool, error) {
	live, err := FromManifests([]*unstructured.Unstructured{found})
	if err != nil {
		return false, err
	}
	wanted, err := FromManifests([]*unstructured.Unstructured{manifest})
	if err != nil {
		return false, err
	}
	name := manifest.GetName()
	return equality.Semantic.DeepEqual(live.policies[name].Spec, wanted.policies[name].Spec) &&
		equality.Semantic.DeepEqual(live.bindings[name].Spec, wanted.bindings[name].Spec) && versionIn(found.GetAnnotations()) >= versionIn(manifest.GetAnnotations()), nil
}

// Contains reports whether a policy or binding of this name is expected.
func (e Expected) Contains(name string) bool {
	_, isPolicy := e.policies[name]
	_, isBinding := e.bindings[name]
	return isPolicy || isBinding
}

// Compare returns what is wrong with the policies and bindings of a cluster. It is empty if
// they are as expected. A policy can also be that of a newer version, but its binding is always
// the same. Other policies are ignored: they can only refuse more.
func (e Expected) Compare(policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding) string {
	found := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	for i := range policies {
		found[policies[i].Name] = &policies[i]
	}
	bound := map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	for i := range bindings {
		bound[bindings[i].Name] = &bindings[i]
	}
	for _, name := range sorted(e.policies) {
		switch live, ok := found[name]; {
		case !ok:
			return "ValidatingAdmissionPolicy " + name + " is missing"
		case versionIn(live.Annotations) > versionIn(e.policies[name].Annotations) && isEnforced(live.Spec):
			// A newer version of Bongsu has installed it.
		case !equality.Semantic.DeepEqual(live.Spec, e.policies[name].Spec):
			return "ValidatingAdmissionPolicy " + name + " is not that of the operator's version"
		}
	}
	for _, name := range sorted(e.bindings) {
		switch live, ok := bound[name]; {
		case !ok:
			return "ValidatingAdmissionPolicyBinding " + name + " is missing"
		case !equality.Semantic.DeepEqual(live.Spec, e.bindings[name].Spec):
			return "ValidatingAdmissionPolicyBinding " + name + " is not that of the operator's version"
		}
	}
	return ""
}

func isEnforced(policy admissionv1.ValidatingAdmissionPolicySpec) bool {
	return policy.FailurePolicy != nil && *policy.FailurePolicy == admissionv1.Fail && len(policy.Validations) > 0
}

// versionIn returns 0 if there is no valid version.
func versionIn(annotations map[string]string) int {
	n, err := strconv.Atoi(annotations[versionAnnotation])
	if err != nil {
		return 0
	}
	return n
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
