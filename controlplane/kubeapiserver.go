package main

import "k8s.io/kubernetes/cmd/kube-apiserver/app"

func kubeAPIServer() {
	run(app.NewAPIServerCommand())
}
