package localcluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestClustersOfATemplateRefuseEachOthersClients(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	g := NewWithT(t)
	template := filepath.Join(t.TempDir(), "template")
	made := start(t, localcluster.Config{Dir: template})
	mark(t, made, "made")
	g.Expect(made.StopAsTemplate(t.Context())).To(Succeed())
	g.Expect(filepath.Glob(filepath.Join(template, "*"))).To(ConsistOf(filepath.Join(template, "etcd")))

	serving := []localcluster.Component{localcluster.APIServer, localcluster.ControllerManager, localcluster.Scheduler}
	var clusters []*localcluster.Cluster
	for range 2 {
		c := start(t, localcluster.Config{Template: template, Components: serving[1:]})
		g.Expect(marked(t, c, "made")()).To(Succeed())
		clusters = append(clusters, c)
	}
	for _, component := range serving {
		own, other := clusters[0].RESTConfig(), clusters[1].RESTConfig()
		own.Host = addressOf(t, clusters[0], component)
		// The components read the authorities of their clients some time after they are ready.
		g.Eventually(metrics).WithArguments(t, own).Should(Succeed(), component)

		other.Host = own.Host
		g.Expect(metrics(t, other)).To(MatchError(ContainSubstring("certificate signed by unknown authority")), "the client refuses %s", component)
		other.CAData = own.CAData
		g.Expect(metrics(t, other)).To(MatchError(ContainSubstring("401 Unauthorized")), "%s refuses the client", component)
	}
}

// addressOf returns the address of a component, from the file of the cluster.
func addressOf(t *testing.T, c *localcluster.Cluster, component localcluster.Component) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir(), "ports.json"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	ports := map[localcluster.Component]int{}
	NewWithT(t).Expect(json.Unmarshal(data, &ports)).To(Succeed())
	return fmt.Sprintf("https://127.0.0.1:%d", ports[component])
}

// metrics reads the metrics of a component, which not every client may read.
func metrics(t *testing.T, config *rest.Config) error {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	response, err := client.Get(config.Host + "/metrics")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	return nil
}
