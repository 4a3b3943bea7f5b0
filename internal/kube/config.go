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
	cfg, err := clientConfig(kubeconfig).ClientConfig()
	if err != nil {
		return nil, configError(err)
	}
	cfg.QPS = noRateLimit
	return cfg, nil
}

// Namespace returns the namespace to work in if none is given, found as Config
// finds the cluster: that of the context, or of the pod, or "default".
func Namespace(kubeconfig string) (string, error) {
	namespace, _, err := clientConfig(kubeconfig).Namespace()
	if err != nil {
		return "", configError(err)
	}
	return namespace, nil
}

func clientConfig(kubeconfig string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
}

func configError(err error) error {
	return fmt.Errorf("find the cluster (give --kubeconfig or set KUBECONFIG): %w", err)
}
