// Package kube contains helpers for the API server that several packages share. They are
// clients, keys of objects, predicates, transforms of cached objects, and a watch on
// Secrets.
package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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

// Target says to which cluster to connect, and as which user. The zero Target is what kubectl uses
// without flags.
type Target struct {
	// Kubeconfig is a file. If it is empty, $KUBECONFIG, ~/.kube/config and the service account of the
	// pod are tried.
	Kubeconfig string
	// Context is the name of a context in the kubeconfig, instead of the current one.
	Context string
	// As and AsGroups are the user and the groups to impersonate.
	As       string
	AsGroups []string
}

// Config returns the configuration to connect to the cluster of a kubeconfig file. See [Target.Config].
func Config(kubeconfig string) (*rest.Config, error) { return Target{Kubeconfig: kubeconfig}.Config() }

// Config returns the configuration to connect to the cluster. It looks in the same places as kubectl.
func (t Target) Config() (*rest.Config, error) {
	cfg, err := t.clientConfig().ClientConfig()
	if err != nil {
		return nil, t.failed(err)
	}
	cfg.QPS = noRateLimit
	return cfg, nil
}

// Namespace returns the default namespace: that of the context, that of the pod, or
// "default". It looks in the same places as [Target.Config].
func (t Target) Namespace() (string, error) {
	namespace, _, err := t.clientConfig().Namespace()
	if err != nil {
		return "", t.failed(err)
	}
	return namespace, nil
}

// Contexts returns the names of the contexts in the kubeconfig.
func (t Target) Contexts() ([]string, error) {
	raw, err := t.clientConfig().RawConfig()
	return slices.Sorted(maps.Keys(raw.Contexts)), err
}

func (t Target) clientConfig() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: t.Context, AuthInfo: clientcmdapi.AuthInfo{Impersonate: t.As, ImpersonateGroups: t.AsGroups},
	})
}

func (t Target) failed(err error) error {
	if t.Context != "" {
		return fmt.Errorf("--context %s cannot be used: list the contexts with kubectl config get-contexts: %w", t.Context, err)
	}
	return fmt.Errorf("no cluster configuration found: use --kubeconfig or set KUBECONFIG: %w", err)
}
