package probe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
)

// Spec is how the pods of an owner are checked. Its Probe means the same as in a pod, with
// the same defaults. These fields are used: exec, httpGet without host, initialDelaySeconds,
// periodSeconds, timeoutSeconds, failureThreshold, and successThreshold. A probe needs exec
// or httpGet. The timeout of a command is rounded up to whole seconds.
type Spec struct {
	corev1.Probe
	// Container is the container in which a command runs, and whose ports can be used by
	// their names. Empty means the first container of the pod. A pod is checked while this
	// container is running.
	Container string
	// Transport is the path of HTTP requests. The default is PodIP. With APIServer, an
	// operator outside of the pod network reaches the pods too.
	Transport healthcheck.Transport
}

// Thresholds returns how many checks in a row change the health of a pod.
func (s *Spec) Thresholds() Thresholds {
	return Thresholds{Failure: positive(s.FailureThreshold, 3), Success: positive(s.SuccessThreshold, 1)}
}

// Check returns the check of a pod. An error is a mistake in the spec, or a port that this pod
// does not have.
func (s *Spec) Check(pod *corev1.Pod) (healthcheck.Check, error) {
	container := s.container(pod)
	c := healthcheck.Check{Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Timeout: seconds(positive(s.TimeoutSeconds, 1))}
	switch {
	case s.Exec != nil:
		c.Exec = &healthcheck.Exec{Container: container, Command: s.Exec.Command}
		return c, nil
	case s.HTTPGet == nil:
		return c, errors.New("the health check has neither exec nor httpGet")
	}
	port, err := portOf(pod, container, s.HTTPGet.Port)
	if err != nil {
		return c, err
	}
	c.HTTP = &healthcheck.HTTP{
		IP: pod.Status.PodIP, Node: pod.Spec.NodeName, Port: port,
		Scheme: s.HTTPGet.Scheme, Path: s.HTTPGet.Path, Headers: s.HTTPGet.HTTPHeaders,
		Transport: s.Transport,
	}
	return c, nil
}

func (s *Spec) period() time.Duration { return seconds(positive(s.PeriodSeconds, 10)) }

// container returns the name of the container of a pod; empty if the pod has none.
func (s *Spec) container(pod *corev1.Pod) string {
	if s.Container == "" && len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0].Name
	}
	return s.Container
}

// startOf returns when the container started; false if the pod cannot be checked now.
func (s *Spec) startOf(pod *corev1.Pod) (time.Time, bool) {
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" && s.Exec == nil {
		return time.Time{}, false
	}
	container := s.container(pod)
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == container && status.State.Running != nil {
			return status.State.Running.StartedAt.Time, true
		}
	}
	return time.Time{}, false
}

// Package localcluster sets these on pods. An import would link it into operators.
const (
	simulateAnnotation = "bongsu-local/simulate" // localcluster.Simulate
	simulatedID        = "simulated://"          // begins the IDs of containers
)

// isSimulated reports whether package localcluster simulates a pod, or leaves its status to a user.
func isSimulated(pod *corev1.Pod) bool {
	if _, ok := pod.Annotations[simulateAnnotation]; ok {
		return true
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return strings.HasPrefix(s.ContainerID, simulatedID)
	})
}

// portOf returns the number of a port of a container.
func portOf(pod *corev1.Pod, container string, port intstr.IntOrString) (int32, error) {
	if port.Type == intstr.Int {
		if port.IntVal < 1 || port.IntVal > 65535 {
			return 0, fmt.Errorf("%d is not the number of a port", port.IntVal)
		}
		return port.IntVal, nil
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name != container {
			continue
		}
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == port.StrVal {
				return p.ContainerPort, nil
			}
		}
	}
	return 0, fmt.Errorf("container %s has no port of the name %q", container, port.StrVal)
}

// positive returns a number, or its default if it is not positive.
func positive(n, byDefault int32) int32 { return cmp.Or(max(0, n), byDefault) }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
