package watch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestFindAcceptsEveryNameOfAType(t *testing.T) {
	c := cluster.Shared(t)
	all := types(t, c.RESTConfig())
	for name, want := range map[string]string{
		"pods":                             "/v1, Resource=pods",
		"pod":                              "/v1, Resource=pods",
		"po":                               "/v1, Resource=pods",
		"Pod":                              "/v1, Resource=pods",
		"deploy":                           "apps/v1, Resource=deployments",
		"deployments.apps":                 "apps/v1, Resource=deployments",
		"deployments.v1.apps":              "apps/v1, Resource=deployments",
		"Deployment.v1.apps":               "apps/v1, Resource=deployments",
		"events":                           "/v1, Resource=events",
		"events.events.k8s.io":             "events.k8s.io/v1, Resource=events",
		"nodes":                            "/v1, Resource=nodes",
		"alarms":                           "bongsu.io/v1alpha1, Resource=alarms",
		"alarm.bongsu.io":                  "bongsu.io/v1alpha1, Resource=alarms",
		"clusteralarms.v1alpha1.bongsu.io": "bongsu.io/v1alpha1, Resource=clusteralarms",
	} {
		found, err := all.Find(t.Context(), name)
		if err != nil || found.Resource.String() != want {
			t.Errorf("%s: got %s, %v; want %s", name, found.Resource, err, want)
		}
		if ofCluster := strings.Contains(want, "nodes") || strings.Contains(want, "clusteralarms"); found.Namespaced == ofCluster {
			t.Errorf("%s: namespaced is %v", name, found.Namespaced)
		}
	}
}

func TestFindExplainsTypesThatCannotBeWatched(t *testing.T) {
	c := cluster.Shared(t)
	all := types(t, c.RESTConfig())
	for name, want := range map[string]string{
		"widgets":           `the server has no type "widgets": choose one that ` + "`kubectl api-resources` lists",
		"pods.apps":         `the server has no type "pods.apps"`,
		"pods/log":          `the server has no type "pods/log"`,
		"tokenreviews":      "tokenreviews.authentication.k8s.io cannot be watched: the server allows only create",
		"componentstatuses": "cannot be watched",
	} {
		if _, err := all.Find(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestFindReportsAnUnreachableServer(t *testing.T) {
	config, network := throughNetwork(cluster.Shared(t).RESTConfig())
	network.stop()
	_, err := types(t, config).Find(t.Context(), "pods")
	if err == nil || !strings.Contains(err.Error(), "read the server's types") {
		t.Errorf("got %v", err)
	}
}

func TestNamesListsTheTypesThatCanBeWatched(t *testing.T) {
	names, err := types(t, cluster.Shared(t).RESTConfig()).Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pods", "deployments.apps", "alarms.bongsu.io"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"tokenreviews.authentication.k8s.io", "pods/status", "componentstatuses"} {
		if slices.Contains(names, name) {
			t.Errorf("%s is offered", name)
		}
	}
	if !slices.IsSorted(names) {
		t.Error("the names are not sorted")
	}
}
