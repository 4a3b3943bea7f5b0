package explain

import "testing"

func TestAKindWhoseFeatureIsNotInstalledSaysSo(t *testing.T) {
	const operator = `
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: bongsu-system, name: bongsu, labels: {app.kubernetes.io/name: bongsu, app.kubernetes.io/part-of: bongsu}}
spec:
  selector: {}
  template: {spec: {containers: [{name: manager, args: [--leader-elect, "--controllers=alarm,jupyter"]}]}}`
	for resource, test := range map[string]struct{ kind, feature, state string }{
		"appservices.bongsu.io":  {"AppService", "appservice", "running"},
		"secretshares.bongsu.io": {"SecretShare", "secretshare", "ready"},
	} {
		object := "apiVersion: bongsu.io/v1alpha1\nkind: " + test.kind + "\nmetadata: {namespace: shop, name: x}"
		unknown := test.kind + " shop/x is not " + test.state + " yet, and no problem is known: the operator has not processed it yet: check that the operator is running, with the feature " + test.feature
		without := test.kind + " shop/x is not " + test.state + " yet, and no problem is known: the operator runs without the feature " + test.feature +
			", and ignores it: ask an administrator to install again with the same values and --set 'controllers={alarm,jupyter," + test.feature + "}'"
		checkExplained(t, resource, "x", map[string]tc{
			test.kind + " without an operator":                {objects: object, want: unknown},
			test.kind + " of a user who cannot read it":       {objects: object + operator, forbidden: []string{"StatefulSet"}, want: unknown},
			test.kind + " of an operator without the feature": {objects: object + operator, want: without},
		})
	}
	const alarm = "apiVersion: bongsu.io/v1alpha1\nkind: Alarm\nmetadata: {namespace: shop, name: x}"
	checkExplained(t, "alarms.bongsu.io", "x", map[string]tc{
		"an operator with the feature": {objects: alarm + operator,
			want: "Alarm shop/x is not ready yet, and no problem is known: the operator has not processed it yet: check that the operator is running, with the feature alarm"},
	})
}
