package diagnosis

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Texts as Kubernetes' components write them.
const (
	textNotFound = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/jupyter:1": failed to resolve reference "docker.io/library/jupyter:1": docker.io/library/jupyter:1: not found`
	textDenied   = `rpc error: code = Unknown desc = failed to pull and unpack image "docker.io/x/jupyter:1": failed to resolve reference "docker.io/x/jupyter:1": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`
	textNoHost   = `rpc error: code = Unknown desc = failed to pull and unpack image "no.such/jupyter:1": failed to do request: Head "https://no.such/v2/jupyter/manifests/1": dial tcp: lookup no.such on 10.96.0.10:53: no such host`
	textTimeout  = `rpc error: code = DeadlineExceeded desc = failed to pull and unpack image "reg.example/jupyter:1": failed to do request: Head "https://reg.example/v2/jupyter/manifests/1": dial tcp 203.0.113.7:443: i/o timeout`

	sayNotFound = `image "jupyter:1" of container "notebook" cannot be pulled: the registry has no such image or tag: check the image name and tag`
	sayDenied   = `image "jupyter:1" of container "notebook" cannot be pulled: the registry denies access, or has no such repository: check the image name, and that imagePullSecrets names a Secret with credentials for the image`
	sayNoHost   = `image "jupyter:1" of container "notebook" cannot be pulled: the registry's host name cannot be resolved: check the host in the image name`
	sayTimeout  = `image "jupyter:1" of container "notebook" cannot be pulled: the registry cannot be reached: check the host in the image name; if it is correct, wait until the registry is available`
	sayVague    = `image "jupyter:1" of container "notebook" cannot be pulled: check the image name and the registry`

	sayCrash = `container "notebook" ended with exit code 1: check its log (kubectl logs nb-0 -c notebook --previous)`

	textQuota = `create Pod nb-0 in StatefulSet nb failed error: pods "nb-0" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`
)

var nobody = `container "notebook" `

// What is wanted of a diagnosis: reason, sentence and, where a test names it, more.
type wanted struct {
	reason, says string
	object       Object // Pod/nb-0 if empty
	container    string
	code         *int32
	transient      bool
	count        int32
	others       []string // their reasons
}

func (w wanted) check(t *testing.T, d Diagnosis) {
	t.Helper()
	if w.reason == "" {
		if d.Cause != nil {
			t.Errorf("there is a cause: %s: %s", d.Cause.Reason, d.Cause.Sentence())
		}
		return
	}
	if d.Cause == nil {
		t.Fatalf("there is no cause, want %s", w.reason)
	}
	if w.object == (Object{}) {
		w.object = Object{"Pod", "nb-0"}
	}
	got := wanted{
		reason: d.Cause.Reason, says: d.Cause.Sentence(), object: d.Cause.Object, container: d.Cause.Container,
		code: d.Cause.ExitCode, transient: d.Cause.Transient, count: d.Cause.Count,
	}
	if w.count == 0 {
		got.count = 0
	}
	for _, o := range d.Others {
		got.others = append(got.others, o.Reason)
	}
	if diff := cmp.Diff(w, got, cmp.AllowUnexported(wanted{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

type diagnoseCase struct {
	w    Workload
	want wanted
}

func run(t *testing.T, cases map[string]diagnoseCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.want.check(t, Diagnose(tc.w)) })
	}
}

func imageCause(reason, says string, transient bool) wanted {
	return wanted{reason: reason, says: says, container: "notebook", transient: transient}
}

func waits(reason, message string) []*corev1.Pod {
	return pods(newPod(status(corev1.ContainerStatus{State: waiting(reason, message)})))
}

func TestImages(t *testing.T) {
	failed := func(text string) Event {
		return podEvent(10, "notebook", "Failed", `Failed to pull image "jupyter:1": `+text)
	}
	run(t, map[string]diagnoseCase{
		"not found":                    {Workload{Pods: waits("ErrImagePull", textNotFound)}, imageCause("ErrImagePull", sayNotFound, false)},
		"denied":                       {Workload{Pods: waits("ErrImagePull", textDenied)}, imageCause("ErrImagePull", sayDenied, false)},
		"no such host":                 {Workload{Pods: waits("ErrImagePull", textNoHost)}, imageCause("ErrImagePull", sayNoHost, true)},
		"registry not reached":         {Workload{Pods: waits("ErrImagePull", textTimeout)}, imageCause("ErrImagePull", sayTimeout, true)},
		"registry said unavailable":    {Workload{Pods: waits("RegistryUnavailable", "image pull failed for jupyter:1 because the registry is unavailable: x")}, imageCause("ErrImagePull", sayTimeout, true)},
		"back-off with the last error": {Workload{Pods: waits("ImagePullBackOff", `Back-off pulling image "jupyter:1": ErrImagePull: `+textDenied)}, imageCause("ImagePullBackOff", sayDenied, false)},
		"back-off of an old kubelet":   {Workload{Pods: waits("ImagePullBackOff", `Back-off pulling image "jupyter:1"`), Events: []Event{failed(textNotFound)}}, imageCause("ImagePullBackOff", sayNotFound, false)},
		"back-off without a word":      {Workload{Pods: waits("ImagePullBackOff", `Back-off pulling image "jupyter:1"`)}, imageCause("ImagePullBackOff", sayVague, true)},
		"an Event without a time completes it": {
			Workload{Pods: waits("ImagePullBackOff", ""), Events: []Event{timeless(failed(textNotFound))}}, imageCause("ImagePullBackOff", sayNotFound, false),
		},
		"the Event of another container does not": {
			Workload{Pods: waits("ImagePullBackOff", ""), Events: []Event{podEvent(9, "other", "Failed", `Failed to pull image "x": `+textNotFound)}},
			imageCause("ImagePullBackOff", sayVague, true),
		},
		"the Event comes before the status": {
			Workload{Pods: waits("ContainerCreating", ""), Events: []Event{failed(textNotFound)}}, imageCause("ErrImagePull", sayNotFound, false),
		},
		"the Event comes before any status": {
			Workload{Pods: pods(newPod()), Events: []Event{failed(textNotFound)}}, imageCause("ErrImagePull", sayNotFound, false),
		},
		"it was pulled after the Event": {
			Workload{Pods: waits("ContainerCreating", ""), Events: []Event{failed(textNotFound), podEvent(11, "notebook", "Pulled", "Successfully pulled image")}}, wanted{},
		},
		"never pulled": {Workload{Pods: waits("ErrImageNeverPull", `Container image "jupyter:1" is not present with pull policy of Never`)}, imageCause("ErrImageNeverPull",
			`image "jupyter:1" of container "notebook" is not on the node, and imagePullPolicy is Never: set imagePullPolicy to IfNotPresent`, false)},
		"no valid name": {Workload{Pods: waits("InvalidImageName", `Failed to apply default image tag "Jupyter": couldn't parse image name`)}, imageCause("InvalidImageName",
			`image "jupyter:1" of container "notebook" has an invalid name: write it as REGISTRY/NAME:TAG in lower case`, false)},
		"rate limit": {Workload{Pods: waits("ErrImagePull", "toomanyrequests: You have reached your unauthenticated pull rate limit.")}, imageCause("ErrImagePull",
			`image "jupyter:1" of container "notebook" cannot be pulled: the registry's rate limit is reached: wait, or add the credentials of an account to imagePullSecrets`, true)},
		"a certificate": {Workload{Pods: waits("ErrImagePull", "failed to do request: tls: failed to verify certificate: x509: certificate signed by unknown authority")}, imageCause("ErrImagePull",
			`image "jupyter:1" of container "notebook" cannot be pulled: the node does not trust the registry's certificate, or the registry does not use TLS: ask the cluster's administrator to make the nodes trust the registry`, false)},
		"something unheard of": {Workload{Pods: waits("ErrImagePull", "rpc error: code = Unknown desc = the \x1b[31mmoon\x1b[0m is full.")}, imageCause("ErrImagePull",
			`image "jupyter:1" of container "notebook" cannot be pulled: the [31mmoon[0m is full: check the image name and the registry`, false)},
	})
}

func TestContainersThatCannotBeMade(t *testing.T) {
	config := func(says string) wanted {
		return wanted{reason: "CreateContainerConfigError", container: "notebook", says: nobody + "cannot be started: " + says}
	}
	run(t, map[string]diagnoseCase{
		"ConfigMap":        {Workload{Pods: waits("CreateContainerConfigError", `configmap "settings" not found`)}, config(`ConfigMap "settings" does not exist: create it, or correct its name`)},
		"Secret":           {Workload{Pods: waits("CreateContainerConfigError", `secret "login" not found`)}, config(`Secret "login" does not exist: create it, or correct its name`)},
		"key of ConfigMap": {Workload{Pods: waits("CreateContainerConfigError", `couldn't find key theme in ConfigMap shop/settings`)}, config(`ConfigMap "settings" has no key "theme": add the key, or correct its name`)},
		"key of Secret":    {Workload{Pods: waits("CreateContainerConfigError", `couldn't find key pass in Secret shop/login`)}, config(`Secret "login" has no key "pass": add the key, or correct its name`)},
		"root": {Workload{Pods: waits("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)", container: notebook)`)},
			config(`its image runs as root, which runAsNonRoot forbids: set securityContext.runAsUser to a user other than 0, or use another image`)},
		"a user without a number": {Workload{Pods: waits("CreateContainerConfigError", `container has runAsNonRoot and image has non-numeric user (jovyan), cannot verify user is non-root (pod: "nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)", container: notebook)`)},
			config(`its image runs as user "jovyan", but runAsNonRoot requires a numeric user ID: set securityContext.runAsUser to the ID of that user`)},
		"only the Event says which": {
			Workload{Pods: waits("CreateContainerConfigError", ""), Events: []Event{podEvent(5, "notebook", "Failed", `Error: configmap "settings" not found`)}},
			config(`ConfigMap "settings" does not exist: create it, or correct its name`),
		},
		"only the Event says so": {
			Workload{Pods: waits("ContainerCreating", ""), Events: []Event{podEvent(5, "notebook", "Failed", `Error: secret "login" not found`)}},
			config(`Secret "login" does not exist: create it, or correct its name`),
		},
		"command not found": {
			Workload{Pods: waits("RunContainerError", `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "jupyterr": executable file not found in $PATH: unknown`)},
			wanted{reason: "RunContainerError", container: "notebook", says: nobody + `cannot be started: its image does not contain the command "jupyterr": check the image, command and args`},
		},
		"command not found, and backing off": {
			Workload{Pods: pods(newPod(status(func() corev1.ContainerStatus {
				s := crashLooping(ended("StartError", 128, 30), 2)
				s.LastTerminationState.Terminated.Message = `runc create failed: exec: "jupyterr": executable file not found in $PATH: unknown`
				return s
			}())))},
			wanted{reason: "RunContainerError", container: "notebook", code: new(int32(128)), says: nobody + `cannot be started: its image does not contain the command "jupyterr": check the image, command and args`},
		},
		"a name in use": {
			Workload{Pods: waits("CreateContainerError", `failed to reserve container name "x": name "x" is reserved for "y"`)},
			wanted{reason: "CreateContainerError", container: "notebook", transient: true, says: nobody + `cannot be started: the node takes too long to create it: wait; if the problem persists, ask the cluster's administrator`},
		},
		"a reason that is new": {
			Workload{Pods: waits("FrobnicationError", `the frobnicator is missing`)},
			wanted{reason: "CreateContainerError", container: "notebook", transient: true, says: nobody + `does not start: FrobnicationError: the frobnicator is missing`},
		},
	})
}

func TestCrashes(t *testing.T) {
	crash := func(reason string, exit int32, says string) wanted {
		return wanted{reason: reason, container: "notebook", code: new(exit), says: says}
	}
	const oom = `container "notebook" was killed because it used more memory than its limit of 512Mi: raise resources.limits.memory, or reduce its memory use`
	limited := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
	}
	looping := func(reason string, exit int32) []*corev1.Pod {
		return pods(newPod(limited, status(crashLooping(ended(reason, exit, 60), 3))))
	}
	killed := podEvent(59, "notebook", "Killing", "Container notebook failed liveness probe, will be restarted")
	run(t, map[string]diagnoseCase{
		"exit code": {Workload{Pods: looping("Error", 1)}, func() wanted {
			w := crash("CrashLoopBackOff", 1, sayCrash)
			w.count = 4
			return w
		}()},
		"out of memory behind a back-off":      {Workload{Pods: looping("OOMKilled", 137)}, crash("OOMKilled", 137, oom)},
		"out of memory with another exit code": {Workload{Pods: looping("OOMKilled", 1)}, crash("OOMKilled", 1, oom)},
		"out of memory this very moment": {
			Workload{Pods: pods(newPod(limited, status(corev1.ContainerStatus{State: ended("OOMKilled", 137, 60)})))}, crash("OOMKilled", 137, oom),
		},
		"out of memory and started again": {
			Workload{Pods: pods(newPod(limited, status(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("OOMKilled", 137, 60), RestartCount: 1})))},
			crash("OOMKilled", 137, oom),
		},
		"out of memory without a limit": {
			Workload{Pods: pods(newPod(status(crashLooping(ended("OOMKilled", 137, 60), 1))))},
			crash("OOMKilled", 137, `container "notebook" was killed because it ran out of memory: reduce its memory use, or set a larger memory request and limit in resources`),
		},
		"137 without OOMKilled is a signal": {Workload{Pods: looping("Error", 137)}, crash("CrashLoopBackOff", 137,
			`container "notebook" was killed by signal 9 (exit code 137): it was killed by one of its own processes or by the node, and not for exceeding its memory limit; check its log (kubectl logs nb-0 -c notebook --previous)`)},
		"a probe had it killed": {Workload{Pods: looping("Error", 137), Events: []Event{killed}}, crash("CrashLoopBackOff", 137,
			`container "notebook" was killed by signal 9 (exit code 137) after its liveness probe failed: check the probe's settings, or give the container more time (initialDelaySeconds, failureThreshold)`)},
		"segmentation fault": {Workload{Pods: looping("Error", 139)}, crash("CrashLoopBackOff", 139,
			`container "notebook" was killed by signal 11 (exit code 139): it accessed invalid memory, which is a bug in the program or in a library; check its log (kubectl logs nb-0 -c notebook --previous)`)},
		"command not found by its shell": {Workload{Pods: looping("Error", 127)}, crash("CrashLoopBackOff", 127,
			`container "notebook" ended with exit code 127: its command was not found; check the image, command and args`)},
		"ends well again and again": {Workload{Pods: looping("Completed", 0)}, crash("CrashLoopBackOff", 0,
			`container "notebook" ended with exit code 0: its command must not end; check command and args`)},
		"ended well once": {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: ended("Completed", 0, 60)})))}, wanted{}},
		"ended just now":  {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: ended("Error", 1, 60)})))}, crash("Error", 1, sayCrash)},
		"started again and not ready yet": {
			Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("Error", 1, 60), RestartCount: 1})))},
			crash("Error", 1, sayCrash),
		},
		"was ready since": {
			Workload{Pods: pods(newPod(
				status(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("Error", 1, 60), RestartCount: 1}),
				setCondition(corev1.ContainersReady, corev1.ConditionFalse, 9000),
			)), Events: []Event{podEvent(9000, "notebook", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500")}},
			wanted{reason: "Unhealthy", container: "notebook", transient: true,
				says: `container "notebook" is not ready: its readiness probe returns HTTP status 500: check the probe's path and the container's log`},
		},
		"nothing says how it ended": {
			Workload{Pods: pods(newPod(status(crashLooping(corev1.ContainerState{}, 3))))},
			wanted{reason: "CrashLoopBackOff", container: "notebook", says: `container "notebook" keeps ending: check its log (kubectl logs nb-0 -c notebook --previous)`},
		},
		"a pod of a job": {
			Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: ended("Error", 3, 60)}), func(p *corev1.Pod) {
				p.Status.Phase, p.Spec.RestartPolicy = corev1.PodFailed, corev1.RestartPolicyNever
			}))},
			crash("Error", 3, `container "notebook" ended with exit code 3: check its log (kubectl logs nb-0 -c notebook)`),
		},
	})
}

func TestScheduling(t *testing.T) {
	unschedulable := func(says string) wanted { return wanted{reason: "FailedScheduling", transient: true, says: says} }
	const text = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	const says = "no node can take the pod: 2 Insufficient cpu, 1 node(s) had untolerated taint(s)"
	const advice = ": request less cpu in resources, or wait until more is available; add tolerations for the nodes' taints, or let the pod run on other nodes"
	run(t, map[string]diagnoseCase{
		"resources and taints": {Workload{Pods: pods(newPod(unscheduled(text)))}, unschedulable(says + advice)},
		"more than any node has": {Workload{Pods: pods(newPod(unscheduled(text), asking("64", "1Gi"))), Nodes: nodes(3, "4", "16Gi")},
			unschedulable(says + " (the largest node has 4 CPU; the pod requests 64)" + advice)},
		"less than a node has": {Workload{Pods: pods(newPod(unscheduled(text), asking("3500m", "1Gi"))), Nodes: nodes(3, "4", "16Gi")}, unschedulable(says + advice)},
		"memory": {Workload{Pods: pods(newPod(unscheduled("0/1 nodes are available: 1 Insufficient memory."), asking("1", "96Gi"))), Nodes: nodes(1, "4", "16384256Ki")},
			unschedulable("no node can take the pod: 1 Insufficient memory (the largest node has 15.625Gi of memory; the pod requests 96Gi): request less memory in resources, or wait until more is available")},
		"a selector": {Workload{Pods: pods(newPod(unscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")))},
			unschedulable("no node can take the pod: 2 node(s) didn't match Pod's node affinity/selector: check nodeSelector and affinity against the labels of the nodes")},
		"no nodes": {Workload{Pods: pods(newPod(unscheduled("no nodes available to schedule pods")))}, unschedulable("the cluster has no nodes: wait until it has nodes, or ask the cluster's administrator")},
		"the Event alone": {
			Workload{Pods: pods(newPod(unscheduled(""))), Events: []Event{podEvent(3, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}},
			unschedulable("no node can take the pod: 1 Too many pods: wait until other pods end"),
		},
		"an Event of an earlier pod of the name": {
			Workload{Pods: pods(newPod(unscheduled(""), named("nb-0", "another"))), Events: []Event{podEvent(3, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}}, wanted{},
		},
		"scheduled by now": {
			Workload{Pods: pods(newPod()), Events: []Event{podEvent(3, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}}, wanted{},
		},
		"gated": {Workload{Pods: pods(newPod(unscheduled("Scheduling is blocked due to non-empty scheduling gates"), func(p *corev1.Pod) { p.Status.Conditions[0].Reason = "SchedulingGated" }))},
			unschedulable("the pod's schedulingGates prevent its scheduling: wait until the component that set them removes them")},
		"not looked at yet": {Workload{Pods: pods(newPod(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil }))}, wanted{}},
	})
}

func TestStorage(t *testing.T) {
	home := Object{"PersistentVolumeClaim", "home"}
	const immediate = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
	const noClass = `storageclass.storage.k8s.io "fast" not found`
	waitsForIt := pods(newPod(unscheduled(immediate), mounting("home")))
	pending := []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}
	sayNoClass := wanted{reason: "ProvisioningFailed", object: home,
		says: `no volume can be provisioned for claim "home": StorageClass "fast" does not exist: use another one (kubectl get storageclass lists them)`}
	run(t, map[string]diagnoseCase{
		"StorageClass unknown": {Workload{Pods: waitsForIt, Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, sayNoClass},
		"the Event has no time": {
			Workload{Pods: waitsForIt, Claims: pending, Events: []Event{timeless(claimEvent(5, "ProvisioningFailed", noClass)), claimEvent(2, "WaitForFirstConsumer", "waiting for first consumer")}}, sayNoClass,
		},
		"without a pod":   {Workload{Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, sayNoClass},
		"remedied by now": {Workload{Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass), claimEvent(9, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")}}, wanted{}},
		"an Event of an earlier claim of the name": {
			Workload{Claims: []*corev1.PersistentVolumeClaim{func() *corev1.PersistentVolumeClaim { c := claim(corev1.ClaimPending); c.UID = "another"; return c }()}, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, wanted{},
		},
		"a failing provisioner": {
			Workload{Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", `failed to provision volume with StorageClass "std": rpc error: code = ResourceExhausted desc = insufficient capacity`)}},
			wanted{reason: "ProvisioningFailed", object: home, transient: true, says: `no volume can be provisioned for claim "home": the storage backend is full: request less, or wait until space is available`},
		},
		"no class and no volume": {
			Workload{Claims: pending, Events: []Event{claimEvent(5, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")}},
			wanted{reason: "ClaimPending", object: home, transient: true, says: `claim "home" waits for a volume: no persistent volumes available for this claim and no storage class is set: set storageClassName, or create a matching PersistentVolume`},
		},
		"a provisioner outside": {
			Workload{Claims: pending, Events: []Event{claimEvent(5, "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner 'x' or manually by the system administrator.")}},
			wanted{reason: "ClaimPending", object: home, transient: true, says: `claim "home" waits for a volume: wait for its provisioner; if the problem persists, ask the cluster's administrator`},
		},
		"waits for its pod":           {Workload{Claims: pending, Events: []Event{claimEvent(5, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")}}, wanted{}},
		"just made":                   {Workload{Claims: pending}, wanted{}},
		"only the scheduler waits":    {Workload{Pods: waitsForIt, Claims: pending}, wanted{reason: "ClaimPending", object: home, transient: true, says: `claim "home" waits for a volume: no Event gives the reason; ask the cluster's administrator`}},
		"the claim may not be read":   {Workload{Pods: waitsForIt}, wanted{reason: "ClaimPending", object: home, transient: true, says: `claim "home" waits for a volume: check its Events (kubectl describe pvc)`}},
		"lost":                        {Workload{Pods: pods(newPod()), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimLost)}}, wanted{reason: "ClaimLost", object: home, says: `the volume of claim "home" no longer exists: restore the volume under the same name from a backup, or delete the claim and start again`}},
		"bound":                       {Workload{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound)}, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, wanted{}},
		"does not exist":              {Workload{Pods: pods(newPod(unscheduled(`0/1 nodes are available: persistentvolumeclaim "home" not found. not found`), mounting("home")))}, wanted{reason: "ClaimNotFound", object: home, says: `claim "home" that the pod mounts does not exist: create it, or correct its name`}},
		"did not exist when it tried": {Workload{Pods: pods(newPod(unscheduled(`persistentvolumeclaim "home" not found`), mounting("home"))), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound)}}, wanted{}},
	})
}

func TestMounts(t *testing.T) {
	mount := func(says string, transient bool) wanted {
		return wanted{reason: "FailedMount", says: says, transient: transient}
	}
	creating := waits("ContainerCreating", "")
	missing := podEvent(10, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : configmap "settings" not found`)
	sayMissing := mount(`volume "conf" cannot be mounted: ConfigMap "settings" does not exist: create it, or correct its name`, false)
	timedOut := podEvent(12, "", "FailedMount", `Unable to attach or mount volumes: unmounted volumes=[conf], unattached volumes=[], failed to process volumes=[]: context deadline exceeded`)
	run(t, map[string]diagnoseCase{
		"ConfigMap":                         {Workload{Pods: creating, Events: []Event{missing}}, sayMissing},
		"the word on one volume tells more": {Workload{Pods: creating, Events: []Event{missing, timedOut}}, sayMissing},
		"time":                              {Workload{Pods: creating, Events: []Event{timedOut}}, mount("mounting volumes timed out: conf: wait; if the problem persists, ask the cluster's administrator", true)},
		"a key": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : references non-existent config key: theme`)}},
			mount(`volume "conf" cannot be mounted: key "theme" does not exist in its ConfigMap or Secret: add the key, or correct its name`, false)},
		"two volumes": {Workload{Pods: creating, Events: []Event{missing, podEvent(11, "", "FailedMount", `MountVolume.SetUp failed for volume "keys" : secret "login" not found`)}},
			func() wanted { w := sayMissing; w.others = []string{"FailedMount"}; return w }()},
		"a disk": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedMount", `MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = Internal desc = exit status 32`)}},
			mount(`volume "pvc-1" cannot be mounted: exit status 32: check the volume; if it is correct, ask the cluster's administrator`, true)},
		"attached elsewhere": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and can't be attached to another`)}},
			wanted{reason: "FailedAttachVolume", transient: true, says: `volume "pvc-1" cannot be attached: it is attached to another node: wait until the pod that uses it ends, or stop that pod`}},
		"attached by now":                          {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" x`), podEvent(70, "", "SuccessfulAttachVolume", "x")}}, wanted{}},
		"past it: a container waits for its image": {Workload{Pods: waits("ErrImagePull", textNotFound), Events: []Event{missing}}, imageCause("ErrImagePull", sayNotFound, false)},
		"past it: a container runs":                {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(20)}))), Events: []Event{missing}}, wanted{}},
		"past it: an init container has run": {
			Workload{Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: ended("Completed", 0, 15)}, false), status(corev1.ContainerStatus{State: waiting("PodInitializing", "")}))), Events: []Event{missing}}, wanted{},
		},
		"past it: the sandbox is there": {Workload{Pods: pods(newPod(setCondition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, 11))), Events: []Event{missing}}, wanted{}},
		"past it: an image is pulled":   {Workload{Pods: creating, Events: []Event{missing, podEvent(20, "notebook", "Pulling", "Pulling image")}}, wanted{}},
		"no network": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "0123456789abcdef": plugin type="calico" failed`)}},
			wanted{reason: "CreateContainerError", transient: true, says: `the node cannot prepare the pod: failed to create pod sandbox: failed to setup network for sandbox "0123456789abcdef": plugin type="calico" failed: wait; if the problem persists, ask the cluster's administrator`}},
	})
}

func TestProbes(t *testing.T) {
	unhealthy := func(says string) wanted {
		return wanted{reason: "Unhealthy", container: "notebook", transient: true, says: `container "notebook" is not ready: ` + says}
	}
	runs := pods(newPod(status(corev1.ContainerStatus{State: runningSince(10)})))
	refused := podEvent(20, "notebook", "Unhealthy", `Readiness probe failed: Get "http://10.244.0.5:8888/api": dial tcp 10.244.0.5:8888: connect: connection refused`)
	sayRefused := unhealthy(`its readiness probe cannot connect: check the probe's port, or wait until the container listens on it`)
	slow := podEvent(30, "notebook", "Unhealthy", `Readiness probe failed: Get "http://10.244.0.5:8888/api": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`)
	run(t, map[string]diagnoseCase{
		"nothing listens":                 {Workload{Pods: runs, Events: []Event{refused}}, sayRefused},
		"the Event has no time":           {Workload{Pods: runs, Events: []Event{timeless(refused)}}, sayRefused},
		"the latest counts":               {Workload{Pods: runs, Events: []Event{slow, refused}}, unhealthy(`its readiness probe times out: raise the probe's timeoutSeconds, or check the container's log for the delay`)},
		"a command":                       {Workload{Pods: runs, Events: []Event{podEvent(20, "notebook", "Unhealthy", "Liveness probe failed: cat: /tmp/ok: No such file\x1b]0;x\x07\n")}}, unhealthy(`its liveness probe fails: cat: /tmp/ok: No such file]0;x: check the probe and the container's log`)},
		"ready by now":                    {Workload{Pods: pods(newPod(ready)), Events: []Event{refused}}, wanted{}},
		"of before it was restarted":      {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(25)}))), Events: []Event{refused}}, wanted{}},
		"of a container that is ready":    {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(10), Ready: true}), status(corev1.ContainerStatus{Name: "other", State: runningSince(10)}))), Events: []Event{refused}}, wanted{}},
		"of an earlier pod of the name":   {Workload{Pods: pods(newPod(named("nb-0", "another"), status(corev1.ContainerStatus{State: runningSince(10)}))), Events: []Event{refused}}, wanted{}},
		"it starts, nothing fails so far": {Workload{Pods: runs}, wanted{}},
	})
}
