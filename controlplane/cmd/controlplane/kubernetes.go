package main

import (
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/bongsu-io/bongsu/controlplane/internal/component"
)

func kubeAPIServer()         { component.Run(apiserver.NewAPIServerCommand()) }
func kubeControllerManager() { component.Run(controllermanager.NewControllerManagerCommand()) }
func kubeScheduler()         { component.Run(scheduler.NewSchedulerCommand()) }
