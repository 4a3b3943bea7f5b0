package explain

import (
	"strings"
	"testing"
)

const sharedRules = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: bongsu.io/v1alpha1
kind: ClusterSecretShare
metadata: {name: secretsync}
spec: {source: {namespace: shop, type: bongsu.io/secretsync}, targets: {}}
---
apiVersion: bongsu.io/v1alpha1
kind: ClusterSecretShare
metadata: {name: registry}
spec: {source: {namespace: platform, names: [registry]}, targets: {exclude: [sh*]}}
---
apiVersion: bongsu.io/v1alpha1
kind: SecretShare
metadata: {name: labelled, namespace: shop}
spec: {source: {selector: {matchLabels: {share: a}}}, targets: {}}
`

func TestExplainSaysWhichRulesCopyASecret(t *testing.T) {
	for name, tc := range map[string]struct{ secret, object, want string }{
		// The tutorial that this project began with creates a Secret of its own type.
		"another type and no label": {
			"s", "metadata: {name: s, namespace: shop}\ntype: k8s.ziwon.dev/secretsync",
			"it exists; ClusterSecretShare/secretsync does not copy it: it has the type k8s.ziwon.dev/secretsync, and spec.source.type is bongsu.io/secretsync; " +
				"SecretShare/shop/labelled does not copy it: it has no labels that match spec.source.selector share=a",
		},
		"selected": {
			"s", "metadata: {name: s, namespace: shop, labels: {share: a}}\ntype: bongsu.io/secretsync",
			"it exists; ClusterSecretShare/secretsync selects it; SecretShare/shop/labelled selects it",
		},
		"a copy": {
			"s", "metadata: {name: s, namespace: shop, annotations: {bongsu.io/rule-uid: u, bongsu.io/source-uid: v, bongsu.io/rule: ClusterSecretShare/x, bongsu.io/source: a/b}}",
			"it is a copy of a/b, which ClusterSecretShare/x writes",
		},
		"a namespace that the rule excludes": {
			"registry", "metadata: {name: s, namespace: shop}",
			"ClusterSecretShare/registry copies Secret platform/registry under this name, but not here: spec.targets.exclude excludes the namespace shop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeCluster(t, sharedRules+"---\napiVersion: v1\nkind: Secret\ndata: {password: aHVudGVyMg==}\n"+tc.object)
			got := written(t, e.explains(t, "secrets", tc.secret))
			if !strings.Contains(got, tc.want) {
				t.Errorf("got:\n%s\nwant a part:\n%s", got, tc.want)
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, "aHVudGVyMg") {
				t.Errorf("a value is shown: %s", got)
			}
		})
	}
}
