package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// noRateLimit leaves it to the API server's Priority and Fairness: a client's own
// default of 5 requests a second would make every list of work take minutes.
const noRateLimit = -1

// Config finds out how to reach the cluster, in the order in which kubectl does: the
// file that is given; $KUBECONFIG, or ~/.kube/config if that is not set; the pod's
// own service account.
func Config(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (give --kubeconfig or set KUBECONFIG): %w", err)
	}
	cfg.QPS = noRateLimit
	return cfg, nil
}
