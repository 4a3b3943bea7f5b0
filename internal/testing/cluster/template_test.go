package cluster_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// The test does not wait: a cluster can be used as soon as Start returns.
func TestManifestsAreInEffectWhenAClusterHasStarted(t *testing.T) {
	g := NewWithT(t)
	c := cluster.Start(t)

	discovered, err := discovery.NewDiscoveryClientForConfigOrDie(c.RESTConfig()).ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(discovered.APIResources).To(ContainElement(HaveField("Kind", v1alpha1.KindAppService)))

	namespace := c.Namespace(t, nil)
	alarm := cluster.Manifest(t, "Alarm", namespace, "mine", "match: [{reasons: [Failed]}]\nreceivers: [{name: team}]")
	author, err := cluster.ClientFor(c.User(t, namespace, cluster.Rule(v1alpha1.Group, "alarms", "create")))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(author.Create(t.Context(), alarm)).To(MatchError(ContainSubstring("you must be allowed to list events")))
}
