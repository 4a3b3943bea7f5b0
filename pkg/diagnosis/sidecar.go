package diagnosis

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A container that serves another one does not end by itself. Injected proxies are known by their
// names. Others can have work of their own, which takes longer.
const (
	proxyEndsAfter = 5 * time.Minute
	otherEndsAfter = 30 * time.Minute
)

// proxies are the names of containers that admission webhooks add, and how the main container can stop
// them. See istio.io/docs, linkerd.io/docs, docs.dapr.io, kuma.io/docs, and developer.hashicorp.com.
var proxies = map[string]string{
	"istio-proxy":       "POST /quitquitquit to port 15020",
	"linkerd-proxy":     "POST /shutdown to port 4191, or run linkerd-await --shutdown",
	"daprd":             "POST /v1.0/shutdown to port 3500",
	"kuma-sidecar":      "POST /quitquitquit to port 9901",
	"consul-dataplane":  "POST /graceful_shutdown to port 20600",
	"cloud-sql-proxy":   "POST /quitquitquit to port 9091, with the option --quitquitquit",
	"cloudsql-proxy":    "",
	"vault-agent":       "",
	"aws-appmesh-envoy": "",
	"envoy":             "POST /quitquitquit to the port of its admin interface",
}

// stillRunning returns why a pod does not complete although a main container has succeeded: another
// container runs on. Sidecars of Kubernetes end with the others, so they are not the cause.
func (s *podView) stillRunning() []finding {
	if s.Now.IsZero() || s.pod.Status.Phase != corev1.PodRunning || s.pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return nil
	}
	ended, running, last := s.halfEnded()
	if len(ended) == 0 || len(running) == 0 || last.IsZero() {
		return nil
	}
	patience, injected, stop := proxyEndsAfter, false, ""
	for _, c := range running {
		how, known := proxies[c.name]
		if !known {
			patience = otherEndsAfter
		}
		injected, stop = injected || known, how
	}
	if s.Now.Before(last.Add(patience)) {
		return nil
	}
	cause := s.cause(ReasonContainerStillRunning, explanation{
		message: fmt.Sprintf("%s has ended with exit code 0, but %s runs on, so that the pod does not complete", containerNames(ended), containerNames(running)),
		advice:  fmt.Sprintf("run %s as a sidecar (an init container with restartPolicy: Always), or stop it at the end of %s", containerNames(running), containerNames(ended)),
	})
	if stop != "" {
		cause.Advice += " (" + stop + ")"
	}
	if injected {
		cause.Advice += ", or exclude the pod from the injection"
	}
	cause.Container, cause.Time = running[0].name, last
	return []finding{{cause: cause}}
}

// halfEnded returns the main containers that have succeeded, those that run, and when the last one ended. It
// returns none if another one has failed or waits.
func (s *podView) halfEnded() (ended, running []*container, last time.Time) {
	for _, c := range s.containers() {
		switch t := c.status.State.Terminated; {
		case c.init:
		case t != nil && t.ExitCode == 0:
			ended = append(ended, c)
			if t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		case c.status.State.Running != nil:
			running = append(running, c)
		default:
			return nil, nil, time.Time{}
		}
	}
	return ended, running, last
}

// containerNames names containers.
func containerNames(containers []*container) string {
	var names []string
	for _, c := range containers {
		names = append(names, quote(c.name))
	}
	if len(names) == 1 {
		return "container " + names[0]
	}
	return "containers " + strings.Join(names, ", ")
}
