package main

import "k8s.io/kubernetes/cmd/kube-scheduler/app"

func kubeScheduler() {
	run(app.NewSchedulerCommand())
}
