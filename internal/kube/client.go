// Package kube contains helpers for the API server that several packages share. They are
// clients, keys of objects, predicates, transforms of cached objects, and a watch on
// Secrets.
package kube

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// NewClient returns a client for the kinds of Bongsu and of Kubernetes. It sends no
// request yet.
func NewClient(cfg *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// noRateLimit disables client-side rate limiting. The default of 5 requests a second
// would delay large batches for minutes, and the API server has Priority and Fairness.
const noRateLimit = -1

// Config returns the configuration to connect to the cluster. It looks in the same places
// as kubectl: the given file, $KUBECONFIG or ~/.kube/config, and the service account of
// the pod.
func Config(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientConfig(kubeconfig).ClientConfig()
	if err != nil {
		return nil, configError(err)
	}
	cfg.QPS = noRateLimit
	return cfg, nil
}

// Namespace returns the default namespace: that of the context, that of the pod, or
// "default". It looks in the same places as [Config].
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
	return fmt.Errorf("no cluster configuration found: use --kubeconfig or set KUBECONFIG: %w", err)
}
