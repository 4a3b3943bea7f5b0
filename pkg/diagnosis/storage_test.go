package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestClaimCauses(t *testing.T) {
	home := Object{"PersistentVolumeClaim", "home"}
	const immediate = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
	const noClass = `storageclass.storage.k8s.io "fast" not found`
	waitsForIt := pods(newPod(unscheduled(immediate), mounting("home")))
	both := pods(newPod(unscheduled(immediate), mounting("home"), mounting("data")))
	ofData := func(e Event) Event { e.Regarding.Name, e.UID = "data", "data"; return e }
	pending := []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}
	named := claim(corev1.ClaimPending)
	named.Spec.VolumeName = "pv-1"
	sentenceNoClass := wantCause{reason: "ProvisioningFailed", object: home,
		sentence: `no volume can be provisioned for claim "home": StorageClass "fast" does not exist: use another one, or ask the cluster's administrator which ones exist`}
	run(t, map[string]diagnoseCase{
		"StorageClass unknown": {Workload{Pods: waitsForIt, Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, sentenceNoClass},
		"the Event has no time": {
			Workload{Pods: waitsForIt, Claims: pending, Events: []Event{timeless(claimEvent(5, "ProvisioningFailed", noClass)), claimEvent(2, "WaitForFirstConsumer", "waiting for first consumer")}}, sentenceNoClass,
		},
		"without a pod": {Workload{Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, sentenceNoClass},
		"solved by now": {Workload{Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass), claimEvent(9, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")}}, wantCause{}},
		"Event of an earlier claim of the name": {
			Workload{Claims: []*corev1.PersistentVolumeClaim{func() *corev1.PersistentVolumeClaim { c := claim(corev1.ClaimPending); c.UID = "another"; return c }()}, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, wantCause{},
		},
		"failing provisioner": {
			Workload{Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", `failed to provision volume with StorageClass "std": rpc error: code = ResourceExhausted desc = insufficient capacity`)}},
			wantCause{reason: "ProvisioningFailed", object: home, transient: true, sentence: `no volume can be provisioned for claim "home": the storage backend is full: request less, or wait until space is available`},
		},
		"neither class nor volume": {
			Workload{Claims: pending, Events: []Event{claimEvent(5, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")}},
			wantCause{reason: "ClaimPending", object: home, transient: true, sentence: `claim "home" waits for a volume: no persistent volumes available for this claim and no storage class is set: set storageClassName, or ask the cluster's administrator for a matching PersistentVolume`},
		},
		"external provisioner": {
			Workload{Claims: pending, Events: []Event{claimEvent(5, "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner 'x' or manually by the system administrator.")}},
			wantCause{reason: "ClaimPending", object: home, transient: true, sentence: `claim "home" waits for a volume that driver x should create: wait for the driver; if the problem persists, ask the cluster's administrator`},
		},
		"a volume of its choice": {
			Workload{Claims: []*corev1.PersistentVolumeClaim{named}},
			wantCause{reason: "ClaimPending", object: home, transient: true, sentence: `claim "home" waits for PersistentVolume "pv-1", which its volumeName names: correct volumeName, or ask the cluster's administrator whether this volume exists and is free`},
		},
		"waiting for its pod":             {Workload{Claims: pending, Events: []Event{claimEvent(5, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")}}, wantCause{}},
		"just created":                    {Workload{Claims: pending}, wantCause{}},
		"only the scheduler waits for it": {Workload{Pods: waitsForIt, Claims: pending}, wantCause{reason: "ClaimPending", object: home, transient: true, sentence: `claim "home" waits for a volume: no Event gives the reason; ask the cluster's administrator`}},
		"claim not readable":              {Workload{Pods: waitsForIt}, wantCause{reason: "ClaimPending", object: home, transient: true, sentence: `claim "home" waits for a volume: check its Events (kubectl describe pvc -n shop home)`}},
		"one claim is bound and one is not readable": {
			Workload{Pods: both, Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound)}},
			wantCause{reason: "ClaimPending", object: Object{"PersistentVolumeClaim", "data"}, transient: true, sentence: `claim "data" waits for a volume: check its Events (kubectl describe pvc -n shop data)`},
		},
		"one claim explains itself, and the Events of one that is not readable explain it": {
			Workload{Pods: both, Claims: pending, Events: []Event{ofData(claimEvent(5, "ProvisioningFailed", noClass))}},
			wantCause{reason: "ProvisioningFailed", object: Object{"PersistentVolumeClaim", "data"}, others: []string{"ClaimPending"},
				sentence: `no volume can be provisioned for claim "data": StorageClass "fast" does not exist: use another one, or ask the cluster's administrator which ones exist`},
		},
		"one claim explains itself, and nothing is known of another": {
			Workload{Pods: both, Claims: pending, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, sentenceNoClass,
		},
		"not readable, but its Events are": {
			Workload{Pods: waitsForIt, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, sentenceNoClass,
		},
		"lost":           {Workload{Pods: pods(newPod()), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimLost)}}, wantCause{reason: "ClaimLost", object: home, sentence: `the volume of claim "home" no longer exists: ask the cluster's administrator to restore the volume under the same name, or delete the claim and start again`}},
		"bound":          {Workload{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound)}, Events: []Event{claimEvent(5, "ProvisioningFailed", noClass)}}, wantCause{}},
		"does not exist": {Workload{Pods: pods(newPod(unscheduled(`0/1 nodes are available: persistentvolumeclaim "home" not found. not found`), mounting("home")))}, wantCause{reason: "ClaimNotFound", object: home, sentence: `claim "home" that the pod mounts does not exist: create it, or correct its name`}},
		"created since":  {Workload{Pods: pods(newPod(unscheduled(`persistentvolumeclaim "home" not found`), mounting("home"))), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound)}}, wantCause{}},
	})
}

func TestClaimsThatGetTheirVolumeOnceANodeIsChosen(t *testing.T) {
	home, data := Object{"PersistentVolumeClaim", "home"}, Object{"PersistentVolumeClaim", "data"}
	const text = `running PreBind plugin "VolumeBinding": binding volumes: `
	noText := func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil }
	timedOut, refused := unscheduled(text+"context deadline exceeded"), unscheduled(text+`provisioning failed for PVC "home"`)
	failed := func(seconds int) Event {
		return claimEvent(seconds, "ProvisioningFailed", `failed to provision volume with StorageClass "std": rpc error: code = ResourceExhausted desc = insufficient capacity`)
	}
	normal := func(e Event) Event { e.Type = "Normal"; return e }
	waitsAgain := normal(claimEvent(9, "WaitForPodScheduled", "waiting for pod nb-0 to be scheduled"))
	ofData := func(e Event) Event { e.Regarding, e.UID = data, "data"; return e }
	full := func(o Object) wantCause {
		return wantCause{reason: "ProvisioningFailed", object: o, transient: true,
			sentence: `no volume can be provisioned for claim "` + o.Name + `": the storage backend is full: request less, or wait until space is available`}
	}
	notBound := wantCause{reason: "FailedScheduling", transient: true, sentence: `the volumes of the pod are not bound: timed out: check the Events of its claims (kubectl describe pvc -n shop)`}
	bound := []*corev1.PersistentVolumeClaim{claim(corev1.ClaimBound)}
	run(t, map[string]diagnoseCase{
		"the claim was not read":                {Workload{Pods: pods(newPod(timedOut, mounting("home"))), Events: []Event{failed(5)}}, full(home)},
		"the claim was read":                    {Workload{Pods: pods(newPod(timedOut, mounting("home"))), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{failed(5)}}, full(home)},
		"the scheduler tries again":             {Workload{Pods: pods(newPod(refused, mounting("home"))), Events: []Event{failed(5), waitsAgain}}, full(home)},
		"the same, and the claim was read":      {Workload{Pods: pods(newPod(refused, mounting("home"))), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{failed(5), waitsAgain}}, full(home)},
		"a further claim of a notebook":         {Workload{Pods: pods(newPod(timedOut, mounting("home"), mounting("data"))), Claims: bound, Events: []Event{ofData(failed(5))}}, full(data)},
		"the scheduler has written nothing yet": {Workload{Pods: pods(newPod(noText, mounting("home"))), Events: []Event{failed(5)}}, full(home)},
		"nothing is wrong yet":                  {Workload{Pods: pods(newPod(noText, mounting("home"))), Events: []Event{normal(claimEvent(5, "ExternalProvisioning", "Waiting for a volume to be created"))}}, wantCause{}},
		"no Events of the claim":                {Workload{Pods: pods(newPod(timedOut, mounting("home")))}, notBound},
		"only waiting Events":                   {Workload{Pods: pods(newPod(timedOut, mounting("home"))), Events: []Event{normal(claimEvent(5, "ExternalProvisioning", "Waiting for a volume to be created"))}}, notBound},
		"the failure is older than the pod":     {Workload{Pods: pods(newPod(timedOut, mounting("home"))), Events: []Event{failed(-5)}}, notBound},
		"provisioned since":                     {Workload{Pods: pods(newPod(timedOut, mounting("home"))), Events: []Event{failed(5), normal(claimEvent(7, "ProvisioningSucceeded", "Successfully provisioned volume pvc-1"))}}, notBound},
		"bound since":                           {Workload{Pods: pods(newPod(timedOut, mounting("home"))), Claims: bound, Events: []Event{failed(5)}}, notBound},
		"a claim of another pod":                {Workload{Pods: pods(newPod(timedOut, mounting("other"))), Events: []Event{failed(5)}}, notBound},
	})
}

func TestMountCauses(t *testing.T) {
	mount := func(sentence string, transient bool) wantCause {
		return wantCause{reason: "FailedMount", sentence: sentence, transient: transient}
	}
	creating := waits("ContainerCreating", "")
	missing := podEvent(10, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : configmap "settings" not found`)
	sentenceMissing := mount(`volume "conf" cannot be mounted: ConfigMap "settings" does not exist: create it, or correct its name`, false)
	timedOut := podEvent(12, "", "FailedMount", `Unable to attach or mount volumes: unmounted volumes=[conf], unattached volumes=[], failed to process volumes=[]: context deadline exceeded`)
	usedBy := func(pods string) []Event {
		return []Event{podEvent(10, "", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) `+pods)}
	}
	run(t, map[string]diagnoseCase{
		"ConfigMap":                            {Workload{Pods: creating, Events: []Event{missing}}, sentenceMissing},
		"Event of one volume is more specific": {Workload{Pods: creating, Events: []Event{missing, timedOut}}, sentenceMissing},
		"timeout":                              {Workload{Pods: creating, Events: []Event{timedOut}}, mount("mounting volumes timed out: conf: wait; if the problem persists, ask the cluster's administrator", true)},
		"missing key": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : references non-existent config key: theme`)}},
			mount(`volume "conf" cannot be mounted: key "theme" does not exist in its ConfigMap or Secret: add the key, or correct its name`, false)},
		"ReadWriteOncePod during a rollout": {Workload{Pods: pods(newPod(unscheduled("0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode already in-use by another pod."))), Surging: "web"},
			wantCause{reason: "FailedScheduling", sentence: "no node can take the pod: 1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode already in-use by another pod: set spec.strategy to {type: Recreate}, so that old pods end before new ones are created"}},
		"two volumes": {Workload{Pods: creating, Events: []Event{missing, podEvent(11, "", "FailedMount", `MountVolume.SetUp failed for volume "keys" : secret "login" not found`)}},
			func() wantCause { w := sentenceMissing; w.others = []string{"FailedMount"}; return w }()},
		"failed device": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedMount", `MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = Internal desc = exit status 32`)}},
			mount(`volume "pvc-1" cannot be mounted: exit status 32: check the volume; if it is correct, ask the cluster's administrator`, true)},
		"attached to another node": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and can't be attached to another`)}},
			wantCause{reason: "FailedAttachVolume", transient: true, sentence: `volume "pvc-1" cannot be attached: it is attached to another node: wait until the pod that uses it ends, or stop that pod`}},
		"attached to the node of an old pod": {Workload{Pods: creating, Surging: "web", Events: usedBy("job-1, web-6f6b8c7d9f-x2x9k and 1 pod(s) in different namespaces")},
			wantCause{reason: "FailedAttachVolume", sentence: `volume "pvc-1" cannot be attached: pods on another node use it: job-1, web-6f6b8c7d9f-x2x9k: set spec.strategy to {type: Recreate}, so that old pods end before new ones are created`}},
		"attached to the node of another workload": {Workload{Pods: creating, Surging: "web", Events: usedBy("web-admin-6f6b8c7d9f-x2x9k")},
			wantCause{reason: "FailedAttachVolume", transient: true, sentence: `volume "pvc-1" cannot be attached: pods on another node use it: web-admin-6f6b8c7d9f-x2x9k: wait until these pods end, or stop them; if one of them does not end, check its node`}},
		"attached to the node of another pod": {Workload{Pods: creating, Events: usedBy("web-6f6b8c7d9f-x2x9k")},
			wantCause{reason: "FailedAttachVolume", transient: true, sentence: `volume "pvc-1" cannot be attached: pods on another node use it: web-6f6b8c7d9f-x2x9k: wait until these pods end, or stop them; if one of them does not end, check its node`}},
		"attached by now":                          {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1" x`), podEvent(70, "", "SuccessfulAttachVolume", "x")}}, wantCause{}},
		"mounted: a container waits for its image": {Workload{Pods: waits("ErrImagePull", textNotFound), Events: []Event{missing}}, imageCause("ErrImagePull", sentenceNotFound, false)},
		"mounted: a container runs":                {Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: runningSince(20)}))), Events: []Event{missing}}, wantCause{}},
		"mounted: an init container has run": {
			Workload{Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: ended("Completed", 0, 15)}, false), status(corev1.ContainerStatus{State: waiting("PodInitializing", "")}))), Events: []Event{missing}}, wantCause{},
		},
		"mounted: the sandbox exists":       {Workload{Pods: pods(newPod(setCondition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, 11))), Events: []Event{missing}}, wantCause{}},
		"mounted: an image is being pulled": {Workload{Pods: creating, Events: []Event{missing, podEvent(20, "notebook", "Pulling", "Pulling image")}}, wantCause{}},
		"no network": {Workload{Pods: creating, Events: []Event{podEvent(10, "", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "0123456789abcdef": plugin type="calico" failed`)}},
			wantCause{reason: "FailedCreatePodSandBox", transient: true, sentence: `the node cannot set up the pod: failed to create pod sandbox: failed to setup network for sandbox "0123456789abcdef": plugin type="calico" failed: wait; if the problem persists, ask the cluster's administrator`}},
	})
}

// A tenant can write such an Event. Users copy commands of an advice into a shell.
func TestTheAdviceOfAMountContainsNoCommandOfAnEvent(t *testing.T) {
	forged := podEvent(10, "", "FailedMount", "error processing PVC shop/$(touch${IFS}owned): PVC has no class")
	cause := Diagnose(Workload{Pods: waits("ContainerCreating", ""), Events: []Event{forged}}).Cause
	if cause == nil || strings.Contains(cause.Advice, "owned") {
		t.Errorf("got %+v", cause)
	}
}
