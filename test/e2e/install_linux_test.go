package e2e

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

const system = "bongsu-system"

// values are those of the chart by which the image of a tag is installed.
func values(tag string) []string {
	return []string{
		"--set", "image.repository=" + operatorRepository, "--set", "image.tag=" + tag, "--set", "image.pullPolicy=Never",
		"--set", "clusterName=e2e",
	}
}

// install installs as the documentation says, in one go on a bare cluster.
func (w *world) install(t *testing.T) {
	manifests := w.bongsu(t, append([]string{"install"}, values(firstTag)...)...)
	w.apply(t, manifests)
	w.kubectl(t, "rollout", "status", "deployment/bongsu", "-n", system, "--timeout=3m")
	w.await(t, "lease/bongsu", system, "{.metadata.name}", "bongsu")
}

// uninstall has the operator removed with all that was made by it, then removes what the
// test itself has made, and compares with what there was.
func (w *world) uninstall(t *testing.T, before []string) {
	w.bongsu(t, "uninstall", "--delete-data", "--yes", "--kubeconfig", w.Kubeconfig())
	g := NewWithT(t)
	for _, namespace := range []string{"lab", "apps", "shop"} {
		g.Expect(w.kubectl(t, "get", "deployments,statefulsets,services,secrets,persistentvolumeclaims",
			"-n", namespace, "-o", "name")).To(BeEmpty(), "what was made by the operator in "+namespace)
	}
	w.kubectl(t, "delete", "persistentvolume", "lab")
	w.kubectl(t, "delete", "namespace", "shop", "apps", "lab", "secretsync", "flood")
	g.Eventually(func() []string {
		return slices.DeleteFunc(w.objects(t), func(o string) bool { return slices.Contains(before, o) })
	}).Should(BeEmpty(), "what was not there before the installation")
}

// objects names all objects of the cluster, but for those that come and go by themselves.
func (w *world) objects(t *testing.T) []string {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(w.RESTConfig()).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var resources []string
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if slices.Contains(r.Verbs, "list") && !slices.Contains(transient, r.Name) {
				resources = append(resources, version.WithResource(r.Name).GroupResource().String())
			}
		}
	}
	return strings.Fields(w.kubectl(t, "get", strings.Join(resources, ","), "--all-namespaces", "--ignore-not-found",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`))
}

// transient are Events, leases of nodes and of the API server, and the second node.
var transient = []string{"events", "leases", "nodes", "csinodes", "endpoints", "ipaddresses", "componentstatuses"}
