// Command node contains the components of a Kubernetes node in one file: kubelet
// and kube-proxy. They support Linux only. Tests on a real node start them.
//
// They are not part of cmd/controlplane because a cluster with simulated nodes
// does not need them, and their packages take time to compile. The name the
// binary is called by selects the component, as in cmd/controlplane.
package main

import (
	"context"

	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/bongsu-io/bongsu/controlplane/internal/component"
	"github.com/bongsu-io/bongsu/controlplane/internal/multicall"
)

var binary = multicall.Binary{
	Name:    "node",
	Summary: "The components of a Kubernetes node in one binary.",
	Programs: []multicall.Program{
		{Name: "kubelet", Summary: "runs the pods of a node in containers", Main: runKubelet},
		{Name: "kube-proxy", Summary: "routes the addresses of Services to pods", Main: runKubeProxy},
	},
}

func main() { binary.Run() }

// The command handles signals itself, so the context never ends.
func runKubelet() {
	component.Run(kubelet.NewKubeletCommand(context.Background()))
}

func runKubeProxy() {
	component.Run(kubeproxy.NewProxyCommand())
}
