package healthcheck

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// Check is a check of one pod, as it is to be made.
type Check struct {
	Namespace, Pod string
	PodUID         types.UID
	// Timeout is the time-out of the spec.
	Timeout time.Duration
	// HTTP or Exec is what is done.
	HTTP *HTTP
	Exec *Exec
}

// HTTP asks a pod.
type HTTP struct {
	// IP is the pod's address. It is not used through the API server.
	IP        string
	Port      int32
	Scheme    corev1.URIScheme
	Path      string
	Headers   []corev1.HTTPHeader
	Transport v1alpha1.HealthCheckTransport
}

// Exec runs a command in a container.
type Exec struct {
	Container string
	Command   []string
}

// For returns the check of a pod that the spec of its app asks for. An error is for
// its owner to put right.
func For(spec *v1alpha1.HealthCheck, pod *corev1.Pod) (Check, error) {
	c := Check{
		Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID,
		Timeout: time.Duration(max(1, spec.TimeoutSeconds)) * time.Second,
	}
	if spec.Exec != nil {
		c.Exec = &Exec{Container: spec.Exec.Container, Command: spec.Exec.Command}
		return c, nil
	}
	if spec.HTTPGet == nil {
		return c, errors.New("the health check has neither exec nor httpGet")
	}
	port, err := Port(spec.HTTPGet.Port, appContainer(pod))
	if err != nil {
		return c, err
	}
	c.HTTP = &HTTP{
		IP: pod.Status.PodIP, Port: port,
		Scheme: spec.HTTPGet.Scheme, Path: spec.HTTPGet.Path, Headers: spec.HTTPGet.HTTPHeaders,
		Transport: spec.Transport,
	}
	return c, nil
}

// Limit is how long a run of the check may take, all in all. To start a command and to
// see its end take longer than its time-out.
func (c Check) Limit() time.Duration {
	if c.Exec != nil {
		return c.Timeout + podexec.Margin
	}
	return c.Timeout
}

// Port returns the number of a port of a container, which is nil if there is none.
func Port(port intstr.IntOrString, container *corev1.Container) (int32, error) {
	if port.Type == intstr.Int {
		if port.IntVal < 1 || port.IntVal > 65535 {
			return 0, fmt.Errorf("%d is not the number of a port", port.IntVal)
		}
		return port.IntVal, nil
	}
	if container != nil {
		for i := range container.Ports {
			if p := &container.Ports[i]; p.Name == port.StrVal {
				return p.ContainerPort, nil
			}
		}
	}
	return 0, fmt.Errorf("container %s has no port of the name %q", v1alpha1.AppContainer, port.StrVal)
}

func appContainer(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == v1alpha1.AppContainer {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}
