package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// The want of each case is what differs from the pod without a template.
func TestATemplateIsMergedByNames(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want func(p *corev1.PodTemplateSpec)
	}{
		"nothing": {`template: {}`, func(*corev1.PodTemplateSpec) {}},
		"no containers": {
			`template: {spec: {nodeSelector: {disk: ssd}, tolerations: [{key: gpu, operator: Exists}], priorityClassName: low}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
				p.Spec.PriorityClassName = "low"
			},
		},
		"the user of the pod": {
			`template: {spec: {securityContext: {runAsUser: 2000, supplementalGroups: [7]}}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.SecurityContext.RunAsUser = new(int64(2000))
				p.Spec.SecurityContext.SupplementalGroups = []int64{7}
			},
		},
		"labels and annotations": {
			`template: {metadata: {labels: {team: a, bongsu: b, app.kubernetes.io/name: jupyter}, annotations: {note: hello, ` + localcluster.Simulate + `: none}}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Labels["team"], p.Labels["bongsu"] = "a", "b"
				p.Annotations = map[string]string{"note": "hello", localcluster.Simulate: localcluster.SimulateNone}
			},
		},
		"the environment of the notebook": {
			`template: {spec: {containers: [{name: notebook, env: [{name: A, value: b}], envFrom: [{secretRef: {name: s}}]}]}}`,
			func(p *corev1.PodTemplateSpec) {
				c := &p.Spec.Containers[0]
				c.Env = append(c.Env, corev1.EnvVar{Name: "A", Value: "b"})
				c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
			},
		},
		"the command of the notebook": {
			`template: {spec: {containers: [{name: notebook, command: [a], args: [b, c]}]}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = []string{"a"}, []string{"b", "c"}
			},
		},
		"ports of one number": {
			`template: {spec: {containers: [{name: notebook, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}, {containerPort: 8888, name: web}]}]}}`,
			func(p *corev1.PodTemplateSpec) {
				c := &p.Spec.Containers[0]
				c.Ports[0] = corev1.ContainerPort{Name: "web", ContainerPort: 8888}
				c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 53}, corev1.ContainerPort{ContainerPort: 53, Protocol: corev1.ProtocolUDP})
			},
		},
		"another volume, beside the home": {
			`template: {spec: {volumes: [{name: data, emptyDir: {}}], containers: [{name: notebook, volumeMounts: [{name: data, mountPath: /data}]}]}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
				c := &p.Spec.Containers[0]
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data"})
			},
		},
		"a longer wait for the start": {
			`template: {spec: {containers: [{name: notebook, startupProbe: {failureThreshold: 1000}}]}}`,
			func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].StartupProbe.FailureThreshold = 1000 },
		},
		"another probe": {
			`template: {spec: {containers: [{name: notebook, readinessProbe: {tcpSocket: {port: 8888}}, livenessProbe: {exec: {command: [a]}}}]}}`,
			func(p *corev1.PodTemplateSpec) {
				c := &p.Spec.Containers[0]
				c.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: c.ReadinessProbe.HTTPGet.Port}}
				c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}}}
			},
		},
		"a sidecar and an init container": {
			`template: {spec: {containers: [{name: proxy, image: p}], initContainers: [{name: clone, image: git, securityContext: {readOnlyRootFilesystem: true}}]}}`,
			func(p *corev1.PodTemplateSpec) {
				security := p.Spec.Containers[0].SecurityContext
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "p", SecurityContext: security})
				p.Spec.InitContainers = []corev1.Container{{Name: "clone", Image: "git", SecurityContext: security.DeepCopy()}}
				p.Spec.InitContainers[0].SecurityContext.ReadOnlyRootFilesystem = new(true)
			},
		},
		"the notebook stays first": {
			`template: {spec: {containers: [{name: proxy, image: p}, {name: notebook, workingDir: /w}]}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].WorkingDir = "/w"
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "p", SecurityContext: p.Spec.Containers[0].SecurityContext})
			},
		},
		"the image of the template": {
			`template: {spec: {containers: [{name: notebook, image: theirs}]}}`,
			func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "theirs" },
		},
		"the image of the spec, which wins": {
			"image: ours\ntemplate: {spec: {containers: [{name: notebook, image: theirs}]}}",
			func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "ours" },
		},
		"resources of both: the spec wins": {
			"resources: {limits: {cpu: 2}, requests: {cpu: 1}, claims: [{name: gpu}]}\n" +
				"template: {spec: {containers: [{name: notebook, resources: {limits: {cpu: 1, nvidia.com/gpu: 1}, claims: [{name: old}]}}]}}",
			func(p *corev1.PodTemplateSpec) {
				mustParse(`{limits: {cpu: 2, nvidia.com/gpu: 1}, requests: {cpu: 1}, claims: [{name: gpu}]}`, &p.Spec.Containers[0].Resources)
			},
		},
		"a home of the user's own, where no storage is": {
			`template: {spec: {volumes: [{name: mine, ephemeral: {}}], containers: [{name: notebook, volumeMounts: [{name: mine, mountPath: /home/jovyan}]}]}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "mine", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
				p.Spec.Containers[0].VolumeMounts[0].Name = "mine"
			},
		},
		"fields that restricted allows": {
			`template: {spec: {securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}], seccompProfile: {type: Localhost, localhostProfile: a}},
			 containers: [{name: notebook, securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}}]}}`,
			func(p *corev1.PodTemplateSpec) {
				p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}
				p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a")}
				p.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := pod(t, `{}`)
			tc.want(&want)
			if got := pod(t, tc.spec); !equality.Semantic.DeepEqual(got, want) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}

func mustParse(text string, into any) {
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		panic(err)
	}
}
