package probe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

func TestTheSpecSelectsTheCheck(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-0", UID: "uid"},
		Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{
			{Name: "proxy", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 15000}}},
			{Name: "app", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090}, {Name: "http", ContainerPort: 8080}}},
		}},
		Status: corev1.PodStatus{PodIP: "192.0.2.7"},
	}
	httpGet := func(port intstr.IntOrString) probe.Spec {
		spec := probe.Spec{Container: "app", Transport: healthcheck.APIServer}
		spec.TimeoutSeconds = 3
		spec.HTTPGet = &corev1.HTTPGetAction{
			Port: port, Path: "/x", Scheme: corev1.URISchemeHTTPS, HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "b"}},
		}
		return spec
	}
	exec := func(container string) probe.Spec {
		spec := probe.Spec{Container: container}
		spec.Exec = &corev1.ExecAction{Command: []string{"true"}}
		return spec
	}
	asks := func(port int32) healthcheck.Check {
		return healthcheck.Check{Namespace: "team", Pod: "web-0", PodUID: "uid", Timeout: 3 * time.Second, HTTP: &healthcheck.HTTP{
			IP: "192.0.2.7", Node: "node-0", Port: port, Path: "/x", Scheme: corev1.URISchemeHTTPS, Headers: []corev1.HTTPHeader{{Name: "A", Value: "b"}},
			Transport: healthcheck.APIServer,
		}}
	}
	runs := func(container string) healthcheck.Check {
		return healthcheck.Check{Namespace: "team", Pod: "web-0", PodUID: "uid", Timeout: time.Second, Exec: &healthcheck.Exec{
			Container: container, Command: []string{"true"},
		}}
	}
	for what, tc := range map[string]struct {
		spec  probe.Spec
		want  healthcheck.Check
		error string
	}{
		"a port by its number": {spec: httpGet(intstr.FromInt32(81)), want: asks(81)},
		"a port by its name":   {spec: httpGet(intstr.FromString("http")), want: asks(8080)},
		"of another name":      {spec: httpGet(intstr.FromString("grpc")), error: `container app has no port of the name "grpc"`},
		"no port":              {spec: httpGet(intstr.FromInt32(0)), error: "0 is not the number of a port"},
		"a command":            {spec: exec("proxy"), want: runs("proxy")},
		"no container":         {spec: exec(""), want: runs("proxy")},
		"nothing":              {spec: probe.Spec{}, error: "the health check has neither exec nor httpGet"},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := tc.spec.Check(pod)
			if err != nil || tc.error != "" {
				if err == nil || err.Error() != tc.error {
					t.Errorf("error %v, want %s", err, tc.error)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
