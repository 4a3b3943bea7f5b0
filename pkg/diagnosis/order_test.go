package diagnosis

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

// everything is a workload in which all goes wrong at once.
func everything() Workload {
	oom := crashLooping(ended("OOMKilled", 137, 40), 2)
	oom.Name = "hungry"
	return Workload{
		Pods: pods(
			newPod(unscheduled("0/1 nodes are available: 1 Too many pods."), named("nb-0", "a")),
			newPod(named("nb-1", "b"),
				initStatus(corev1.ContainerStatus{Name: "proxy", State: waiting("CreateContainerConfigError", `secret "login" not found`)}, true),
				status(corev1.ContainerStatus{State: waiting("ErrImagePull", textNotFound)}), status(oom)),
			newPod(named("nb-2", "c"), status(corev1.ContainerStatus{State: runningSince(3)})),
			newPod(named("nb-3", "d")),
			newPod(named("nb-4", "e"), status(crashLooping(ended("Error", 2, 40), 2))),
			newPod(named("nb-5", "f"), status(crashLooping(ended("Error", 2, 50), 5))),
			newPod(named("nb-6", "g"), ready),
			newPod(named("nb-7", "h"), deleted, status(crashLooping(ended("Error", 9, 40), 2))),
		),
		Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)},
		Events: []Event{
			setEvent(60, "create Pod nb-9 in StatefulSet nb failed error: "+strings.SplitN(textQuota, "error: ", 2)[1]),
			claimEvent(5, "ProvisioningFailed", `storageclass.storage.k8s.io "fast" not found`),
			{Type: "Warning", Reason: "Unhealthy", Note: "Readiness probe failed: x", Regarding: Object{"Pod", "nb-2"}, UID: "c", FieldPath: "spec.containers{notebook}"},
			{Type: "Warning", Reason: "Unhealthy", Note: "Readiness probe failed: y", Regarding: Object{"Pod", "nb-2"}, UID: "c", FieldPath: "spec.containers{notebook}"},
			{Type: "Warning", Reason: "FailedMount", Note: `MountVolume.SetUp failed for volume "v" : configmap "m" not found`, Regarding: Object{"Pod", "nb-3"}, UID: "d", LastSeen: at(9)},
			{Type: "Warning", Reason: "FailedMount", Note: `MountVolume.SetUp failed for volume "w" : configmap "m" not found`, Regarding: Object{"Pod", "nb-3"}, UID: "d", LastSeen: at(9)},
		},
		Known: []Cause{
			{Reason: "InvalidSpec", Object: Object{"Jupyter", "nb"}, Message: "spec.x is no good"},
			{Reason: "ProgressDeadlineExceeded", Object: Object{"Deployment", "nb"}, Message: "it takes too long"},
		},
	}
}

func TestOneCauseGoesFirstAndTheOthersAreNamed(t *testing.T) {
	d := Diagnose(everything())
	var got []string
	for _, c := range append([]Cause{*d.Cause}, d.Others...) {
		got = append(got, strings.TrimSuffix(c.Reason+" "+c.Object.Name+" "+c.Container, " "))
	}
	want := []string{
		"InvalidSpec nb", "QuotaExceeded nb", "ProvisioningFailed home", "FailedMount nb-3", "FailedMount nb-3", "FailedScheduling nb-0",
		"ErrImagePull nb-1 notebook", "CreateContainerConfigError nb-1 proxy", "OOMKilled nb-1 hungry", "CrashLoopBackOff nb-4 notebook",
		"Unhealthy nb-2 notebook",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPodOfManyContainersHasFewCauses(t *testing.T) {
	const containers = 20000
	p := newPod()
	for i := range containers {
		name := fmt.Sprintf("c%d", i)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: name})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: waiting("ErrImagePull", textNotFound)})
	}
	if found := len(causesOf(Diagnose(Workload{Pods: pods(p)}))); found == 0 || found > 64 {
		t.Errorf("%d causes", found)
	}
}

func TestTheOrderOfWhatIsKnownChangesNothing(t *testing.T) {
	want := Diagnose(everything())
	for seed := range int64(200) {
		w, random := everything(), rand.New(rand.NewSource(seed))
		random.Shuffle(len(w.Pods), func(i, j int) { w.Pods[i], w.Pods[j] = w.Pods[j], w.Pods[i] })
		random.Shuffle(len(w.Events), func(i, j int) { w.Events[i], w.Events[j] = w.Events[j], w.Events[i] })
		random.Shuffle(len(w.Known), func(i, j int) { w.Known[i], w.Known[j] = w.Known[j], w.Known[i] })
		events := slices.Clone(w.Events)
		if diff := cmp.Diff(want, Diagnose(w)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if diff := cmp.Diff(events, w.Events); diff != "" {
			t.Fatalf("what was handed in is changed: %s", diff)
		}
	}
}

func TestReadyWorkloadsHaveNoCause(t *testing.T) {
	failed := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory. "}
	}
	run(t, map[string]diagnoseCase{
		"a pod that is ready": {Workload{Pods: pods(newPod(ready)), Events: []Event{podEvent(9, "notebook", "Failed", `Failed to pull image "x": y`)}}, wanted{}},
		"one that crashed before": {
			Workload{Pods: pods(newPod(ready, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].LastTerminationState = ended("OOMKilled", 137, 1) }))}, wanted{},
		},
		"a claim that nobody waits for": {
			Workload{Pods: pods(newPod(ready)), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{claimEvent(9, "ProvisioningFailed", "x")}}, wanted{},
		},
		"an evicted pod that has been replaced": {Workload{Pods: pods(newPod(failed, named("web-a", "a")), newPod(ready, named("web-b", "b"), created(10)))}, wanted{}},
		"a pod that is being deleted":           {Workload{Pods: pods(newPod(deleted, status(crashLooping(ended("Error", 1, 1), 1))))}, wanted{}},
		"a pod that has ended well":             {Workload{Pods: pods(newPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))}, wanted{}},
		"what is known of it all the same": {
			Workload{Pods: pods(newPod(ready)), Known: []Cause{{Reason: "InvalidSpec", Object: Object{"Pod", "nb-0"}, Message: "x"}}}, wanted{reason: "InvalidSpec", says: "x"},
		},
		"nothing": {Workload{}, wanted{}},
	})
}

func TestInitContainersAndSidecars(t *testing.T) {
	pulls := corev1.ContainerStatus{Name: "prepare", State: waiting("ErrImagePull", textNotFound)}
	main := status(corev1.ContainerStatus{State: waiting("PodInitializing", "")})
	crashed := crashLooping(ended("Error", 4, 60), 2)
	crashed.Name = "prepare"
	of := func(reason, container, says string, exit *int32, others ...string) wanted {
		return wanted{reason: reason, container: container, says: says, code: exit, others: others}
	}
	const sayCrashed = `container "prepare" ended with exit code 4: check its log (kubectl logs nb-0 -c prepare --previous)`
	run(t, map[string]diagnoseCase{
		"an init container's image": {Workload{Pods: pods(newPod(initStatus(pulls, false), main))},
			of("ErrImagePull", "prepare", `image "prepare:1" of container "prepare" cannot be pulled: the registry has no such image or tag: check the image name and tag`, nil)},
		"an init container crashes": {Workload{Pods: pods(newPod(initStatus(crashed, false), main))}, of("CrashLoopBackOff", "prepare", sayCrashed, new(int32(4)))},
		"an init container runs again after a crash": {
			Workload{Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: runningSince(61), LastTerminationState: ended("Error", 4, 60), RestartCount: 1}, false), main))},
			of("Error", "prepare", sayCrashed, new(int32(4))),
		},
		"an init container takes its time": {Workload{Pods: pods(newPod(initStatus(corev1.ContainerStatus{Name: "prepare", State: runningSince(1)}, false), main))}, wanted{}},
		"a sidecar crashes, and main does too": {
			Workload{Pods: pods(newPod(initStatus(crashed, true), status(crashLooping(ended("Error", 1, 60), 2))))},
			of("CrashLoopBackOff", "prepare", sayCrashed, new(int32(4)), "CrashLoopBackOff"),
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
			wanted{reason: "Unhealthy", container: "prepare", transient: true, says: `container "prepare" is not ready: its startup probe fails: no: check the probe and the container's log`},
		},
	})
}

func TestPodsThatTheirNodeLetGo(t *testing.T) {
	gone := func(reason, message string) []*corev1.Pod {
		return pods(newPod(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message}
		}))
	}
	notReady := newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 50))
	lost := newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 50), deleted)
	byTaint := func(p *corev1.Pod) {
		setCondition(corev1.DisruptionTarget, corev1.ConditionTrue, 100)(p)
		condition(p, corev1.DisruptionTarget).Reason = "DeletionByTaintManager"
	}
	tainted := newPod(deleted, byTaint, status(corev1.ContainerStatus{State: waiting("ContainerCreating", "")}))
	ends := newPod(deleted, byTaint, status(corev1.ContainerStatus{State: ended("Error", 143, 110)}))
	sayLost := wanted{reason: "NodeLost", transient: true, says: `node "node-a" of the pod does not respond: wait until the node is back or the pod is recreated on another node; if the problem persists, ask the cluster's administrator`}
	run(t, map[string]diagnoseCase{
		"memory": {Workload{Pods: gone("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container notebook was using 2Gi, request is 1Gi, has larger consumption of memory. ")},
			wanted{reason: "Evicted", transient: true, says: "the node ran low on memory and evicted the pod: request enough memory, so that the pod is not evicted first"}},
		"disk": {Workload{Pods: gone("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ")},
			wanted{reason: "Evicted", says: "the pod used more local disk space than its limit of 1Gi: raise resources.limits.ephemeral-storage, or write to a volume"}},
		"a full emptyDir": {Workload{Pods: gone("Evicted", `Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". `)},
			wanted{reason: "Evicted", says: `volume "tmp" of the pod exceeded its size limit of 1Gi: raise the volume's sizeLimit, or write less to the volume`}},
		"no room after all": {Workload{Pods: gone("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000")},
			wanted{reason: "Evicted", transient: true, says: "the node rejected the pod: Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000"}},
		"too long": {Workload{Pods: gone("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")},
			wanted{reason: "Error", says: "the pod ran longer than its activeDeadlineSeconds: raise activeDeadlineSeconds, or make the work shorter"}},
		"a node that does not answer": {Workload{Pods: pods(notReady), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}},
			sayLost},
		"a node that answered since":           {Workload{Pods: pods(newPod(ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 5000))), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, wanted{}},
		"a pod that cannot be deleted":         {Workload{Pods: pods(lost), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, sayLost},
		"a pod that its node's taint deletes":  {Workload{Pods: pods(tainted)}, sayLost},
		"its node answers":                     {Workload{Pods: pods(ends)}, wanted{}},
		"it is deleted, and its node was lost": {Workload{Pods: pods(newPod(ready, deleted)), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, wanted{}},
		"it has been replaced": {
			Workload{Pods: pods(lost, newPod(ready, named("nb-1", "b"), created(400))), Events: []Event{podEvent(50, "", "NodeNotReady", "Node is not ready")}}, wanted{},
		},
	})
}

func TestPodsThatAreGone(t *testing.T) {
	former := func(e Event) Event { e.UID = "former"; return e }
	pulls := podEvent(10, "notebook", "Failed", `Failed to pull image "jupyter:1": `+textNotFound)
	run(t, map[string]diagnoseCase{
		"pull": {Workload{Events: []Event{pulls}}, imageCause("ErrImagePull", sayNotFound, false)},
		"pull, a claim waits for the next pod": {
			Workload{Events: []Event{pulls}, Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}}, imageCause("ErrImagePull", sayNotFound, false),
		},
		"eviction": {Workload{Events: []Event{podEvent(20, "", "Evicted", "The node was low on resource: memory. "), pulls}},
			wanted{reason: "Evicted", transient: true, says: "the node ran low on memory and evicted the pod: request enough memory, so that the pod is not evicted first"}},
		"crash": {Workload{Events: []Event{podEvent(20, "notebook", "BackOff", "Back-off restarting failed container notebook in pod nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)")}},
			wanted{reason: "CrashLoopBackOff", container: "notebook", says: `container "notebook" keeps ending: the pod and its log no longer exist`}},
		"no node": {Workload{Events: []Event{podEvent(20, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")}},
			wanted{reason: "FailedScheduling", transient: true, says: "no node can take the pod: 1 Too many pods: wait until other pods end"}},
		"mount": {Workload{Events: []Event{podEvent(20, "", "FailedMount", `MountVolume.SetUp failed for volume "conf" : secret "s" not found`)}},
			wanted{reason: "FailedMount", says: `volume "conf" cannot be mounted: Secret "s" does not exist: create it, or correct its name`}},
		"probe": {Workload{Events: []Event{podEvent(20, "notebook", "Unhealthy", `Readiness probe failed: HTTP probe failed with statuscode: 500`)}},
			wanted{reason: "Unhealthy", container: "notebook", transient: true, says: `container "notebook" is not ready: its readiness probe returns HTTP status 500: check the probe's path and the container's log`}},
		"the last pod of the name": {
			Workload{Events: []Event{former(podEvent(5, "", "FailedScheduling", "0/1 nodes are available: 1 Too many pods.")), pulls}}, imageCause("ErrImagePull", sayNotFound, false),
		},
		"an earlier pod of the name is not the present one": {Workload{Pods: pods(newPod()), Events: []Event{former(pulls)}}, wanted{}},
		"nothing bad": {Workload{Events: []Event{podEvent(20, "notebook", "Started", "Started container notebook")}}, wanted{}},
	})
}

func TestWhatContainersWriteIsNotTold(t *testing.T) {
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

func TestTheLastCrashIsKnownAfterARecovery(t *testing.T) {
	crashedAt := func(name string, seconds int) *corev1.Pod {
		return newPod(ready, named(name, "x"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState = ended("OOMKilled", 137, seconds)
			p.Status.ContainerStatuses[0].RestartCount = 3
		})
	}
	got := LastCrash(pods(crashedAt("nb-0", 10), crashedAt("nb-1", 20), newPod(ready)))
	want := &Cause{
		Reason: "OOMKilled", Object: Object{"Pod", "nb-1"}, Container: "notebook", ExitCode: new(int32(137)), Time: at(20), Count: 3,
		Message: `container "notebook" was killed because it ran out of memory`, Advice: "reduce its memory use, or set a larger memory request and limit in resources",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := LastCrash(pods(newPod(ready))); got != nil {
		t.Errorf("got %+v", got)
	}
}

func causesOf(d Diagnosis) []Cause {
	if d.Cause == nil {
		return nil
	}
	return append([]Cause{*d.Cause}, d.Others...)
}

func TestEveryReasonHasItsPlace(t *testing.T) {
	for reason, rank := range precedence {
		if rank >= unknownPrecedence && reason != ReasonProgressDeadlineExceeded {
			t.Errorf("%s goes after what nobody knows", reason)
		}
	}
}

func FuzzDiagnose(f *testing.F) {
	for _, reason := range []string{"Failed", "BackOff", "FailedScheduling", "FailedMount", "FailedAttachVolume", "Unhealthy", "FailedCreate", "ProvisioningFailed", "FailedBinding", "Evicted", "Killing", "InspectFailed", "FailedCreatePodSandBox"} {
		f.Add(reason, textQuota, textNotFound, "spec.containers{notebook}", "notebook")
	}
	f.Add("CrashLoopBackOff", "\x1b[31m\u202e\xff", strings.Repeat("é", 5000), "spec.containers{\x00}", "${1}")
	f.Add("FailedScheduling", "0/3 nodes are available: 1 Insufficient cpu.", `persistentvolumeclaim "x" not found`, "", "x")
	f.Fuzz(func(t *testing.T, reason, note, message, path, name string) {
		about := func(o Object) Event {
			return Event{Reason: reason, Note: note, Regarding: o, FieldPath: path, LastSeen: at(5)}
		}
		events := []Event{
			about(Object{"Pod", "nb-0"}), about(Object{"PersistentVolumeClaim", "home"}), about(Object{"StatefulSet", name}), about(Object{name, note}),
			about(Object{"Pod", name}),
		}
		w := Workload{
			Pods: pods(
				newPod(status(corev1.ContainerStatus{State: waiting(reason, message)}), status(corev1.ContainerStatus{Name: name, State: runningSince(1), LastTerminationState: ended(reason, 1, 1)})),
				newPod(unscheduled(message), named("nb-1", "b")),
				newPod(named("nb-2", "c")),
				newPod(named("nb-3", "d"), func(p *corev1.Pod) {
					p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
				}),
			),
			Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: events, Nodes: nodes(1, "1", "1Gi"),
			Known: []Cause{{Reason: reason, Object: Object{name, note}, Container: path, Message: message, Advice: note}},
		}
		d := Diagnose(w)
		for _, c := range append(causesOf(d), causesOf(Diagnose(Workload{Events: events}))...) {
			checkSound(t, &c)
			failure := RecordFailure(nil, &c, at(9))
			if failureIdentity(failure) != c.Identity() {
				t.Errorf("%q is not %q", failureIdentity(failure), c.Identity())
			}
		}
		slices.Reverse(w.Events)
		slices.Reverse(w.Pods)
		if diff := cmp.Diff(d, Diagnose(w), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// checkSound holds a cause against the limits of the API, and of a terminal.
func checkSound(t *testing.T, c *Cause) {
	t.Helper()
	for what, tc := range map[string]struct {
		text  string
		limit int
	}{
		"sentence": {c.Sentence(), 1024}, "reason": {c.Reason, 64}, "container": {c.Container, 63},
		"kind": {c.Object.Kind, 63}, "name": {c.Object.Name, 253},
	} {
		if len(tc.text) > tc.limit || !utf8.ValidString(tc.text) || strings.ContainsFunc(tc.text, unicode.IsControl) {
			t.Errorf("%s: %q", what, tc.text)
		}
	}
	if c.Count < 1 {
		t.Errorf("count %d", c.Count)
	}
}
