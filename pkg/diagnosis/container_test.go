package diagnosis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func imageCause(reason, sentence string, transient bool) wantCause {
	return wantCause{reason: reason, sentence: sentence, container: "notebook", transient: transient}
}

func waits(reason, message string) []*corev1.Pod {
	return pods(newPod(status(corev1.ContainerStatus{State: waiting(reason, message)})))
}

// The kubelet reports it like that of the container.
func TestTheImageOfAVolumeIsNamed(t *testing.T) {
	const text = `failed to pull and unpack image "reg.example/model:1": failed to resolve reference "reg.example/model:1": reg.example/model:1: not found`
	pod := newPod(status(corev1.ContainerStatus{State: waiting("ErrImagePull", text)}))
	pod.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "reg.example/model:1"}}}}
	const want = `image "reg.example/model:1" of volume "model", which container "notebook" mounts, cannot be pulled: the registry has no such image or tag: check the image name and tag`
	if got := Diagnose(Workload{Pods: pods(pod)}).Cause.Sentence(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestImagePullCauses(t *testing.T) {
	failed := func(text string) Event {
		return podEvent(10, "notebook", "Failed", `Failed to pull image "jupyter:1": `+text)
	}
	run(t, map[string]diagnoseCase{
		"not found":                        {Workload{Pods: waits("ErrImagePull", textNotFound)}, imageCause("ErrImagePull", sentenceNotFound, false)},
		"denied":                           {Workload{Pods: waits("ErrImagePull", textDenied)}, imageCause("ErrImagePull", sentenceDenied, false)},
		"no such host":                     {Workload{Pods: waits("ErrImagePull", textNoHost)}, imageCause("ErrImagePull", sentenceNoHost, true)},
		"registry unreachable":             {Workload{Pods: waits("ErrImagePull", textTimeout)}, imageCause("ErrImagePull", sentenceTimeout, true)},
		"registry reported as unavailable": {Workload{Pods: waits("RegistryUnavailable", "image pull failed for jupyter:1 because the registry is unavailable: x")}, imageCause("ErrImagePull", sentenceTimeout, true)},
		"back-off with the last error":     {Workload{Pods: waits("ImagePullBackOff", `Back-off pulling image "jupyter:1": ErrImagePull: `+textDenied)}, imageCause("ImagePullBackOff", sentenceDenied, false)},
		"back-off of an old kubelet":       {Workload{Pods: waits("ImagePullBackOff", `Back-off pulling image "jupyter:1"`), Events: []Event{failed(textNotFound)}}, imageCause("ImagePullBackOff", sentenceNotFound, false)},
		"back-off without an error":        {Workload{Pods: waits("ImagePullBackOff", `Back-off pulling image "jupyter:1"`)}, imageCause("ImagePullBackOff", sentenceUnspecific, true)},
		"error from an Event without a time": {
			Workload{Pods: waits("ImagePullBackOff", ""), Events: []Event{timeless(failed(textNotFound))}}, imageCause("ImagePullBackOff", sentenceNotFound, false),
		},
		"Event of another container is ignored": {
			Workload{Pods: waits("ImagePullBackOff", ""), Events: []Event{podEvent(9, "other", "Failed", `Failed to pull image "x": `+textNotFound)}},
			imageCause("ImagePullBackOff", sentenceUnspecific, true),
		},
		"Event before the status": {
			Workload{Pods: waits("ContainerCreating", ""), Events: []Event{failed(textNotFound)}}, imageCause("ErrImagePull", sentenceNotFound, false),
		},
		"Event without a status": {
			Workload{Pods: pods(newPod()), Events: []Event{failed(textNotFound)}}, imageCause("ErrImagePull", sentenceNotFound, false),
		},
		"pulled after the Event": {
			Workload{Pods: waits("ContainerCreating", ""), Events: []Event{failed(textNotFound), podEvent(11, "notebook", "Pulled", "Successfully pulled image")}}, wantCause{},
		},
		"never pulled": {Workload{Pods: waits("ErrImageNeverPull", `Container image "jupyter:1" is not present with pull policy of Never`)}, imageCause("ErrImageNeverPull",
			`image "jupyter:1" of container "notebook" is not on the node, and imagePullPolicy is Never: set imagePullPolicy to IfNotPresent`, false)},
		"invalid name": {Workload{Pods: waits("InvalidImageName", `Failed to apply default image tag "Jupyter": couldn't parse image name`)}, imageCause("InvalidImageName",
			`image "jupyter:1" of container "notebook" has an invalid name: write it as REGISTRY/NAME:TAG in lower case`, false)},
		"rate limit": {Workload{Pods: waits("ErrImagePull", "toomanyrequests: You have reached your unauthenticated pull rate limit.")}, imageCause("ErrImagePull",
			`image "jupyter:1" of container "notebook" cannot be pulled: the registry's rate limit is reached: wait, or add the credentials of an account to imagePullSecrets`, true)},
		"untrusted certificate": {Workload{Pods: waits("ErrImagePull", "failed to do request: tls: failed to verify certificate: x509: certificate signed by unknown authority")}, imageCause("ErrImagePull",
			`image "jupyter:1" of container "notebook" cannot be pulled: the node does not trust the registry's certificate: ask the cluster's administrator to make the nodes trust the registry`, false)},
		"unknown error": {Workload{Pods: waits("ErrImagePull", "rpc error: code = Unknown desc = the \x1b[31mmoon\x1b[0m is full.")}, imageCause("ErrImagePull",
			`image "jupyter:1" of container "notebook" cannot be pulled: the [31mmoon[0m is full: see the Events of the pod (kubectl describe pod -n shop nb-0); if they do not help, ask the cluster's administrator`, false)},
	})
}

func TestContainerCreateCauses(t *testing.T) {
	config := func(sentence string) wantCause {
		return wantCause{reason: "CreateContainerConfigError", container: "notebook", sentence: notebook + "cannot be started: " + sentence}
	}
	run(t, map[string]diagnoseCase{
		"ConfigMap":        {Workload{Pods: waits("CreateContainerConfigError", `configmap "settings" not found`)}, config(`ConfigMap "settings" does not exist: create it, or correct its name`)},
		"Secret":           {Workload{Pods: waits("CreateContainerConfigError", `secret "login" not found`)}, config(`Secret "login" does not exist: create it, or correct its name; if a controller creates it, find out why it has not`)},
		"key of ConfigMap": {Workload{Pods: waits("CreateContainerConfigError", `couldn't find key theme in ConfigMap shop/settings`)}, config(`ConfigMap "settings" has no key "theme": add the key, or correct its name`)},
		"key of Secret":    {Workload{Pods: waits("CreateContainerConfigError", `couldn't find key pass in Secret shop/login`)}, config(`Secret "login" has no key "pass": add the key, or correct its name`)},
		"root": {Workload{Pods: waits("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)", container: notebook)`)},
			config(`its image runs as root, which runAsNonRoot forbids: set securityContext.runAsUser to a user other than 0, or use another image`)},
		"user name without an ID": {Workload{Pods: waits("CreateContainerConfigError", `container has runAsNonRoot and image has non-numeric user (jovyan), cannot verify user is non-root (pod: "nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)", container: notebook)`)},
			config(`its image runs as user "jovyan", but runAsNonRoot requires a numeric user ID: set securityContext.runAsUser to the ID of that user`)},
		"name only in the Event": {
			Workload{Pods: waits("CreateContainerConfigError", ""), Events: []Event{podEvent(5, "notebook", "Failed", `Error: configmap "settings" not found`)}},
			config(`ConfigMap "settings" does not exist: create it, or correct its name`),
		},
		"problem only in the Event": {
			Workload{Pods: waits("ContainerCreating", ""), Events: []Event{podEvent(5, "notebook", "Failed", `Error: secret "login" not found`)}},
			config(`Secret "login" does not exist: create it, or correct its name; if a controller creates it, find out why it has not`),
		},
		"command not found": {
			Workload{Pods: waits("RunContainerError", `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "jupyterr": executable file not found in $PATH: unknown`)},
			wantCause{reason: "RunContainerError", container: "notebook", sentence: notebook + `cannot be started: its image does not contain the command "jupyterr": check the image, command and args`},
		},
		"command not found, and backing off": {
			Workload{Pods: pods(newPod(status(func() corev1.ContainerStatus {
				s := crashLooping(ended("StartError", 128, 30), 2)
				s.LastTerminationState.Terminated.Message = `runc create failed: exec: "jupyterr": executable file not found in $PATH: unknown`
				return s
			}())))},
			wantCause{reason: "RunContainerError", container: "notebook", code: new(int32(128)), sentence: notebook + `cannot be started: its image does not contain the command "jupyterr": check the image, command and args`},
		},
		"container name in use": {
			Workload{Pods: waits("CreateContainerError", `failed to reserve container name "x": name "x" is reserved for "y"`)},
			wantCause{reason: "CreateContainerError", container: "notebook", transient: true, sentence: notebook + `cannot be started: the node takes too long to create it: wait; if the problem persists, ask the cluster's administrator`},
		},
		"unknown reason": {
			Workload{Pods: waits("FrobnicationError", `the frobnicator is missing`)},
			wantCause{reason: "CreateContainerError", container: "notebook", transient: true, sentence: notebook + `does not start: FrobnicationError: the frobnicator is missing: wait; if the problem persists, ask the cluster's administrator`},
		},
	})
}

func TestCrashCauses(t *testing.T) {
	crash := func(reason string, exit int32, sentence string) wantCause {
		return wantCause{reason: reason, container: "notebook", code: new(exit), sentence: sentence}
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
		"exit code": {Workload{Pods: looping("Error", 1)}, func() wantCause {
			w := crash("CrashLoopBackOff", 1, sentenceCrash)
			w.count = 4
			return w
		}()},
		"out of memory behind a back-off":      {Workload{Pods: looping("OOMKilled", 137)}, crash("OOMKilled", 137, oom)},
		"out of memory with another exit code": {Workload{Pods: looping("OOMKilled", 1)}, crash("OOMKilled", 1, oom)},
		"out of memory just now": {
			Workload{Pods: pods(newPod(limited, status(corev1.ContainerStatus{State: ended("OOMKilled", 137, 60)})))}, crash("OOMKilled", 137, oom),
		},
		"out of memory and restarted": {
			Workload{Pods: pods(newPod(limited, status(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("OOMKilled", 137, 60), RestartCount: 1})))},
			crash("OOMKilled", 137, oom),
		},
		"out of memory without a limit": {
			Workload{Pods: pods(newPod(status(crashLooping(ended("OOMKilled", 137, 60), 1))))},
			crash("OOMKilled", 137, `container "notebook" was killed because it ran out of memory: reduce its memory use, or set a larger memory request and limit in resources`),
		},
		"137 without OOMKilled is a signal": {Workload{Pods: looping("Error", 137)}, crash("CrashLoopBackOff", 137,
			`container "notebook" was killed by signal 9 (exit code 137): it did not stop within its grace period, or one of its processes exceeded the memory limit, or another process killed it; check its log (kubectl logs -n shop nb-0 -c notebook --previous)`)},
		"killed by a probe": {Workload{Pods: looping("Error", 137), Events: []Event{killed}}, crash("CrashLoopBackOff", 137,
			`container "notebook" was killed by signal 9 (exit code 137) after its liveness probe failed: check the probe's settings, or give the container more time (initialDelaySeconds, failureThreshold)`)},
		"segmentation fault": {Workload{Pods: looping("Error", 139)}, crash("CrashLoopBackOff", 139,
			`container "notebook" was killed by signal 11 (exit code 139): it accessed invalid memory, which is a bug in the program or in a library; check its log (kubectl logs -n shop nb-0 -c notebook --previous)`)},
		"command not found by the shell": {Workload{Pods: looping("Error", 127)}, crash("CrashLoopBackOff", 127,
			`container "notebook" ended with exit code 127: check its log (kubectl logs -n shop nb-0 -c notebook --previous)`)},
		"keeps ending with exit code 0": {Workload{Pods: looping("Completed", 0)}, crash("CrashLoopBackOff", 0,
			`container "notebook" ended with exit code 0, without an error, but must keep running: check its log (kubectl logs -n shop nb-0 -c notebook --previous)`)},
		"ended once with exit code 0": {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: ended("Completed", 0, 60)})))}, wantCause{}},
		"ended just now":              {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: ended("Error", 1, 60)})))}, crash("Error", 1, sentenceCrash)},
		"restarted and not ready yet": {
			Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("Error", 1, 60), RestartCount: 1})))},
			crash("Error", 1, sentenceCrash),
		},
		"ready since the crash": {
			Workload{Pods: pods(newPod(
				status(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("Error", 1, 60), RestartCount: 1}),
				setCondition(corev1.ContainersReady, corev1.ConditionFalse, 9000),
			)), Events: []Event{podEvent(9000, "notebook", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500")}},
			wantCause{reason: "Unhealthy", container: "notebook", transient: true,
				sentence: `container "notebook" is not ready: its readiness probe returns HTTP status 500: check the probe's path and the container's log`},
		},
		"end unknown": {
			Workload{Pods: pods(newPod(status(crashLooping(corev1.ContainerState{}, 3))))},
			wantCause{reason: "CrashLoopBackOff", container: "notebook", sentence: `container "notebook" keeps ending: check its log (kubectl logs -n shop nb-0 -c notebook --previous)`},
		},
		"a pod of a job": {
			Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: ended("Error", 3, 60)}), func(p *corev1.Pod) {
				p.Status.Phase, p.Spec.RestartPolicy = corev1.PodFailed, corev1.RestartPolicyNever
			}))},
			crash("Error", 3, `container "notebook" ended with exit code 3: check its log (kubectl logs -n shop nb-0 -c notebook)`),
		},
	})
}

func TestProbeCauses(t *testing.T) {
	unhealthy := func(sentence string) wantCause {
		return wantCause{reason: "Unhealthy", container: "notebook", transient: true, sentence: `container "notebook" is not ready: ` + sentence}
	}
	runs := pods(newPod(status(corev1.ContainerStatus{State: runningSince(10)})))
	probed := pods(newPod(status(corev1.ContainerStatus{State: runningSince(10)}), func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8081)}}}
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {ContainerPort: 9090}}
	}))
	refused := podEvent(20, "notebook", "Unhealthy", `Readiness probe failed: Get "http://10.244.0.5:8888/api": dial tcp 10.244.0.5:8888: connect: connection refused`)
	sentenceRefused := unhealthy(`its readiness probe cannot connect: check the probe's port, or wait until the container listens on it`)
	slow := podEvent(30, "notebook", "Unhealthy", `Readiness probe failed: Get "http://10.244.0.5:8888/api": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`)
	run(t, map[string]diagnoseCase{
		"nothing listens":                     {Workload{Pods: runs, Events: []Event{refused}}, sentenceRefused},
		"nothing listens on a known port":     {Workload{Pods: probed, Events: []Event{refused}}, unhealthy(`its readiness probe of port 8081 cannot connect: check the probe's port, or wait until the container listens on it; ports of the container: 8080 (http), 9090`)},
		"a known probe times out":             {Workload{Pods: probed, Events: []Event{slow}}, unhealthy(`its readiness probe times out: raise the probe's timeoutSeconds, or check the container's log for the delay`)},
		"the Event has no time":               {Workload{Pods: runs, Events: []Event{timeless(refused)}}, sentenceRefused},
		"the last Event counts":               {Workload{Pods: runs, Events: []Event{slow, refused}}, unhealthy(`its readiness probe times out: raise the probe's timeoutSeconds, or check the container's log for the delay`)},
		"exec probe":                          {Workload{Pods: runs, Events: []Event{podEvent(20, "notebook", "Unhealthy", "Liveness probe failed: cat: /tmp/ok: No such file\x1b]0;x\x07\n")}}, unhealthy(`its liveness probe fails: cat: /tmp/ok: No such file]0;x: check the probe and the container's log`)},
		"ready by now":                        {Workload{Pods: pods(newPod(ready)), Events: []Event{refused}}, wantCause{}},
		"Event before the restart":            {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(25)}))), Events: []Event{refused}}, wantCause{}},
		"Event of a ready container":          {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(10), Ready: true}), status(corev1.ContainerStatus{Name: "other", State: runningSince(10)}))), Events: []Event{refused}}, wantCause{}},
		"Event of an earlier pod of the name": {Workload{Pods: pods(newPod(named("nb-0", "another"), status(corev1.ContainerStatus{State: runningSince(10)}))), Events: []Event{refused}}, wantCause{}},
		"starting without a failure":          {Workload{Pods: runs}, wantCause{}},
	})
}

func TestInitContainerAndSidecarCauses(t *testing.T) {
	pulls := corev1.ContainerStatus{Name: "prepare", State: waiting("ErrImagePull", textNotFound)}
	main := status(corev1.ContainerStatus{State: waiting("PodInitializing", "")})
	crashed := crashLooping(ended("Error", 4, 60), 2)
	crashed.Name = "prepare"
	of := func(reason, container, sentence string, exit *int32, others ...string) wantCause {
		return wantCause{reason: reason, container: container, sentence: sentence, code: exit, others: others}
	}
	const sentenceCrashed = `container "prepare" ended with exit code 4: check its log (kubectl logs -n shop nb-0 -c prepare --previous)`
	run(t, map[string]diagnoseCase{
		"an init container's image": {Workload{Pods: pods(newPod(initStatus(pulls, false), main))},
			of("ErrImagePull", "prepare", `image "prepare:1" of container "prepare" cannot be pulled: the registry has no such image or tag: check the image name and tag`, nil)},
		"an init container crashes": {Workload{Pods: pods(newPod(initStatus(crashed, false), main))}, of("CrashLoopBackOff", "prepare", sentenceCrashed, new(int32(4)))},
		"an init container runs again after a crash": {
			Workload{Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: runningSince(61), LastTerminationState: ended("Error", 4, 60), RestartCount: 1}, false), main))},
			of("Error", "prepare", sentenceCrashed, new(int32(4))),
		},
		"a slow init container": {Workload{Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: runningSince(1)}, false), main))},
			wantCause{reason: "PodInitializing", container: "prepare", transient: true, sentence: `init container "prepare" has been running since 2026-03-01 09:00:01 UTC, and the other containers wait for its end: check its log (kubectl logs -n shop nb-0 -c prepare)`}},
		"a sidecar and the main container crash": {
			Workload{Pods: pods(newPod(initStatus(crashed, true), status(crashLooping(ended("Error", 1, 60), 2))))},
			of("CrashLoopBackOff", "prepare", sentenceCrashed, new(int32(4)), "CrashLoopBackOff"),
		},
		"a sidecar's probe fails": {
			Workload{
				Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: runningSince(1)}, true), main)),
				Events: []Event{func() Event {
					e := podEvent(5, "", "Unhealthy", "Startup probe failed: no")
					e.FieldPath = "spec.initContainers{prepare}"
					return e
				}()},
			},
			wantCause{reason: "Unhealthy", container: "prepare", transient: true, sentence: `container "prepare" is not ready: its startup probe fails: no: check the probe and the container's log`},
		},
	})
}

func TestTerminationMessageIsNeverShown(t *testing.T) {
	const secret = "hunter2"
	for _, reason := range []string{"Error", "Completed", "OOMKilled", "ContainerStatusUnknown"} {
		last := ended(reason, 1, 60)
		last.Terminated.Message = secret
		w := Workload{Pods: pods(newPod(status(crashLooping(last, 2))))}
		for _, c := range causesOf(Diagnose(w)) {
			if strings.Contains(c.Sentence(), secret) {
				t.Errorf("%s: %s", reason, c.Sentence())
			}
		}
	}
}

func TestLastCrashIsKnownAfterRecovery(t *testing.T) {
	crashedAt := func(name string, seconds int) *corev1.Pod {
		return newPod(ready, named(name, "x"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState = ended("OOMKilled", 137, seconds)
			p.Status.ContainerStatuses[0].RestartCount = 3
		})
	}
	got := LastCrash(pods(crashedAt("nb-0", 10), crashedAt("nb-1", 20), newPod(ready)))
	want := &Cause{
		Reason: "OOMKilled", Object: Object{"Pod", "nb-1"}, Container: "notebook", ExitCode: new(int32(137)), Time: at(20), Count: 3, Since: at(5),
		Message: `container "notebook" was killed because it ran out of memory`, Advice: "reduce its memory use, or set a larger memory request and limit in resources",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := LastCrash(pods(newPod(ready))); got != nil {
		t.Errorf("got %+v", got)
	}
}
