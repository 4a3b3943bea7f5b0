package specs

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
)

// live returns the expected policies and bindings as a cluster would contain them.
func live(e Expected) (policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding) {
	for _, name := range sorted(e.policies) {
		policy := e.policies[name]
		policies = append(policies, *policy.DeepCopy())
	}
	for _, name := range sorted(e.bindings) {
		binding := e.bindings[name]
		bindings = append(bindings, *binding.DeepCopy())
	}
	return policies, bindings
}

func TestAPolicyThatIsMissingOrChangedIsNoticed(t *testing.T) {
	manifests, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	expected, err := FromManifests(manifests)
	if err != nil {
		t.Fatal(err)
	}
	if len(expected.policies) == 0 || len(expected.bindings) != len(expected.policies) {
		t.Fatalf("%d policies and %d bindings are expected, want one binding of each policy", len(expected.policies), len(expected.bindings))
	}
	const policy, binding = "ValidatingAdmissionPolicy alarmchanges.bongsu.io", "ValidatingAdmissionPolicyBinding alarmchanges.bongsu.io"
	const missing, differs = " is missing", " is not that of the operator's version"
	type policies = []admissionv1.ValidatingAdmissionPolicy
	type bindings = []admissionv1.ValidatingAdmissionPolicyBinding
	onlyProd := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	for name, tc := range map[string]struct {
		change func(policies, bindings) (policies, bindings)
		want   string
	}{
		"nothing changed":   {func(p policies, b bindings) (policies, bindings) { return p, b }, ""},
		"no policy":         {func(p policies, b bindings) (policies, bindings) { return p[1:], b }, policy + missing},
		"no binding":        {func(p policies, b bindings) (policies, bindings) { return p, b[1:] }, binding + missing},
		"nothing installed": {func(policies, bindings) (policies, bindings) { return nil, nil }, policy + missing},
		"another policy": {func(p policies, b bindings) (policies, bindings) {
			return append(p, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}}), b
		}, ""},
		"no check": {func(p policies, b bindings) (policies, bindings) { p[0].Spec.Validations = nil; return p, b }, policy + differs},
		"another check": {func(p policies, b bindings) (policies, bindings) {
			p[0].Spec.Validations[0].Expression = "true"
			return p, b
		}, policy + differs},
		"fails open": {func(p policies, b bindings) (policies, bindings) {
			p[0].Spec.FailurePolicy = new(admissionv1.Ignore)
			return p, b
		}, policy + differs},
		"fewer operations": {func(p policies, b bindings) (policies, bindings) {
			p[0].Spec.MatchConstraints.ResourceRules[0].Operations = nil
			return p, b
		}, policy + differs},
		"some namespaces": {func(p policies, b bindings) (policies, bindings) {
			p[0].Spec.MatchConstraints.NamespaceSelector = onlyProd
			return p, b
		}, policy + differs},
		"an exclusion": {func(p policies, b bindings) (policies, bindings) {
			p[0].Spec.MatchConstraints.ExcludeResourceRules = []admissionv1.NamedRuleWithOperations{{}}
			return p, b
		}, policy + differs},
		"an exception": {func(p policies, b bindings) (policies, bindings) {
			p[0].Spec.MatchConditions = append(p[0].Spec.MatchConditions, admissionv1.MatchCondition{Name: "a", Expression: "false"})
			return p, b
		}, policy + differs},
		"bound to warn": {func(p policies, b bindings) (policies, bindings) {
			b[0].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
			return p, b
		}, binding + differs},
		"bound to another": {func(p policies, b bindings) (policies, bindings) {
			b[0].Spec.PolicyName = "alarms.bongsu.io"
			return p, b
		}, binding + differs},
		"a narrow binding": {func(p policies, b bindings) (policies, bindings) {
			b[0].Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: onlyProd}
			return p, b
		}, binding + differs},
		"a newer version": {func(p policies, b bindings) (policies, bindings) {
			p[0].Annotations[versionAnnotation], p[0].Spec.Validations[0].Expression = "99", "true"
			b[0].Annotations[versionAnnotation] = "99"
			return p, b
		}, ""},
		"a newer version that is bound to fewer namespaces": {func(p policies, b bindings) (policies, bindings) {
			b[0].Annotations[versionAnnotation], b[0].Spec.MatchResources = "99", &admissionv1.MatchResources{NamespaceSelector: onlyProd}
			return p, b
		}, binding + differs},
		"a newer version whose binding names another policy": {func(p policies, b bindings) (policies, bindings) {
			b[0].Annotations[versionAnnotation], b[0].Spec.PolicyName = "99", "alarms.bongsu.io"
			return p, b
		}, binding + differs},
		"a newer version that fails open": {func(p policies, b bindings) (policies, bindings) {
			p[0].Annotations[versionAnnotation], p[0].Spec.FailurePolicy = "99", new(admissionv1.Ignore)
			return p, b
		}, policy + differs},
		"a newer version without checks": {func(p policies, b bindings) (policies, bindings) {
			p[0].Annotations[versionAnnotation], p[0].Spec.Validations = "99", nil
			return p, b
		}, policy + differs},
		"a newer version that is bound to warn": {func(p policies, b bindings) (policies, bindings) {
			b[0].Annotations[versionAnnotation], b[0].Spec.ValidationActions = "99", []admissionv1.ValidationAction{admissionv1.Warn}
			return p, b
		}, binding + differs},
		"an older version": {func(p policies, b bindings) (policies, bindings) {
			p[0].Annotations[versionAnnotation], p[0].Spec.Validations[0].Expression = "0", "true"
			return p, b
		}, policy + differs},
		"no valid version": {func(p policies, b bindings) (policies, bindings) {
			p[0].Annotations[versionAnnotation], p[0].Spec.Validations[0].Expression = "99x", "true"
			return p, b
		}, policy + differs},
		"with parameters": {func(p policies, b bindings) (policies, bindings) {
			b[0].Spec.ParamRef = &admissionv1.ParamRef{Name: "a"}
			return p, b
		}, binding + differs},
	} {
		t.Run(name, func(t *testing.T) {
			if got := expected.Compare(tc.change(live(expected))); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// specsDigest is the digest of all specs of the version that the manifests have.
const specsDigest = "721460f28b24af9c"

func TestAChangeOfAPolicyHasANewVersion(t *testing.T) {
	manifests, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]bool{}
	hash := sha256.New()
	for _, manifest := range manifests {
		if !strings.HasPrefix(manifest.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		versions[manifest.GetAnnotations()[versionAnnotation]] = true
		spec, err := json.Marshal(manifest.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(hash, "%s %s %s\n", manifest.GetKind(), manifest.GetName(), spec) // a hash does not fail
	}
	if len(versions) != 1 || versions[""] {
		t.Errorf("the annotation %s has the values %v, want one number", versionAnnotation, versions)
	}
	if got := fmt.Sprintf("%.8x", hash.Sum(nil)); got != specsDigest {
		t.Errorf("the policies have changed: increase %s in config/admission, and set specsDigest to %q", versionAnnotation, got)
	}
}
