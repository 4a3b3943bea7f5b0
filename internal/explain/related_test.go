package explain

import (
	"slices"
	"strings"
	"testing"
)

// The server of one metrics API is not that of another one.
func TestTheMetricsAPIOfAMessageIsKnown(t *testing.T) {
	for message, want := range map[string]string{
		"the server of the resource metrics API does not answer":                         "v1beta1.metrics.k8s.io",
		"the custom metrics API has no metric \"rps\"":                                   "v1beta1.custom.metrics.k8s.io",
		"the server is currently unable to handle the request (get pods.metrics.k8s.io)": "v1beta1.metrics.k8s.io",
		"unable to fetch metrics from external metrics API: not found":                   "v1beta1.external.metrics.k8s.io",
		"(get rps.custom.metrics.k8s.io)":                                                "v1beta1.custom.metrics.k8s.io",
		"it has no metrics":                                                              "",
	} {
		if got := apiServicesOf(message); strings.Join(got[:min(len(got), 1)], "") != want {
			t.Errorf("%s: %v, want %s", message, got, want)
		}
	}
}

// A further problem of a workload is another one. What it waits for is not why the main one exists.
func TestAComponentIsNotBlamedForAnotherProblem(t *testing.T) {
	q := &inquiry{explanation: Explanation{
		Cause:  &Cause{Message: "its image cannot be pulled"},
		Others: []Cause{{Message: `readiness gate "target-health.elbv2.k8s.aws/k8s-shop-web-1" is not set`}},
	}}
	if slices.ContainsFunc(components, func(c component) bool { return c.text.MatchString(q.problemText()) }) {
		t.Error(q.problemText())
	}
	if !strings.Contains(q.allText(), "readiness gate") {
		t.Error(q.allText())
	}
}
