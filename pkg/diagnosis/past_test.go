package diagnosis

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const sentenceNetwork = `the node cannot set up the pod: network plugin flannel does not run on the node: ` + administratorLater

// afterReboot is the status of a container that ran before its node was rebooted.
func afterReboot(last corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{RestartCount: 1, State: waiting("ContainerCreating", ""), LastTerminationState: last}
}

func TestWhatHoldsThePodUpNowComesBeforeItsPast(t *testing.T) {
	noTime := -int(start.Sub(time.Time{}) / time.Second)
	notPrepared := setCondition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, 100)
	network := podEvent(110, "", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "0f3c": plugin type="flannel" failed (add): loadFlannelSubnetEnv failed: open /run/flannel/subnet.env: no such file or directory`)
	volume := podEvent(110, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : secret "s" not found`)
	sandbox := wantCause{reason: "FailedCreatePodSandBox", transient: true, sentence: sentenceNetwork}
	sandboxAndCrash := sandbox
	sandboxAndCrash.others = []string{"Error"}
	pulls := podEvent(110, "notebook", "Failed", `Failed to pull image "jupyter:1": `+textNotFound)
	run(t, map[string]diagnoseCase{
		"the network, after a reboot that no one saw": {Workload{Pods: pods(newPod(notPrepared, status(afterReboot(ended("Unknown", 255, 90))))), Events: []Event{network}}, sandbox},
		"the network, without the condition":          {Workload{Pods: pods(newPod(status(afterReboot(ended("Unknown", 255, 90))))), Events: []Event{network}}, sandbox},
		"the network, after a crash":                  {Workload{Pods: pods(newPod(notPrepared, status(afterReboot(ended("Error", 3, 90))))), Events: []Event{network}}, sandboxAndCrash},
		"a volume, after a reboot": {
			Workload{Pods: pods(newPod(notPrepared, status(afterReboot(ended("Unknown", 255, 90))))), Events: []Event{volume}},
			wantCause{reason: "FailedMount", sentence: `volume "conf" cannot be mounted: Secret "s" does not exist: create it, or correct its name; if a controller creates it, find out why it has not`},
		},
		"a volume, and an init container that ended before": {
			Workload{Pods: pods(newPod(notPrepared, initStatus(corev1.ContainerStatus{Name: "prepare", State: ended("Completed", 0, 20)}, false), status(afterReboot(ended("Unknown", 255, 90))))), Events: []Event{volume}},
			wantCause{reason: "FailedMount", sentence: `volume "conf" cannot be mounted: Secret "s" does not exist: create it, or correct its name; if a controller creates it, find out why it has not`},
		},
		"the image, after a crash": {Workload{Pods: pods(newPod(status(afterReboot(ended("Error", 3, 90))))), Events: []Event{pulls}}, imageCause("ErrImagePull", sentenceNotFound, false)},
		"the image, after an end without a time": {
			Workload{Pods: pods(newPod(status(afterReboot(ended("ContainerStatusUnknown", 137, noTime))))), Events: []Event{pulls}}, imageCause("ErrImagePull", sentenceNotFound, false),
		},
		"the crash, after the image was pulled": {
			Workload{Pods: pods(newPod(status(afterReboot(ended("Error", 3, 120))))), Events: []Event{pulls}},
			wantCause{reason: "Error", container: "notebook", code: new(int32(3)), sentence: `container "notebook" ended with exit code 3: check its log (kubectl logs -n shop nb-0 -c notebook --previous)`},
		},
		"an end that no one saw, if nothing else is known": {
			Workload{Pods: pods(newPod(status(afterReboot(ended("Unknown", 255, 90)))))},
			wantCause{reason: "Error", container: "notebook", transient: true, sentence: `the node has no record of how container "notebook" ended: the node or its kubelet was restarted, or the pod was evicted; wait until the container or pod is replaced`},
		},
	})
}

// A kubelet stops the sidecars of a pod after its other containers have ended.
func TestASidecarThatWasStoppedIsNotTheCause(t *testing.T) {
	p := newPod(
		initStatus(corev1.ContainerStatus{Name: "proxy", State: ended("Error", 143, 70)}, true),
		status(corev1.ContainerStatus{State: ended("Error", 1, 60)}),
		func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Status.Phase = corev1.RestartPolicyNever, corev1.PodFailed
		},
	)
	want := wantCause{reason: "Error", container: "notebook", code: new(int32(1)), sentence: `container "notebook" ended with exit code 1: check its log (kubectl logs -n shop nb-0 -c notebook)`}
	want.check(t, Diagnose(Workload{Pods: pods(p)}))
	want.check(t, Diagnosis{Cause: LastCrash(pods(p))})
}

func TestLastCrashLeavesOutWhatExplainsNothing(t *testing.T) {
	phase := func(phase corev1.PodPhase) change { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	evicted := func(p *corev1.Pod) {
		p.Status.Reason, p.Status.Message = "Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. "
	}
	deletedAt := func(seconds int) change {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metaAt(seconds+30)), new(int64(30))
		}
	}
	end := func(reason string, code int32) change {
		return status(corev1.ContainerStatus{State: ended(reason, code, 60)})
	}
	disrupted := func(reason string) change {
		return func(p *corev1.Pod) {
			setCondition(corev1.DisruptionTarget, corev1.ConditionTrue, 50)(p)
			condition(p, corev1.DisruptionTarget).Reason = reason
		}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want wantCause
	}{
		"deleted by the scheduler": {newPod(end("Completed", 0), phase(corev1.PodSucceeded), deletedAt(55), disrupted("PreemptionByScheduler")),
			wantCause{reason: "Preempted", transient: true, sentence: "the pod was removed to make room for a pod of a higher priority: wait for free capacity, or use a higher priority"}},
		"deleted by the taint manager": {newPod(end("Error", 143), deletedAt(55), disrupted("DeletionByTaintManager")),
			wantCause{reason: "TaintManagerEviction", transient: true, sentence: "the pod was deleted because its node has a taint that the pod does not tolerate: wait until the pod is recreated on another node; a node that does not respond has such a taint too"}},
		"evicted by a drain":                 {newPod(end("Error", 143), deletedAt(55), disrupted("EvictionByEvictionAPI")), wantCause{}},
		"chosen by the scheduler, but alive": {newPod(disrupted("PreemptionByScheduler")), wantCause{}},
		"a sidecar of a pod that succeeded":  {newPod(initStatus(corev1.ContainerStatus{Name: "proxy", State: ended("Error", 143, 70)}, true), end("Completed", 0), phase(corev1.PodSucceeded)), wantCause{}},
		"an end that no one saw":             {newPod(end("ContainerStatusUnknown", 137)), wantCause{}},
		"an evicted pod": {newPod(end("ContainerStatusUnknown", 137), phase(corev1.PodFailed), evicted),
			wantCause{reason: "Evicted", sentence: "the pod used more local disk space than its limit of 2Gi: raise resources.limits.ephemeral-storage, or write to a volume"}},
		"stopped by a deletion": {newPod(end("Error", 143), deletedAt(55)), wantCause{}},
		"crashed, and was stopped by a deletion": {
			newPod(deletedAt(55), status(corev1.ContainerStatus{State: ended("Error", 143, 60), LastTerminationState: ended("Error", 1, 20)})),
			wantCause{reason: "Error", container: "notebook", code: new(int32(1)), sentence: sentenceCrash},
		},
		"ended before a deletion": {newPod(end("Error", 1), deletedAt(65)),
			wantCause{reason: "Error", container: "notebook", code: new(int32(1)), sentence: sentenceCrash}},
	} {
		t.Run(name, func(t *testing.T) { tc.want.check(t, Diagnosis{Cause: LastCrash(pods(tc.pod))}) })
	}
}

func TestTheCauseOfAnEventIsAboutItsContainer(t *testing.T) {
	app, metrics := Cause{Reason: "Error", Container: "app"}, Cause{Reason: "OOMKilled", Container: "metrics"}
	mount := Cause{Reason: "FailedMount"}
	both, whole := Diagnosis{Cause: &metrics, Others: []Cause{app}}, Diagnosis{Cause: &mount, Others: []Cause{metrics}}
	for name, tc := range map[string]struct {
		d         Diagnosis
		container string
		want      string
	}{
		"of the first":      {both, "metrics", "OOMKilled"},
		"of the second":     {both, "app", "Error"},
		"of neither":        {both, "proxy", ""},
		"of the pod":        {both, "", "OOMKilled"},
		"the pod is broken": {whole, "app", "FailedMount"},
		"there is no cause": {Diagnosis{}, "app", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := tc.d.Of(tc.container); c != nil {
				got = c.Reason
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAReadinessGateThatIsNotTrueIsNamed(t *testing.T) {
	const gate = "target-health.example.com/web"
	gated := func(conditions ...corev1.PodCondition) *corev1.Pod {
		return newPod(ready, func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
			setCondition(corev1.PodReady, corev1.ConditionFalse, 50)(p)
			condition(p, corev1.PodReady).Reason = "ReadinessGatesNotReady"
			p.Status.Conditions = append(p.Status.Conditions, conditions...)
		})
	}
	set := func(status corev1.ConditionStatus, reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: gate, Status: status, Reason: reason, Message: message, LastTransitionTime: metaAt(40)}
	}
	const advice = ": check the controller that sets this condition of the pod, such as that of a load balancer"
	named := func(sentence string) wantCause {
		return wantCause{reason: "ReadinessGatesNotReady", transient: true, sentence: sentence + advice}
	}
	run(t, map[string]diagnoseCase{
		"false": {Workload{Pods: pods(gated(set(corev1.ConditionFalse, "Target.ResponseCodeMismatch", "Health checks failed with these codes: [503]")))},
			named(`the containers are ready, but the condition of readiness gate "target-health.example.com/web" is False: Target.ResponseCodeMismatch: Health checks failed with these codes: [503]`)},
		"without a text": {Workload{Pods: pods(gated(set(corev1.ConditionUnknown, "", "")))},
			named(`the containers are ready, but the condition of readiness gate "target-health.example.com/web" is Unknown`)},
		"not set": {Workload{Pods: pods(gated())},
			named(`the containers are ready, but no controller has set the condition of readiness gate "target-health.example.com/web" yet`)},
		"true by now": {Workload{Pods: pods(gated(set(corev1.ConditionTrue, "", "")))}, wantCause{}},
		"the containers are not ready": {Workload{Pods: pods(newPod(func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
		}))}, wantCause{}},
	})
}

func TestAMountThatDoesNotFitIsNamed(t *testing.T) {
	const text = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: ` +
		`error mounting "/var/lib/kubelet/pods/705062a4-16a6-419b-8fd1-523bdb7feee8/volume-subpaths/settings/web/1" to rootfs at "/etc/web/settings.json": create mountpoint for /etc/web/settings.json mount: ` +
		`cannot create subdirectories in "/run/containerd/io.containerd.runtime.v2.task/k8s.io/698615ea/rootfs/etc/web/settings.json": not a directory: unknown`
	last := ended("StartError", 128, 60)
	last.Terminated.Message = text
	mounting := func(path, subPath string) change {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: path, SubPath: subPath}}
		}
	}
	const advice = ": check subPath and mountPath in its volumeMounts: both must be files, or both directories"
	for name, tc := range map[string]struct {
		mount change
		want  string
	}{
		"a subPath":            {mounting("/etc/web/settings.json", "web.json"), `container "notebook" cannot be started: subPath "web.json" of volume "settings" cannot be mounted at /etc/web/settings.json: not a directory` + advice},
		"a volume":             {mounting("/etc/web/settings.json", ""), `container "notebook" cannot be started: volume "settings" cannot be mounted at /etc/web/settings.json: not a directory` + advice},
		"no volume of the pod": {mounting("/data", ""), `container "notebook" cannot be started: a volume is mounted on a path where the image has a file: correct mountPath, or mount a single file with subPath`},
	} {
		t.Run(name, func(t *testing.T) {
			d := Diagnose(Workload{Pods: pods(newPod(status(crashLooping(last, 2)), tc.mount))})
			if d.Cause == nil || d.Cause.Sentence() != tc.want {
				t.Errorf("got %+v", d.Cause)
			}
		})
	}
}

func TestWhatFailedInADeletedPodIsOverIfThePodIsCreatedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		event  Event
		reason string // of a pod that is not created again
		stays  bool
	}{
		"its image":    {podEvent(50, "notebook", "Failed", "Error: ImagePullBackOff"), ReasonImagePullBackOff, false},
		"its crash":    {podEvent(50, "notebook", "BackOff", "Back-off restarting failed container notebook in pod nb-0"), ReasonCrashLoopBackOff, false},
		"its volume":   {podEvent(50, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : secret "s" not found`), ReasonFailedMount, false},
		"its eviction": {podEvent(50, "", "Evicted", "The node was low on resource: memory. "), ReasonEvicted, true},
		"its priority": {podEvent(50, "", "Preempted", "Preempted by pod 9d2f on node a"), ReasonPreempted, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, recreated := range []bool{false, true} {
				want := tc.reason
				if recreated && !tc.stays {
					want = ""
				}
				got := ""
				if cause := Diagnose(Workload{Recreated: recreated, Events: []Event{tc.event}}).Cause; cause != nil {
					got = cause.Reason
				}
				if got != want {
					t.Errorf("created again %v: cause %q, want %q", recreated, got, want)
				}
			}
		})
	}
}
