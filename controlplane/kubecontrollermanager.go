package main

import "k8s.io/kubernetes/cmd/kube-controller-manager/app"

func kubeControllerManager() {
	run(app.NewControllerManagerCommand())
}
