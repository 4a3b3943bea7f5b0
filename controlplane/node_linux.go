package main

import (
	"context"

	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/bongsu-io/bongsu/controlplane/internal/multicall"
)

// nodePrograms make this machine a node. They know Linux only.
var nodePrograms = []multicall.Program{
	{Name: "kubelet", Summary: "runs the pods of a node in containers", Main: runKubelet},
	{Name: "kube-proxy", Summary: "leads the addresses of Services to pods", Main: runKubeProxy},
}

// The context is for what ends without a signal, which is nothing: the command
// sets up its signals itself.
func runKubelet() {
	run(kubelet.NewKubeletCommand(context.Background()))
}

func runKubeProxy() {
	run(kubeproxy.NewProxyCommand())
}
