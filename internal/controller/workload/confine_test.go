package workload_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const standard = `the Pod Security Standard "restricted" forbids `

// refusals are what a notebook's pod is refused for.
func refusals(t testing.TB, spec string) []string {
	t.Helper()
	_, errs := workload.NotebookPod(jupyter(t, spec), defaultImage)
	return texts(errs)
}

func texts(errs field.ErrorList) []string {
	list := make([]string, len(errs))
	for i, err := range errs {
		list[i] = err.Error()
	}
	return list
}

// ofContainers are the fields of a container that "restricted" speaks of, in the
// container c.
var ofContainers = map[string]struct{ container, want string }{
	"privilege escalation": {
		`securityContext: {allowPrivilegeEscalation: true}`,
		`securityContext.allowPrivilegeEscalation: Forbidden: ` + standard + `allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false): set it to false, or leave it out`,
	},
	"AppArmor": {
		`securityContext: {appArmorProfile: {type: Unconfined}}`,
		`securityContext.appArmorProfile.type: Forbidden: ` + standard + `forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined"): set it to RuntimeDefault or Localhost, or leave it out`,
	},
	"added capability": {
		`securityContext: {capabilities: {add: [NET_BIND_SERVICE, SYS_ADMIN]}}`,
		`securityContext.capabilities.add: Forbidden: ` + standard + `unrestricted capabilities (container "c" must not include "SYS_ADMIN" in securityContext.capabilities.add): add none but NET_BIND_SERVICE`,
	},
	"kept capabilities": {
		`securityContext: {capabilities: {drop: [NET_RAW]}}`,
		`securityContext.capabilities.drop: Forbidden: ` + standard + `unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]): drop ALL, or leave it out`,
	},
	"privileged": {
		`securityContext: {privileged: true}`,
		`securityContext.privileged: Forbidden: ` + standard + `privileged (container "c" must not set securityContext.privileged=true): leave it out`,
	},
	"procMount": {
		`securityContext: {procMount: Unmasked}`,
		`securityContext.procMount: Forbidden: ` + standard + `procMount (container "c" must not set securityContext.procMount to "Unmasked"): leave it out`,
	},
	"root by permission": {
		`securityContext: {runAsNonRoot: false}`,
		`securityContext.runAsNonRoot: Forbidden: ` + standard + `runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false): set it to true, or leave it out`,
	},
	"root": {
		`securityContext: {runAsUser: 0}`,
		`securityContext.runAsUser: Forbidden: ` + standard + `runAsUser=0 (container "c" must not set runAsUser=0): set it to another user than 0, or leave it out`,
	},
	"type of SELinux": {
		`securityContext: {seLinuxOptions: {type: spc_t}}`,
		`securityContext.seLinuxOptions: Forbidden: ` + standard + `seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"): leave out user and role, and set type to container_t or leave it out`,
	},
	"user and role of SELinux": {
		`securityContext: {seLinuxOptions: {user: u, role: r}}`,
		`securityContext.seLinuxOptions: Forbidden: ` + standard + `seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: user may not be set; role may not be set): leave out user and role, and set type to container_t or leave it out`,
	},
	"seccomp": {
		`securityContext: {seccompProfile: {type: Unconfined}}`,
		`securityContext.seccompProfile.type: Forbidden: ` + standard + `seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined"): set it to RuntimeDefault or Localhost, or leave it out`,
	},
	"host process of Windows": {
		`securityContext: {windowsOptions: {hostProcess: true}}`,
		`securityContext.windowsOptions.hostProcess: Forbidden: ` + standard + `hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true): leave it out`,
	},
	"port of the host": {
		`ports: [{containerPort: 80}, {containerPort: 81, hostPort: 8081}]`,
		`ports[1].hostPort: Forbidden: ` + standard + `hostPort (container "c" uses hostPort 8081): leave it out: a Service reaches the pod`,
	},
	"port of the notebook at the host": {
		`ports: [{containerPort: 8888, hostPort: 80}]`,
		`ports[0].hostPort: Forbidden: ` + standard + `hostPort (container "c" uses hostPort 80): leave it out: a Service reaches the pod`,
	},
	"liveness of another host": {
		`livenessProbe: {httpGet: {port: 80, host: 10.0.0.1}}`,
		`livenessProbe: Forbidden: ` + standard + `probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1"): leave out host: it is the pod's own then`,
	},
	"readiness of another host": {
		`readinessProbe: {tcpSocket: {port: 80, host: db}}`,
		`readinessProbe: Forbidden: ` + standard + `probe or lifecycle host (container "c" uses probe or lifecycle host "db"): leave out host: it is the pod's own then`,
	},
	"start of another host": {
		`startupProbe: {httpGet: {port: 80, host: db}}`,
		`startupProbe: Forbidden: ` + standard + `probe or lifecycle host (container "c" uses probe or lifecycle host "db"): leave out host: it is the pod's own then`,
	},
	"greeting to another host": {
		`lifecycle: {postStart: {httpGet: {port: 80, host: db}}}`,
		`lifecycle.postStart: Forbidden: ` + standard + `probe or lifecycle host (container "c" uses probe or lifecycle host "db"): leave out host: it is the pod's own then`,
	},
	"farewell to another host": {
		`lifecycle: {preStop: {tcpSocket: {port: 80, host: db}}}`,
		`lifecycle.preStop: Forbidden: ` + standard + `probe or lifecycle host (container "c" uses probe or lifecycle host "db"): leave out host: it is the pod's own then`,
	},
}

func TestEachFieldOfAContainerThatRestrictedForbidsIsRefusedAndNamed(t *testing.T) {
	for where, kind := range map[string]struct{ name, before, after, at string }{
		"the notebook":       {"notebook", "containers: [{name: other}, {name: notebook, ", "}]", "containers[1]"},
		"a sidecar":          {"c", "containers: [{name: notebook}, {name: c, ", "}]", "containers[1]"},
		"an init container":  {"c", "initContainers: [{name: other}, {name: c, ", "}]", "initContainers[1]"},
		"a sidecar of today": {"c", "initContainers: [{name: c, restartPolicy: Always, ", "}]", "initContainers[0]"},
	} {
		for name, tc := range ofContainers {
			t.Run(where+"/"+name, func(t *testing.T) {
				want := "spec.template.spec." + kind.at + "." + strings.ReplaceAll(tc.want, `container "c"`, `container "`+kind.name+`"`)
				equal(t, refusals(t, "template: {spec: {"+kind.before+tc.container+kind.after+"}}"), []string{want})
			})
		}
	}
}

func TestEachFieldOfAPodThatRestrictedForbidsIsRefusedAndNamed(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"hostNetwork": {`hostNetwork: true`, `hostNetwork: Forbidden: ` + standard + `host namespaces (hostNetwork=true): leave it out`},
		"hostPID":     {`hostPID: true`, `hostPID: Forbidden: ` + standard + `host namespaces (hostPID=true): leave it out`},
		"hostIPC":     {`hostIPC: true`, `hostIPC: Forbidden: ` + standard + `host namespaces (hostIPC=true): leave it out`},
		"AppArmor": {
			`securityContext: {appArmorProfile: {type: Unconfined}}`,
			`securityContext.appArmorProfile.type: Forbidden: ` + standard + `forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined"): set it to RuntimeDefault or Localhost, or leave it out`,
		},
		"root by permission": {
			`securityContext: {runAsNonRoot: false}`,
			`securityContext.runAsNonRoot: Forbidden: ` + standard + `runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false): set it to true, or leave it out`,
		},
		"root": {
			`securityContext: {runAsUser: 0}`,
			`securityContext.runAsUser: Forbidden: ` + standard + `runAsUser=0 (pod must not set runAsUser=0): set it to another user than 0, or leave it out`,
		},
		"root of a user namespace, which the API server may not know": {
			`{hostUsers: false, securityContext: {runAsUser: 0}}`,
			`securityContext.runAsUser: Forbidden: ` + standard + `runAsUser=0 (pod must not set runAsUser=0): set it to another user than 0, or leave it out`,
		},
		"SELinux": {
			`securityContext: {seLinuxOptions: {type: spc_t}}`,
			`securityContext.seLinuxOptions: Forbidden: ` + standard + `seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"): leave out user and role, and set type to container_t or leave it out`,
		},
		"seccomp": {
			`securityContext: {seccompProfile: {type: Unconfined}}`,
			`securityContext.seccompProfile.type: Forbidden: ` + standard + `seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined"): set it to RuntimeDefault or Localhost, or leave it out`,
		},
		"host process of Windows": {
			`securityContext: {windowsOptions: {hostProcess: true}}`,
			`securityContext.windowsOptions.hostProcess: Forbidden: ` + standard + `hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true): leave it out`,
		},
		"sysctl": {
			`securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: kernel.msgmax, value: "1"}]}`,
			`securityContext.sysctls[1]: Forbidden: ` + standard + `forbidden sysctls (kernel.msgmax): leave it out`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tc.spec
			if !strings.HasPrefix(spec, "{") {
				spec = "{" + spec + "}"
			}
			equal(t, refusals(t, "template: {spec: "+spec+"}"), []string{"spec.template.spec." + tc.want})
		})
	}
}

func TestEachTypeOfVolumeThatRestrictedForbidsIsRefusedAndNamed(t *testing.T) {
	for _, kind := range []string{
		"hostPath: {path: /}", "nfs: {server: a, path: /}", "iscsi: {targetPortal: a, iqn: b, lun: 0}", "gitRepo: {repository: a}",
		"rbd: {monitors: [a], image: b}", "cephfs: {monitors: [a]}", "fc: {}", "flexVolume: {driver: a}", "glusterfs: {endpoints: a, path: b}",
		"awsElasticBlockStore: {volumeID: a}", "gcePersistentDisk: {pdName: a}", "azureDisk: {diskName: a, diskURI: b}",
		"azureFile: {secretName: a, shareName: b}", "cinder: {volumeID: a}", "flocker: {}", "photonPersistentDisk: {pdID: a}",
		"portworxVolume: {volumeID: a}", "quobyte: {registry: a, volume: b}", "scaleIO: {gateway: a, system: b, secretRef: {}}",
		"storageos: {}", "vsphereVolume: {volumePath: a}",
	} {
		name, _, _ := strings.Cut(kind, ":")
		t.Run(name, func(t *testing.T) {
			equal(t, refusals(t, "template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: v, "+kind+"}]}}"), []string{
				"spec.template.spec.volumes[1]: Forbidden: " + standard + `restricted volume types (volume "v" uses restricted volume type "` + name +
					`"): use one of the types configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected and secret`,
			})
		})
	}
	// The standard alone would be content with this one.
	equal(t, refusals(t, "template: {spec: {volumes: [{name: v, emptyDir: {}, hostPath: {path: /}}]}}"), []string{
		"spec.template.spec.volumes[0]: Forbidden: a volume has one type: leave the others out",
	})
}

func TestVolumesOfOtherTypesAreAccepted(t *testing.T) {
	for _, kind := range []string{
		"configMap: {name: a}", "csi: {driver: a}", "downwardAPI: {}", "emptyDir: {}", "ephemeral: {}", "image: {reference: a}",
		"persistentVolumeClaim: {claimName: a}", "secret: {secretName: a}",
		"projected: {sources: [{secret: {name: a}}, {configMap: {name: a}}, {downwardAPI: {}}]}",
	} {
		if got := refusals(t, "template: {spec: {volumes: [{name: v, "+kind+"}]}}"); len(got) > 0 {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

func TestSeveralFieldsAreAllNamed(t *testing.T) {
	got := refusals(t, `
template:
  metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/notebook: unconfined}}
  spec:
    hostNetwork: true
    hostPID: true
    volumes: [{name: a, hostPath: {path: /}}, {name: b, hostPath: {path: /}}]
    containers:
    - {name: proxy, ports: [{containerPort: 1, hostPort: 1}, {containerPort: 2, hostPort: 2}]}
    - {name: notebook, ports: [{containerPort: 3, hostPort: 3}], securityContext: {privileged: true, runAsUser: 0}}
`)
	var fields []string
	for _, text := range got {
		name, _, _ := strings.Cut(text, ": Forbidden: ")
		fields = append(fields, strings.TrimPrefix(name, "spec.template."))
	}
	equal(t, fields, []string{
		"metadata.annotations[container.apparmor.security.beta.kubernetes.io/notebook]",
		"spec.hostNetwork", "spec.hostPID", "spec.volumes[0]", "spec.volumes[1]",
		"spec.containers[1].securityContext.privileged", "spec.containers[1].securityContext.runAsUser", "spec.containers[1].ports[0].hostPort",
		"spec.containers[0].ports[0].hostPort", "spec.containers[0].ports[1].hostPort",
	})
}

func TestFieldsThatATemplateMayNotSet(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"memory in thousandths of a byte": {
			`resources: {limits: {cpu: 64m, memory: 64m}, requests: {memory: 0}}`,
			[]string{`spec.resources.limits[memory]: Invalid value: "64m": it is less than 1Mi: use a unit such as Mi or Gi, for example 512Mi`},
		},
		"bytes of storage": {
			`template: {spec: {initContainers: [{name: a, image: a, resources: {requests: {memory: 1Mi, ephemeral-storage: 10}}}]}}`,
			[]string{`spec.template.spec.initContainers[0].resources.requests[ephemeral-storage]: Invalid value: "10": it is less than 1Mi: use a unit such as Mi or Gi, for example 512Mi`},
		},
		"memory of a pod in kilobytes": {
			`template: {spec: {resources: {requests: {memory: 512k}}}}`,
			[]string{`spec.template.spec.resources.requests[memory]: Invalid value: "512k": it is less than 1Mi: use a unit such as Mi or Gi, for example 512Mi`},
		},
		"the size of an emptyDir in bytes": {
			`template: {spec: {volumes: [{name: a, emptyDir: {sizeLimit: 1Mi}}, {name: b, emptyDir: {sizeLimit: 64}}, {name: c, emptyDir: {}}]}}`,
			[]string{`spec.template.spec.volumes[1].emptyDir.sizeLimit: Invalid value: "64": it is less than 1Mi: use a unit such as Mi or Gi, for example 512Mi`},
		},
		"the size of an ephemeral volume in bytes": {
			`template: {spec: {volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10}}}}}}]}}`,
			[]string{`spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: Invalid value: "10": it is less than 1Mi: use a unit such as Mi or Gi, for example 512Mi`},
		},
		"a node": {
			`template: {spec: {nodeName: node-1}}`,
			[]string{`spec.template.spec.nodeName: Forbidden: the scheduler chooses the node: use nodeSelector or affinity`},
		},
		"a service account": {
			`template: {spec: {serviceAccountName: admin}}`,
			[]string{`spec.template.spec.serviceAccountName: Forbidden: use the object's own spec.serviceAccountName`},
		},
		"the default service account": {
			`template: {spec: {serviceAccountName: default}}`,
			[]string{`spec.template.spec.serviceAccountName: Forbidden: use the object's own spec.serviceAccountName`},
		},
		"a service account by its old name": {
			`template: {spec: {serviceAccount: admin}}`,
			[]string{`spec.template.spec.serviceAccount: Forbidden: use the object's own spec.serviceAccountName`},
		},
		"its token": {
			`template: {spec: {automountServiceAccountToken: true}}`,
			[]string{`spec.template.spec.automountServiceAccountToken: Forbidden: a token is mounted if the object's own spec.serviceAccountName names another account than default: leave it out`},
		},
		"its token, projected": {
			`template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: t, projected: {sources: [{secret: {name: a}}, {serviceAccountToken: {path: token}}]}}]}}`,
			[]string{`spec.template.spec.volumes[1].projected.sources[1].serviceAccountToken: Forbidden: use the object's own spec.serviceAccountName: the account's token is then mounted`},
		},
		"its certificate, projected": {
			`template: {spec: {volumes: [{name: t, projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519}}]}}]}}`,
			[]string{`spec.template.spec.volumes[0].projected.sources[0].podCertificate: Forbidden: it would identify the pod as its service account: leave it out`},
		},
		"an end": {
			`template: {spec: {restartPolicy: Never, activeDeadlineSeconds: 5}}`,
			[]string{
				`spec.template.spec.restartPolicy: Forbidden: only Always is possible: leave it out`,
				`spec.template.spec.activeDeadlineSeconds: Forbidden: the pod has no deadline: leave it out`,
			},
		},
		"another name": {
			`template: {metadata: {name: a, generateName: b, namespace: c}, spec: {hostname: d, subdomain: e}}`,
			[]string{
				`spec.template.metadata.name: Forbidden: it is named after its owner: leave it out`,
				`spec.template.metadata.generateName: Forbidden: it is named after its owner: leave it out`,
				`spec.template.metadata.namespace: Forbidden: it is in its owner's namespace: leave it out`,
				`spec.template.spec.hostname: Forbidden: it is set to the pod's name: leave it out`,
				`spec.template.spec.subdomain: Forbidden: it is set to the Service's name: leave it out`,
			},
		},
		"another owner": {
			`template: {metadata: {finalizers: [a/b], ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}}`,
			[]string{
				`spec.template.metadata.finalizers: Forbidden: they would keep it from being replaced: leave them out`,
				`spec.template.metadata.ownerReferences: Forbidden: it has an owner: leave them out`,
			},
		},
		"our labels": {
			`template: {metadata: {labels: {bongsu.io/jupyter: other, bongsu.io/new: a, x.bongsu.io/y: b, app.kubernetes.io/managed-by: me, app.kubernetes.io/name: jupyter}}}`,
			[]string{
				`spec.template.metadata.labels[app.kubernetes.io/managed-by]: Forbidden: it is set to "bongsu": use another label`,
				`spec.template.metadata.labels[bongsu.io/jupyter]: Forbidden: labels of bongsu.io/ are the operator's: use another prefix`,
				`spec.template.metadata.labels[bongsu.io/new]: Forbidden: labels of bongsu.io/ are the operator's: use another prefix`,
				`spec.template.metadata.labels[x.bongsu.io/y]: Forbidden: labels of bongsu.io/ are the operator's: use another prefix`,
			},
		},
		"our annotations": {
			`template: {metadata: {annotations: {bongsu.io/owner-uid: a, bongsu.io/simulate: crash, bongsu.io.example.org/b: c}}}`,
			[]string{
				`spec.template.metadata.annotations[bongsu.io/owner-uid]: Forbidden: annotations of bongsu.io/ are the operator's: use another prefix`,
				`spec.template.metadata.annotations[bongsu.io/simulate]: Forbidden: annotations of bongsu.io/ are the operator's: use another prefix`,
			},
		},
		"directives of a merge": {
			`template: {metadata: {labels: {$patch: replace}}, spec: {nodeSelector: {$patch: delete}, containers: [{name: notebook, resources: {limits: {$patch: 1}}}]}}`,
			[]string{
				`spec.template.metadata.labels[$patch]: Forbidden: a key must not begin with $: give it another name`,
				`spec.template.spec.containers[0].resources.limits[$patch]: Forbidden: a key must not begin with $: give it another name`,
				`spec.template.spec.nodeSelector[$patch]: Forbidden: a key must not begin with $: give it another name`,
			},
		},
		"Windows": {
			`template: {spec: {os: {name: windows}}}`,
			[]string{`spec.template.spec.os: Forbidden: only linux is possible: leave it out`},
		},
		"ephemeral containers": {
			`template: {spec: {ephemeralContainers: [{name: debug}]}}`,
			[]string{`spec.template.spec.ephemeralContainers: Forbidden: a template cannot have them: use kubectl debug`},
		},
		"a token": {
			`template: {spec: {containers: [{name: notebook, env: [{name: A}, {name: JUPYTER_TOKEN, value: ""}]}]}}`,
			[]string{`spec.template.spec.containers[0].env[1]: Forbidden: the token comes from a Secret: name it in spec.auth.tokenSecretRef`},
		},
		"a token from elsewhere": {
			`template: {spec: {containers: [{name: notebook, env: [{name: JUPYTER_TOKEN, valueFrom: {configMapKeyRef: {name: a, key: b}}}]}]}}`,
			[]string{`spec.template.spec.containers[0].env[0]: Forbidden: the token comes from a Secret: name it in spec.auth.tokenSecretRef`},
		},
		"arguments beside a path": {
			`{access: {path: /lab}, template: {spec: {containers: [{name: notebook, env: [{name: NOTEBOOK_ARGS, value: --debug}]}]}}}`,
			[]string{`spec.template.spec.containers[0].env[0]: Forbidden: spec.access.path sets this variable: give the server other arguments in args, such as [start-notebook.py, --debug]`},
		},
		"the volume of the home": {
			`template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: home, emptyDir: {}}]}}`,
			[]string{`spec.template.spec.volumes[1].name: Forbidden: "home" is the volume of the notebook's files, which spec.storage describes: use another name`},
		},
		"another volume in the place of the storage": {
			"storage: {size: 1Gi, mountPath: /files}\n" +
				`template: {spec: {volumes: [{name: a, emptyDir: {}}], containers: [{name: notebook, volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /files/}]}]}}`,
			[]string{`spec.template.spec.containers[0].volumeMounts[1].mountPath: Forbidden: the notebook's files are there: mount at another path, or change spec.storage.mountPath`},
		},
		"two containers of one name": {
			`template: {spec: {containers: [{name: a}, {name: a}]}}`,
			[]string{`spec.template.spec.containers: Duplicate value: "a"`},
		},
		"an init container called notebook": {
			`template: {spec: {initContainers: [{name: notebook}]}}`,
			[]string{`spec.template.spec.initContainers[0].name: Forbidden: the notebook container has this name: use another`},
		},
		"a misspelt container": {
			`template: {spec: {containers: [{name: side}, {name: notebookk}, {name: notebooks, image: side}]}}`,
			[]string{`spec.template.spec.containers[1].image: Required value: container "notebookk" has none: did you mean "notebook"?`},
		},
		"a container without a name": {
			`template: {spec: {initContainers: [{name: ""}]}}`,
			[]string{`spec.template.spec.initContainers[0].name: Required value: name the container`},
		},
		"things used twice": {
			`template: {spec: {volumes: [{name: a}, {name: a}], imagePullSecrets: [{name: b}, {name: b}],
			containers: [{name: c, env: [{name: d}, {name: d}], volumeMounts: [{name: a, mountPath: /e}, {name: a, mountPath: /e}], ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}, {containerPort: 1, protocol: TCP}]}]}}`,
			[]string{
				`spec.template.spec.volumes[1].name: Duplicate value: "a"`,
				`spec.template.spec.imagePullSecrets[1].name: Duplicate value: "b"`,
				`spec.template.spec.containers[0].env[1].name: Duplicate value: "d"`,
				`spec.template.spec.containers[0].volumeMounts[1].mountPath: Duplicate value: "/e"`,
				`spec.template.spec.containers[0].ports[2].containerPort: Duplicate value: "1/TCP"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, refusals(t, tc.spec), tc.want)
		})
	}
}

// The message would take minutes if its time grew with the square of the problems.
func TestAMessageNamesTwentyOfManyProblems(t *testing.T) {
	a := &v1alpha1.AppService{Spec: v1alpha1.AppServiceSpec{Template: &corev1.PodTemplateSpec{}}}
	for i := range 50 {
		container := corev1.Container{Name: fmt.Sprintf("c%d", i)}
		for port := range int32(20) {
			container.Ports = append(container.Ports, corev1.ContainerPort{ContainerPort: port + 1, HostPort: port + 1})
		}
		a.Spec.Template.Spec.Containers = append(a.Spec.Template.Spec.Containers, container)
	}
	_, refused := workload.AppPod(a, "image")
	if len(refused) < 1000 {
		t.Fatalf("%d problems, want one for each port", len(refused))
	}
	app := diagnosis.Object{Kind: "AppService", Name: "web"}
	many, one := workload.Refusal(app, refused), workload.Refusal(app, refused[:1])
	text := many.Lines()
	if named := strings.Count(text, "\n- spec.template."); named != 20 || !strings.HasSuffix(text, fmt.Sprintf("\n- and %d more\ncorrect them; what runs stays as it is", len(refused)-20)) {
		t.Errorf("%d fields are named: %s", named, text)
	}
	if want := fmt.Sprintf("%d fields are refused:\n", len(refused)); !strings.HasPrefix(text, want) {
		t.Errorf("got %s, want %s", text, want)
	}
	if want := refused[0].Error() + ": correct the field; what runs stays as it is"; one.Lines() != want || one.Sentence() != want {
		t.Errorf("one problem is %q, want %q", one.Lines(), want)
	}
}

func TestATemplateOfTooManyPartsIsRefusedForThatAlone(t *testing.T) {
	many := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"containers": {
			`initContainers: [` + many(40, `{}`) + `], containers: [` + many(25, `{}`) + `]`,
			[]string{`spec.template.spec.containers: Forbidden: a pod may have 64 containers, init containers among them, and this has 65: leave some out`},
		},
		"volumes": {
			`volumes: [` + many(257, `{}`) + `]`,
			[]string{`spec.template.spec.volumes: Forbidden: a pod may have 256 volumes, and this has 257: leave some out`},
		},
		"ports": {
			`containers: [{name: a, ports: [` + many(500, `{containerPort: 1}`) + `]}, {name: b, ports: [` + many(501, `{containerPort: 1}`) + `]}]`,
			[]string{`spec.template.spec.containers: Forbidden: the containers of a pod may have 1000 ports together, and these have 1001: leave some out`},
		},
		"variables": {
			`containers: [{name: a}, {name: b, env: [` + many(1001, `{name: a}`) + `]}]`,
			[]string{`spec.template.spec.containers[1].env: Forbidden: a list may have 1000 items, and this has 1001: leave some out`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, refusals(t, `template: {spec: {`+tc.spec+`}}`), tc.want)
		})
	}
}

func TestATemplateMayHaveAsManyPartsAsAreAllowed(t *testing.T) {
	spec := &corev1.PodSpec{}
	for i := range 64 {
		spec.Containers = append(spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "a"})
	}
	for i := range 256 {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	for i := range 1000 {
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("E", i)})
	}
	j := jupyter(t, `{}`)
	j.Spec.Template = &corev1.PodTemplateSpec{Spec: *spec}
	if _, errs := workload.NotebookPod(j, defaultImage); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
}

// An author who may create pods in the namespace may use in a template what any pod may
// have there.
const anyPod = `
template:
  spec:
    restartPolicy: Always
    os: {name: linux}
    schedulerName: mine
    priorityClassName: high
    runtimeClassName: gvisor
    terminationGracePeriodSeconds: 5
    hostUsers: false
    shareProcessNamespace: true
    imagePullSecrets: [{name: registry}]
    dnsPolicy: None
    dnsConfig: {nameservers: [10.0.0.10]}
    hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]
    affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
    topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
    containers: [{name: proxy, image: p, env: [{name: JUPYTER_TOKEN, value: mine}], volumeMounts: [{name: home, mountPath: /files}]}]
`

func TestFieldsThatATemplateMaySet(t *testing.T) {
	if got := refusals(t, anyPod); len(got) > 0 {
		t.Errorf("refused: %v", got)
	}
}

// FuzzWhatPassesIsRestricted feeds templates that a user may write: none makes it
// panic, and what is not refused breaks no rule.
func FuzzWhatPassesIsRestricted(f *testing.F) {
	for _, tc := range ofContainers {
		f.Add(asJSON(f, "template: {spec: {containers: [{name: notebook, "+tc.container+"}], initContainers: [{name: c, "+tc.container+"}]}}"))
	}
	f.Add(asJSON(f, anyPod))
	for _, template := range []string{
		`{metadata: {labels: {$patch: delete}}}`, `{spec: {nodeSelector: {$patch: replace}, serviceAccountName: a, hostUsers: false}}`,
		`{spec: {volumes: [{name: home, hostPath: {path: /}}], securityContext: {runAsNonRoot: false, seccompProfile: {localhostProfile: a}}}}`,
		`{spec: {containers: [{name: notebook, volumeMounts: [{name: home, mountPath: /home/jovyan}]}, {name: ""}], ephemeralContainers: [{}]}}`,
		`{spec: {volumes: [{name: a, emptyDir: {}, nfs: {server: a, path: /}}], hostNetwork: true, nodeName: a, os: {name: windows}}}`,
	} {
		f.Add(asJSON(f, "template: "+template))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var template corev1.PodTemplateSpec
		if json.Unmarshal(data, &template) != nil {
			return
		}
		j := jupyter(t, `storage: {size: 1Gi}`)
		j.Spec.Template = &template
		got, errs := workload.NotebookPod(j, defaultImage)
		if len(errs) > 0 {
			for _, err := range errs {
				if !strings.HasPrefix(err.Field, "spec.template") || err.Detail == "" && err.Type != field.ErrorTypeDuplicate {
					t.Errorf("an error without a field or advice: %v", err)
				}
			}
			return
		}
		mustBeConfined(t, j, &got)
		again, _ := workload.NotebookPod(j, defaultImage)
		equal(t, asJSONOf(t, again), asJSONOf(t, got))
	})
}

// mustBeConfined says over again, in other words, what a pod must be like.
func mustBeConfined(t *testing.T, j *v1alpha1.Jupyter, got *corev1.PodTemplateSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &got.ObjectMeta, &got.Spec)); !result.Allowed {
		t.Errorf("not restricted: %s", result.ForbiddenDetail())
	}
	spec := got.Spec
	first := spec.Containers[0]
	for what, ok := range map[string]bool{
		"a node is named":             spec.NodeName == "",
		"another service account":     spec.ServiceAccountName == "default" && spec.DeprecatedServiceAccount == "",
		"a token is mounted":          spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken,
		"it ends":                     spec.RestartPolicy == corev1.RestartPolicyAlways,
		"the notebook is not first":   first.Name == "notebook",
		"the token is not the first":  first.Env[0].Name == "JUPYTER_TOKEN" && first.Env[0].Value == "" && first.Env[0].ValueFrom.SecretKeyRef.Name == "lab-token",
		"the files are not in place":  first.VolumeMounts[0].Name == "home" && first.VolumeMounts[0].MountPath == "/home/jovyan" && first.VolumeMounts[0].SubPath == "",
		"the home is not the claim's": spec.Volumes[0].Name == "home" && spec.Volumes[0].PersistentVolumeClaim.ClaimName == j.Name,
		"metadata is not ours alone":  got.Name == "" && got.Namespace == "" && len(got.Finalizers) == 0 && len(got.OwnerReferences) == 0,
	} {
		if !ok {
			t.Error(what)
		}
	}
	for key, value := range labels {
		if got.Labels[key] != value {
			t.Errorf("label %s is %q", key, got.Labels[key])
		}
	}
	for _, volume := range spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil || source.PodCertificate != nil {
				t.Error("a token is projected")
			}
		}
	}
	for _, variable := range first.Env[1:] {
		if variable.Name == "JUPYTER_TOKEN" {
			t.Error("a token is given twice")
		}
	}
}

func asJSON(f *testing.F, spec string) []byte {
	f.Helper()
	return asJSONOf(f, jupyter(f, spec).Spec.Template)
}

func asJSONOf(t testing.TB, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
