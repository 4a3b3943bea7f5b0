package workload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

func TestAnHTTPServerIsProbedAtItsPortAndPathAndGetsNoToken(t *testing.T) {
	const spec = `{access: {path: /team/lab}, server: {type: HTTP, port: 8080, readinessPath: /healthz, command: [code-server], args: [--auth=password]}}`
	got := pod(t, spec).Spec.Containers[0]
	equal(t, got.Ports, []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}})
	equal(t, len(got.Env), 0)
	equal(t, got.Command, []string{"code-server"})
	equal(t, got.Args, []string{"--auth=password"})
	for _, probe := range []*corev1.Probe{got.StartupProbe, got.ReadinessProbe} {
		equal(t, probe.HTTPGet.Path, "/healthz")
		equal(t, probe.HTTPGet.Port, intstr.FromInt32(8080))
	}
	equal(t, workload.NotebookService(jupyter(t, spec)).Spec.Ports[0].TargetPort, intstr.FromInt32(8080))
	equal(t, workload.NotebookURL(jupyter(t, spec)), "http://lab.team.svc/team/lab/")
	equal(t, pod(t, `server: {type: HTTP, port: 80}`).Spec.Containers[0].ReadinessProbe.HTTPGet.Path, "/")
}

func TestTheCommandOfTheSpecWinsOverTheTemplate(t *testing.T) {
	const template = `template: {spec: {containers: [{name: notebook, command: [a], args: [b]}]}}`
	got := pod(t, `{server: {command: [c], args: [d]}, `+template+`}`).Spec.Containers[0]
	equal(t, got.Command, []string{"c"})
	equal(t, got.Args, []string{"d"})
	equal(t, got.Env[0].Name, "JUPYTER_TOKEN")
	got = pod(t, `{server: {}, `+template+`}`).Spec.Containers[0]
	equal(t, got.Command, []string{"a"})
	equal(t, got.Args, []string{"b"})
}

func TestTheTemplateOfAnHTTPServerMaySetTheVariablesOfJupyter(t *testing.T) {
	got := pod(t, `{access: {path: /lab}, server: {type: HTTP, port: 80}, template: {spec: {containers: [{name: notebook, env: [{name: JUPYTER_TOKEN, value: a}, {name: NOTEBOOK_ARGS, value: b}]}]}}}`)
	equal(t, got.Spec.Containers[0].Env, []corev1.EnvVar{{Name: "JUPYTER_TOKEN", Value: "a"}, {Name: "NOTEBOOK_ARGS", Value: "b"}})
}

func TestThePortOfARunningServerIsReadFromItsPod(t *testing.T) {
	for spec, want := range map[string]int32{`{}`: 8888, `server: {type: HTTP, port: 8080}`: 8080} {
		made := corev1.Pod{Spec: pod(t, spec).Spec}
		equal(t, workload.ServerPort(&made), want)
		equal(t, workload.SpecPort(jupyter(t, spec)), want)
	}
	equal(t, workload.ServerPort(&corev1.Pod{}), int32(8888))
}
