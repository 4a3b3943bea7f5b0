package secretshare_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// list returns a YAML list of n different entries.
func list(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// strict returns a client whose requests fail on unknown fields, as with kubectl.
func strict(c *cluster.Cluster) client.Client {
	return client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
}

func TestTheAPIServerRefusesAnInvalidShareAndNamesTheField(t *testing.T) {
	c := cluster.Shared(t)
	const (
		selectSomething = "no Secrets selected: set names, type or a selector that is not empty"
		neverCopied     = `": Secrets of this type are never copied: set another type`
		systemNamespace = "names contains a system namespace, which is excluded: remove it, or set systemNamespaces to Include"
		sameName        = "two keys have the same name in the copy: set a different to for each"
	)
	source := func(fields string) string { return "source: {namespace: here, " + fields + "}\ntargets: {}" }
	targets := func(fields string) string { return "source: {namespace: here, names: [a]}\ntargets: {" + fields + "}" }
	with := func(field string) string { return targets("") + "\n" + field }
	long := strings.Repeat("a", 400)
	for name, tc := range map[string]struct{ spec, want string }{
		"no spec":                     {"", "spec: Required value"},
		"no source":                   {"targets: {}", "spec.source: Required value"},
		"a source without selection":  {"source: {namespace: here}\ntargets: {}", "spec.source: Invalid value: " + selectSomething},
		"no names":                    {source("names: []"), "spec.source: Invalid value: " + selectSomething},
		"an empty selector":           {source("selector: {}"), "spec.source: Invalid value: " + selectSomething},
		"a selector of no labels":     {source("selector: {matchLabels: {}, matchExpressions: []}"), "spec.source: Invalid value: " + selectSomething},
		"a misspelt field":            {source("name: a"), `unknown field "spec.source.name"`},
		"an empty name":               {source(`names: [""]`), "spec.source.names[0]: Invalid value"},
		"a name that is a glob":       {source(`names: ["a*"]`), "spec.source.names[0]: Invalid value"},
		"a name in capitals":          {source("names: [A]"), "spec.source.names[0]: Invalid value"},
		"a long name":                 {source("names: [" + long + "]"), "spec.source.names[0]: Too long: may not be more than 253 bytes"},
		"a name twice":                {source("names: [a, a]"), `spec.source.names[1]: Duplicate value: "a"`},
		"too many names":              {source("names: " + list(17, "a%d")), "spec.source.names: Too many: 17: must have at most 16 items"},
		"an empty type":               {source(`type: ""`), "spec.source.type: Invalid value"},
		"a long type":                 {source("type: " + long), "spec.source.type: Too long: may not be more than 253 bytes"},
		"a service account token":     {source("type: kubernetes.io/service-account-token"), `spec.source.type: Invalid value: "kubernetes.io/service-account-token` + neverCopied},
		"a bootstrap token":           {source("type: bootstrap.kubernetes.io/token"), `spec.source.type: Invalid value: "bootstrap.kubernetes.io/token` + neverCopied},
		"a Helm release":              {source("type: helm.sh/release.v1"), `spec.source.type: Invalid value: "helm.sh/release.v1` + neverCopied},
		"a negative grace":            {with("sourceDeletionGraceSeconds: -1"), "spec.sourceDeletionGraceSeconds: Invalid value: -1: spec.sourceDeletionGraceSeconds in body should be greater than or equal to 0"},
		"a grace of more than a day":  {with("sourceDeletionGraceSeconds: 86401"), "spec.sourceDeletionGraceSeconds: Invalid value: 86401: spec.sourceDeletionGraceSeconds in body should be less than or equal to 86400"},
		"no targets":                  {"source: {namespace: here, names: [a]}", "spec.targets: Required value"},
		"a misspelt target":           {targets("namespaces: [a]"), `unknown field "spec.targets.namespaces"`},
		"an empty target":             {targets(`names: [""]`), "spec.targets.names[0]: Invalid value"},
		"a target in capitals":        {targets("names: [Team]"), "spec.targets.names[0]: Invalid value"},
		"a target with a class":       {targets(`names: ["team-[ab]"]`), "spec.targets.names[0]: Invalid value"},
		"a target with alternatives":  {targets(`names: ["team-{a,b}"]`), "spec.targets.names[0]: Invalid value"},
		"a long target":               {targets("names: [" + long + "]"), "spec.targets.names[0]: Too long: may not be more than 63 bytes"},
		"a target twice":              {targets("names: [a, a]"), `spec.targets.names[1]: Duplicate value: "a"`},
		"too many targets":            {targets("names: " + list(65, "a%d")), "spec.targets.names: Too many: 65: must have at most 64 items"},
		"an empty exclusion":          {targets(`exclude: [""]`), "spec.targets.exclude[0]: Invalid value"},
		"an invalid exclusion":        {targets(`exclude: ["!a"]`), "spec.targets.exclude[0]: Invalid value"},
		"an exclusion twice":          {targets("exclude: [a, a]"), `spec.targets.exclude[1]: Duplicate value: "a"`},
		"too many exclusions":         {targets("exclude: " + list(65, "a%d")), "spec.targets.exclude: Too many: 65: must have at most 64 items"},
		"a system namespace":          {targets("names: [a, kube-system]"), "spec.targets: Invalid value: " + systemNamespace},
		"all system namespaces":       {targets(`names: ["kube-*"]`), "spec.targets: Invalid value: " + systemNamespace},
		"system namespaces as a bool": {targets("systemNamespaces: true"), "spec.targets.systemNamespaces: Invalid value"},
		"unknown system namespaces":   {targets("systemNamespaces: Some"), `spec.targets.systemNamespaces: Unsupported value: "Some": supported values: "Exclude", "Include"`},
		"a key without from":          {with("keys: [{to: a}]"), "spec.keys[0].from: Required value"},
		"an empty key":                {with(`keys: [{from: ""}]`), "spec.keys[0].from: Invalid value"},
		"a key with a slash":          {with("keys: [{from: a/b}]"), "spec.keys[0].from: Invalid value"},
		"a long key":                  {with("keys: [{from: " + long + "}]"), "spec.keys[0].from: Too long: may not be more than 253 bytes"},
		"an empty new name":           {with(`keys: [{from: a, to: ""}]`), "spec.keys[0].to: Invalid value"},
		"a new name with a space":     {with(`keys: [{from: a, to: "b c"}]`), "spec.keys[0].to: Invalid value"},
		"a long new name":             {with("keys: [{from: a, to: " + long + "}]"), "spec.keys[0].to: Too long: may not be more than 253 bytes"},
		"a key twice":                 {with("keys: [{from: a}, {from: a, to: b}]"), `spec.keys[1]: Duplicate value: {"from":"a"}`},
		"two keys with one name":      {with("keys: [{from: a, to: c}, {from: b, to: c}]"), "spec.keys: Invalid value: " + sameName},
		"a key renamed to another":    {with("keys: [{from: a}, {from: b, to: a}]"), "spec.keys: Invalid value: " + sameName},
		"too many keys":               {with("keys: " + list(33, "{from: a%d}")), "spec.keys: Too many: 33: must have at most 32 items"},
		"an empty label":              {with(`copyLabels: [""]`), "spec.copyLabels[0]: Invalid value"},
		"a label with a value":        {with(`copyLabels: ["a=b"]`), "spec.copyLabels[0]: Invalid value"},
		"a long label":                {with("copyLabels: [" + long + "]"), "spec.copyLabels[0]: Too long: may not be more than 317 bytes"},
		"a label twice":               {with("copyLabels: [a, a]"), `spec.copyLabels[1]: Duplicate value: "a"`},
		"too many labels":             {with("copyLabels: " + list(33, "a%d")), "spec.copyLabels: Too many: 33: must have at most 32 items"},
		"an empty annotation":         {with(`copyAnnotations: [""]`), "spec.copyAnnotations[0]: Invalid value"},
		"an invalid annotation":       {with(`copyAnnotations: ["a b"]`), "spec.copyAnnotations[0]: Invalid value"},
		"an annotation twice":         {with("copyAnnotations: [a, a]"), `spec.copyAnnotations[1]: Duplicate value: "a"`},
		"too many annotations":        {with("copyAnnotations: " + list(33, "a%d")), "spec.copyAnnotations: Too many: 33: must have at most 32 items"},
		"an unknown policy":           {with("deletionPolicy: Orphan"), `spec.deletionPolicy: Unsupported value: "Orphan": supported values: "Delete", "Retain"`},
		"a suspend that is a string":  {with(`suspend: "yes"`), "spec.suspend: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(strict(c).Create(t.Context(), cluster.Manifest(t, "ClusterSecretShare", "", "wrong", tc.spec))).
				To(MatchError(ContainSubstring(tc.want)))
			ofNamespace := strings.ReplaceAll(strings.ReplaceAll(tc.spec, "namespace: here, ", ""), "namespace: here", "")
			g.Expect(strict(c).Create(t.Context(), cluster.Manifest(t, "SecretShare", metav1.NamespaceDefault, "wrong", ofNamespace))).
				To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestTheAPIServerRefusesAnInvalidSourceNamespace(t *testing.T) {
	c := cluster.Shared(t)
	for name, tc := range map[string]struct{ kind, namespace, spec, want string }{
		"none": {"ClusterSecretShare", "", "source: {names: [a]}\ntargets: {}", "spec.source.namespace: Required value"},
		"an empty one": {
			"ClusterSecretShare", "", "source: {namespace: '', names: [a]}\ntargets: {}", "spec.source.namespace: Invalid value",
		},
		"a glob": {
			"ClusterSecretShare", "", "source: {namespace: 'a*', names: [a]}\ntargets: {}", "spec.source.namespace: Invalid value",
		},
		"a long one": {
			"ClusterSecretShare", "", "source: {namespace: " + strings.Repeat("a", 64) + ", names: [a]}\ntargets: {}",
			"spec.source.namespace: Too long: may not be more than 63 bytes",
		},
		"a namespace that is a target": {
			"ClusterSecretShare", "", "source: {namespace: here, names: [a]}\ntargets: {names: [there, here]}",
			"spec.targets.names: the source's own namespace cannot be a target",
		},
		"another namespace than its own, in a SecretShare": {
			"SecretShare", metav1.NamespaceDefault, "source: {namespace: here, names: [a]}\ntargets: {}",
			`unknown field "spec.source.namespace"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(strict(c).Create(t.Context(), cluster.Manifest(t, tc.kind, tc.namespace, "wrong", tc.spec))).
				To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestTheAPIServerRefusesAnInvalidGrantAndNamesTheField(t *testing.T) {
	c := cluster.Shared(t)
	long := strings.Repeat("a", 254)
	to := func(name string) string { return "from: [{namespace: a}]\nto: [{name: " + name + "}]" }
	for name, tc := range map[string]struct{ spec, want string }{
		"no spec":                    {"", "spec: Required value"},
		"no from":                    {"to: [{name: a}]", "spec.from: Required value"},
		"an empty from":              {"from: []", "spec.from: Invalid value: 0: spec.from in body should have at least 1 items"},
		"too many from":              {"from: " + list(65, "{namespace: a%d}"), "spec.from: Too many: 65: must have at most 64 items"},
		"a from without a namespace": {"from: [{}]", "spec.from[0].namespace: Required value"},
		"an empty namespace":         {"from: [{namespace: ''}]", "spec.from[0].namespace: Invalid value"},
		"a namespace that globs":     {"from: [{namespace: '*'}]", "spec.from[0].namespace: Invalid value"},
		"a long namespace":           {"from: [{namespace: " + long + "}]", "spec.from[0].namespace: Too long: may not be more than 63 bytes"},
		"a namespace twice":          {"from: [{namespace: a}, {namespace: a}]", `spec.from[1]: Duplicate value: {"namespace":"a"}`},
		"a kind, as in Gateway API":  {"from: [{kind: SecretShare, namespace: a}]", `unknown field "spec.from[0].kind"`},
		"a to without a name":        {"from: [{namespace: a}]\nto: [{}]", "spec.to[0].name: Required value"},
		"an empty name":              {to("''"), "spec.to[0].name: Invalid value"},
		"a name in capitals":         {to("A"), "spec.to[0].name: Invalid value"},
		"a name with a class":        {to("'[ab]'"), "spec.to[0].name: Invalid value"},
		"a long name":                {to(long), "spec.to[0].name: Too long: may not be more than 253 bytes"},
		"a name twice":               {"from: [{namespace: a}]\nto: [{name: a}, {name: a}]", `spec.to[1]: Duplicate value: {"name":"a"}`},
		"too many names":             {"from: [{namespace: a}]\nto: " + list(65, "{name: a%d}"), "spec.to: Too many: 65: must have at most 64 items"},
		"an unknown field":           {"from: [{namespace: a}]\nkeys: [a]", `unknown field "spec.keys"`},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(strict(c).Create(t.Context(), cluster.Manifest(t, "SecretShareGrant", metav1.NamespaceDefault, "wrong", tc.spec))).
				To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestAMinimalManifestGetsTheDefaults(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t, nil)
	for name, tc := range map[string]struct {
		kind, namespace, spec string
		want                  map[string]any
	}{
		"a ClusterSecretShare": {
			"ClusterSecretShare", "", "source: {namespace: here, type: a}\ntargets: {}", map[string]any{
				"source": map[string]any{"namespace": "here", "type": "a"}, "deletionPolicy": "Delete", "suspend": false, "sourceDeletionGraceSeconds": int64(30),
				"targets": map[string]any{"systemNamespaces": "Exclude"},
			},
		},
		"a SecretShare": {
			"SecretShare", namespace, "source: {names: [a]}\ntargets: {}", map[string]any{
				"source": map[string]any{"names": []any{"a"}}, "deletionPolicy": "Delete", "suspend": false, "sourceDeletionGraceSeconds": int64(30),
				"targets": map[string]any{"systemNamespaces": "Exclude"},
			},
		},
		"one that excludes a namespace": {
			"SecretShare", namespace, "source: {selector: {matchLabels: {a: b}}}\ntargets: {exclude: [b]}", map[string]any{
				"source":         map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}},
				"deletionPolicy": "Delete", "suspend": false, "sourceDeletionGraceSeconds": int64(30),
				"targets": map[string]any{"exclude": []any{"b"}, "systemNamespaces": "Exclude"},
			},
		},
		"one that includes a system namespace and swaps keys": {
			"SecretShare", namespace,
			"source: {names: [a]}\ntargets: {names: [kube-public], systemNamespaces: Include}\nkeys: [{from: a, to: b}, {from: b, to: a}]\ndeletionPolicy: Retain",
			map[string]any{
				"source": map[string]any{"names": []any{"a"}}, "deletionPolicy": "Retain", "suspend": false, "sourceDeletionGraceSeconds": int64(30),
				"targets": map[string]any{"names": []any{"kube-public"}, "systemNamespaces": "Include"},
				"keys":    []any{map[string]any{"from": "a", "to": "b"}, map[string]any{"from": "b", "to": "a"}},
			},
		},
		"a SecretShareGrant": {
			"SecretShareGrant", namespace, "from: [{namespace: a}]", map[string]any{"from": []any{map[string]any{"namespace": "a"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := cluster.Manifest(t, tc.kind, tc.namespace, "least", tc.spec)
			g.Expect(strict(c).Create(t.Context(), o, client.DryRunAll)).To(Succeed())
			g.Expect(o.Object["spec"]).To(Equal(tc.want))
		})
	}
}
