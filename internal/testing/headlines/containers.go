package headlines

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// ofImages are states in which an image cannot be pulled.
func ofImages() map[string]Row {
	return map[string]Row{
		"the name of the image is invalid": {
			PodSpec: "containers: [{name: CONTAINER, image: 'example.org/Work'}]",
			Happen: waiting("InvalidImageName",
				`Failed to apply default image tag "example.org/Work": couldn't parse image name "example.org/Work": invalid reference format: repository name (Work) must be lowercase`),
			Sentence: Sentence{diagnosis.ReasonInvalidImageName, `image "example.org/Work" of container "CONTAINER" has an invalid name: write it as REGISTRY/NAME:TAG in lower case`},
		},
		"the image must be on the node and is not": {
			PodSpec:  image,
			Happen:   waiting("ErrImageNeverPull", `Container image "example.org/work:1" is not present with pull policy of Never`),
			Sentence: Sentence{diagnosis.ReasonErrImageNeverPull, `image "example.org/work:1" of container "CONTAINER" is not on the node, and imagePullPolicy is Never: set imagePullPolicy to IfNotPresent`},
		},
		"the node pulls too many images": {
			PodSpec: image, Happen: waiting("ErrImagePull", "pull QPS exceeded"), Sentence: Sentence{diagnosis.ReasonErrImagePull, `image "example.org/work:1" of container "CONTAINER" cannot be pulled: the node pulls too many images at once: wait`},
		},
		"the image does not exist": {
			PodSpec: image,
			Happen: waiting("ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image "example.org/work:1": `+
				`failed to resolve reference "example.org/work:1": example.org/work:1: not found`),
			Sentence: Sentence{diagnosis.ReasonErrImagePull, `image "example.org/work:1" of container "CONTAINER" cannot be pulled: the registry has no such image or tag: check the image name and tag`},
		},
		"the image may not be pulled": {
			PodSpec: image,
			Happen: waiting("ImagePullBackOff", `Back-off pulling image "example.org/work:1": ErrImagePull: failed to pull and unpack image "example.org/work:1": `+
				`pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`),
			Sentence: Sentence{diagnosis.ReasonImagePullBackOff, `image "example.org/work:1" of container "CONTAINER" cannot be pulled: the registry denies access, or has no such repository; the node sent no credentials (no basic auth credentials): ` +
				`check the image name, and that imagePullSecrets names a Secret with credentials for the image`},
		},
		"a Secret with the credentials does not exist": {
			PodSpec: image,
			Happen: func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) {
				k.Event(t, pod, "FailedToRetrieveImagePullSecret", "", "Unable to retrieve some image pull secrets (login); attempting to pull the image may not succeed.")
				k.Waiting(t, pod, "ErrImagePull", `failed to pull and unpack image "example.org/work:1": pull access denied, repository does not exist or may require authorization`)
			},
			Sentence: Sentence{diagnosis.ReasonErrImagePull, `image "example.org/work:1" of container "CONTAINER" cannot be pulled: the node cannot read the Secret "login" in imagePullSecrets, and the registry denies access: ` +
				`check that it exists in this namespace`},
		},
	}
}

// ofContainers are states in which a container does not start, or ends.
func ofContainers() map[string]Row {
	return map[string]Row{
		"the image has no command": {
			Happen:   waiting("CreateContainerError", `failed to generate container "5a" spec: failed to generate spec: no command specified`),
			Sentence: Sentence{diagnosis.ReasonCreateContainerError, `container "CONTAINER" cannot be started: neither the container nor its image specifies a command: set command`},
		},
		"the user may not enter the working directory": {
			PodSpec: "containers: [{name: CONTAINER, workingDir: /home/ana}]",
			Happen: waiting("RunContainerError", `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: `+
				`unable to start container process: error during container init: chdir to cwd ("/home/ana") set in config.json failed: permission denied: unknown`),
			Sentence: Sentence{diagnosis.ReasonRunContainerError, `container "CONTAINER" cannot be started: its user cannot enter its working directory /home/ana: ` +
				`change workingDir or securityContext.runAsUser, or the permissions in the image`},
		},
		"the container has ended": {
			Happen:   func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Ended(t, pod, "Error", 3) },
			Sentence: Sentence{diagnosis.ReasonError, `container "CONTAINER" ended with exit code 3: check its log (kubectl logs -n NAMESPACE POD -c CONTAINER --previous)`},
		},
		"the pod exceeds its own memory limit": {
			PodSpec: "resources: {limits: {memory: 1Gi}}",
			Happen:  func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Crashed(t, pod, "OOMKilled", 137) },
			Sentence: Sentence{diagnosis.ReasonOOMKilled, `container "CONTAINER" was killed because the pod used more memory than its limit of 1Gi: ` +
				`raise spec.resources.limits.memory of the pod, or reduce its memory use`},
		},
		"a key of a ConfigMap is missing": {
			Happen:   waiting("CreateContainerConfigError", "couldn't find key theme in ConfigMap shop/settings"),
			Sentence: Sentence{diagnosis.ReasonCreateContainerConfigError, `container "CONTAINER" cannot be started: ConfigMap "settings" has no key "theme": add the key, or correct its name`},
		},
		"the program crashes": {
			Happen:   func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Crashed(t, pod, "Error", 3) },
			Sentence: Sentence{diagnosis.ReasonCrashLoopBackOff, `container "CONTAINER" ended with exit code 3: check its log (kubectl logs -n NAMESPACE POD -c CONTAINER --previous)`},
		},
		"the container exceeds its memory limit": {
			PodSpec:  "containers: [{name: CONTAINER, resources: {limits: {memory: 1Gi}}}]",
			Happen:   func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) { k.Crashed(t, pod, "OOMKilled", 137) },
			Sentence: Sentence{diagnosis.ReasonOOMKilled, `container "CONTAINER" was killed because it used more memory than its limit of 1Gi: raise resources.limits.memory, or reduce its memory use`},
		},
		"the liveness probe fails": {
			Happen: func(t testing.TB, k kubelet.Kubelet, pod *corev1.Pod) {
				field := "spec.containers{" + pod.Spec.Containers[0].Name + "}"
				k.Event(t, pod, "Unhealthy", field, `Liveness probe failed: Get "http://10.0.0.9:8888/api": context deadline exceeded`)
				k.Event(t, pod, "Killing", field, "Container "+pod.Spec.Containers[0].Name+" failed liveness probe, will be restarted")
				k.Crashed(t, pod, "Completed", 0)
			},
			Sentence: Sentence{diagnosis.ReasonCrashLoopBackOff, `container "CONTAINER" ended with exit code 0 after its liveness probe failed (Get "http://10.0.0.9:8888/api": context deadline exceeded): ` +
				`check the probe's settings, or give the container more time (initialDelaySeconds, failureThreshold)`},
		},
		"the image is for another architecture": {
			Happen: waiting("RunContainerError", `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: `+
				`unable to start container process: error during container init: exec: "/work": exec format error: unknown`),
			Sentence: Sentence{diagnosis.ReasonRunContainerError, `container "CONTAINER" cannot be started: its command is built for another CPU architecture, or is a script without a #! line: ` +
				`use an image for the node's architecture, or select other nodes`},
		},
	}
}

// ofSetUp are states in which a node cannot set the pod up.
func ofSetUp() map[string]Row {
	return map[string]Row{
		"the node cannot prepare a device": {
			Happen: event("FailedPrepareDynamicResources",
				"Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim one-gpu: gpu 0 is broken"),
			Sentence: Sentence{diagnosis.ReasonFailedPrepareDynamicResources, `the node cannot set up the pod: it cannot prepare the devices of ResourceClaim "one-gpu": gpu 0 is broken: ` +
				`wait; if the problem persists, ask the cluster's administrator`},
		},
		"the driver of a device does not run": {
			Happen: event("FailedPrepareDynamicResources",
				"Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not registered"),
			Sentence: Sentence{diagnosis.ReasonFailedPrepareDynamicResources, `the node cannot set up the pod: driver gpu.example.com of its ResourceClaims does not run on the node: ` +
				`wait until it runs; if the problem persists, ask the cluster's administrator`},
		},
		"the driver of a volume does not run": {
			Happen: event("FailedMount",
				`MountVolume.MountDevice failed for volume "pvc-1" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name csi.example.com not found in the list of registered CSI drivers`),
			Sentence: Sentence{diagnosis.ReasonFailedMount, `volume "pvc-1" cannot be mounted: the storage driver csi.example.com does not run on the pod's node: wait until it runs; if the problem persists, ask the cluster's administrator`},
		},
		"a ConfigMap does not exist": {
			Happen:   event("FailedMount", `MountVolume.SetUp failed for volume "extra" : configmap "settings" not found`),
			Sentence: Sentence{diagnosis.ReasonFailedMount, `volume "extra" cannot be mounted: ConfigMap "settings" does not exist: create it, or correct its name`},
		},
		"the node has no network address left": {
			Happen: event("FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "5a": `+
				`plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.244.1.1-10.244.1.254`),
			Sentence: Sentence{diagnosis.ReasonFailedCreatePodSandBox, `the node cannot set up the pod: the node's network has no free IP address: ` +
				`wait until other pods end; if the problem persists, ask the cluster's administrator for more addresses`},
		},
		"another node has the volume": {
			Happen:   event("FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) web-0, web-1`),
			Sentence: Sentence{diagnosis.ReasonFailedAttachVolume, `volume "pvc-1" cannot be attached: pods on another node use it: web-0, web-1: wait until these pods end, or stop them; if one of them does not end, check its node`},
		},
	}
}
