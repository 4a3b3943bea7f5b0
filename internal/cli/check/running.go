package check

import (
	"context"
	"fmt"
)

// Running is what runs in a cluster.
type Running struct {
	// Kubernetes is the API server's version.
	Kubernetes string `json:"kubernetes"`
	// Workload is what runs the operator, for example "Deployment bongsu"; empty if
	// nothing does. Image is the one that it was last told to run.
	Workload string `json:"workload,omitempty"`
	Image    string `json:"image,omitempty"`
}

// String says it in a line.
func (r Running) String() string {
	if r.Workload == "" {
		return fmt.Sprintf("Kubernetes %s; the operator is not installed in that namespace", r.Kubernetes)
	}
	return fmt.Sprintf("Kubernetes %s; %s runs %s", r.Kubernetes, r.Workload, r.Image)
}

// Running asks what runs in the cluster.
func (c *Checker) Running(ctx context.Context) (Running, error) {
	server, err := c.discovery.ServerVersion()
	if err != nil {
		return Running{}, err
	}
	running := Running{Kubernetes: server.GitVersion}
	w, err := c.workload(ctx)
	if err != nil || w == nil {
		return running, err
	}
	running.Workload = w.facts().Name
	for _, container := range w.pod.Containers {
		running.Image = container.Image
	}
	return running, nil
}
