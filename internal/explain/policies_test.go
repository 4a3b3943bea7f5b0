package explain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Only a policy of Cilium that surely refuses a pod may be a cause.
func TestAPolicyOfCiliumRefusesOnlyWhatItsRulesExclude(t *testing.T) {
	for rule, admits := range map[string]bool{
		`{}`: true,
		`{fromEndpoints: [{matchLabels: {app: web}}]}`:                                           true,
		`{fromEndpoints: [{matchLabels: {"k8s:app": web}}], toPorts: [{ports: [{port: "80"}]}]}`: true,
		`{fromEndpoints: [{}]}`: true,
		`{fromEndpoints: [{matchLabels: {"k8s:io.kubernetes.pod.namespace": shop}}]}`:                 true,
		`{fromEndpoints: [{matchExpressions: [{key: "any:app", operator: In, values: [web, api]}]}]}`: true,
		`{fromEntities: [cluster]}`: true,
		`{fromCIDR: [10.0.0.0/8]}`:  true,
		`{fromEndpoints: [{matchLabels: {"io.cilium.k8s.namespace.labels.team": a}}]}`:           true,
		`{fromEndpoints: [{matchLabels: {app: api}}]}`:                                           false,
		`{fromEndpoints: [{matchLabels: {"k8s:io.kubernetes.pod.namespace": other}}]}`:           false,
		`{fromEndpoints: [{matchLabels: {app: web, "k8s:io.kubernetes.pod.namespace": other}}]}`: false,
		`{fromEndpoints: []}`: false,
	} {
		var fields map[string]any
		if err := yaml.Unmarshal([]byte(rule), &fields); err != nil {
			t.Fatal(rule, err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop", Labels: map[string]string{"app": "web"}}}
		if got := mayAdmit(fields, "shop", pod); got != admits {
			t.Errorf("%s: %t, want %t", rule, got, admits)
		}
	}
}
