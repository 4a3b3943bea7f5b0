package diagnosis

import (
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

func BenchmarkDiagnose(b *testing.B) {
	for name, w := range map[string]Workload{
		"OutOfMemory": {Pods: pods(newPod(status(crashLooping(ended("OOMKilled", 137, 60), 3))))},
		"Everything":  everything(),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Diagnose(w)
			}
		})
	}
}

// everything is a workload with all kinds of problems.
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

func TestCausesAreOrderedByPrecedence(t *testing.T) {
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

func TestInputOrderDoesNotChangeTheDiagnosis(t *testing.T) {
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
			t.Fatalf("the input was changed: %s", diff)
		}
	}
}

func TestReadyWorkloadHasNoCause(t *testing.T) {
	failed := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory. "}
	}
	run(t, map[string]diagnoseCase{
		"a ready pod": {Workload{Pods: pods(newPod(ready)), Events: []Event{podEvent(9, "notebook", "Failed", `Failed to pull image "x": y`)}}, wantCause{}},
		"a ready pod that crashed before": {
			Workload{Pods: pods(newPod(ready, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].LastTerminationState = ended("OOMKilled", 137, 1) }))}, wantCause{},
		},
		"a pending claim that no pod waits for": {
			Workload{Pods: pods(newPod(ready)), Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{claimEvent(9, "ProvisioningFailed", "x")}}, wantCause{},
		},
		"an evicted pod that has been replaced": {Workload{Pods: pods(newPod(failed, named("web-a", "a")), newPod(ready, named("web-b", "b"), created(10)))}, wantCause{}},
		"a deleted pod":                         {Workload{Pods: pods(newPod(deleted, status(crashLooping(ended("Error", 1, 1), 1))))}, wantCause{}},
		"a completed pod":                       {Workload{Pods: pods(newPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))}, wantCause{}},
		"a known cause is still reported": {
			Workload{Pods: pods(newPod(ready)), Known: []Cause{{Reason: "InvalidSpec", Object: Object{"Pod", "nb-0"}, Message: "x"}}}, wantCause{reason: "InvalidSpec", sentence: "x"},
		},
		"nothing": {Workload{}, wantCause{}},
	})
}

func causesOf(d Diagnosis) []Cause {
	if d.Cause == nil {
		return nil
	}
	return append([]Cause{*d.Cause}, d.Others...)
}

func TestEveryReasonHasAPrecedence(t *testing.T) {
	for reason, rank := range precedence {
		if rank >= unknownPrecedence && reason != ReasonProgressDeadlineExceeded {
			t.Errorf("%s has a lower precedence than unknown reasons", reason)
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
			checkLimits(t, &c)
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

// checkLimits fails if a cause exceeds a limit or contains control characters.
func checkLimits(t *testing.T, c *Cause) {
	t.Helper()
	for field, tc := range map[string]struct {
		text  string
		limit int
	}{
		"sentence": {c.Sentence(), limitOf(c.Reason, 700) + 324}, "reason": {c.Reason, 64}, "container": {c.Container, 63},
		"kind": {c.Object.Kind, 63}, "name": {c.Object.Name, 253},
	} {
		if len(tc.text) > tc.limit || !utf8.ValidString(tc.text) || strings.ContainsFunc(tc.text, unicode.IsControl) {
			t.Errorf("%s: %q", field, tc.text)
		}
	}
	if c.Count < 1 {
		t.Errorf("count %d", c.Count)
	}
}
