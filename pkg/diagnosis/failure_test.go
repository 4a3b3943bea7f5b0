package diagnosis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func crashCause(exit int32, seconds int) *Cause {
	return Diagnose(Workload{Pods: pods(newPod(status(crashLooping(ended("Error", exit, seconds), 3))))}).Cause
}

func TestRecordFailure(t *testing.T) {
	first := RecordFailure(nil, crashCause(1, 60), at(70))
	if diff := cmp.Diff(&Failure{
		Reason: "CrashLoopBackOff", Message: sentenceCrash, Object: Object{Kind: "Pod", Name: "nb-0"}, Container: "notebook",
		ExitCode: new(int32(1)), FirstTime: metav1.NewTime(at(60)), LastTime: metav1.NewTime(at(60)), Count: 1,
	}, first); diff != "" {
		t.Fatal(diff)
	}
	if got := RecordFailure(first, nil, at(90)); got != first {
		t.Errorf("a recovery changed it: %+v", got)
	}
	if got := RecordFailure(first, crashCause(1, 60), at(90)); got != first {
		t.Errorf("it did not happen again: %+v", got)
	}
	second := RecordFailure(first, crashCause(1, 80), at(90))
	if second.Count != 2 || !second.FirstTime.Equal(&first.FirstTime) || !second.LastTime.Time.Equal(at(80)) {
		t.Errorf("it happened again: %+v", second)
	}
	if first.Count != 1 {
		t.Error("the argument was changed")
	}
	if other := RecordFailure(second, crashCause(2, 95), at(99)); other.Count != 1 || *other.ExitCode != 2 || !other.FirstTime.Time.Equal(at(95)) {
		t.Errorf("another exit code is another failure: %+v", other)
	}
}

func TestFailureKnownFromEventsCountsOnceAMinute(t *testing.T) {
	mount := func(seconds int) *Cause {
		return Diagnose(Workload{Pods: waits("ContainerCreating", ""), Events: []Event{podEvent(seconds, "", "FailedMount", `MountVolume.SetUp failed for volume "v" : timeout`)}}).Cause
	}
	first := RecordFailure(nil, mount(60), at(60))
	if got := RecordFailure(first, mount(110), at(110)); got != first {
		t.Errorf("within a minute: %+v", got)
	}
	if got := RecordFailure(first, mount(120), at(121)); got.Count != 2 || !got.LastTime.Time.Equal(at(120)) {
		t.Errorf("after a minute: %+v", got)
	}
	untimed := mount(60)
	untimed.Time = time.Time{}
	if got := RecordFailure(first, untimed, at(9000)); got != first {
		t.Errorf("no time, but it counts again: %+v", got)
	}
}

func TestFutureTimeIsReplacedByNow(t *testing.T) {
	if got := RecordFailure(nil, crashCause(1, 5000), at(70)); !got.LastTime.Time.Equal(at(70)) {
		t.Errorf("got %v", got.LastTime)
	}
}

func TestFailureWithAFutureTimeCountsOnce(t *testing.T) {
	first := RecordFailure(nil, crashCause(1, 300), at(70))
	for seconds := 80; seconds < 300; seconds += 10 {
		if got := RecordFailure(first, crashCause(1, 300), at(seconds)); got != first {
			t.Fatalf("%d seconds: %+v", seconds, got)
		}
	}
	if HappenedAfter(first, crashCause(1, 300), at(90)) || !HappenedAfter(first, crashCause(1, 80), at(90)) || !HappenedAfter(nil, crashCause(1, 300), at(90)) {
		t.Error("it must have happened since, and not in the future")
	}
}

func TestLastingFailureCountsAtIncreasingIntervals(t *testing.T) {
	const day = 24 * 60
	var last *Failure
	writes := 0
	for minute := range day {
		now := at(60 * minute)
		next := RecordFailure(last, &Cause{Reason: "FailedMount", Message: "x", Time: now}, now)
		if next != last {
			writes++
		}
		last = next
		if now.Sub(last.LastTime.Time) >= time.Hour {
			t.Fatalf("the last time is %v, at %v", last.LastTime, now)
		}
	}
	if writes > 40 {
		t.Errorf("%d writes in a day", writes)
	}
}

func TestIdentity(t *testing.T) {
	cause := func(message string) *Cause {
		return &Cause{Reason: "X", Object: Object{"Pod", "web-abc12"}, Message: message}
	}
	noNode := func(text string) *Cause { return Diagnose(Workload{Pods: pods(newPod(unscheduled(text)))}).Cause }
	const selector = "3 node(s) didn't match Pod's node affinity/selector"
	for name, tc := range map[string]struct {
		a, b *Cause
		same bool
	}{
		"a node is cordoned": {
			noNode("0/3 nodes are available: 3 Insufficient cpu."), noNode("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."), true,
		},
		"a node starts": {
			noNode("0/3 nodes are available: " + selector + "."),
			noNode("0/4 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, " + selector + "."), true,
		},
		"another selector": {
			noNode("0/3 nodes are available: 3 Insufficient cpu."), noNode("0/3 nodes are available: " + selector + "."), false,
		},
		"unknown obstacles": {noNode("0/3 nodes are available: 3 too old."), noNode("0/3 nodes are available: 3 too new."), false},
		"same cause":        {cause("x"), cause("x"), true},
		"back-offs":         {cause("back-off 10s restarting"), cause("back-off 2m40s restarting"), true},
		"addresses":         {cause("dial 10.0.0.1:8888: refused"), cause("dial 10.0.0.22:8888: refused"), true},
		"v6 addresses":      {cause("dial [fd00::1]:8888: refused"), cause("dial [fd00::2]:8888: refused"), true},
		"UIDs":              {cause("pod 3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e"), cause("pod 3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4f"), true},
		"usage of quotas":   {cause("pods asked 1, used 3 of 4"), cause("pods asked 1, used 4 of 4"), true},
		"nodes":             {cause("0/3 nodes: 2 Insufficient cpu, 1 node(s) had taints"), cause("0/4 nodes: 3 Insufficient cpu, 1 node(s) had taints"), true},
		"another pod": {
			&Cause{Reason: "X", Object: Object{"Pod", "web-abc12"}, Message: "kubectl logs web-abc12"}, &Cause{Reason: "X", Object: Object{"Pod", "web-def34"}, Message: "kubectl logs web-def34"}, true,
		},
		"IDs of containers": {
			cause(fmt.Sprintf(`name "nb_web-abc12_shop_3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e_3" is reserved for "%064x"`, 1)),
			cause(fmt.Sprintf(`name "nb_web-abc12_shop_3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e_4" is reserved for "%064x"`, 2)), true,
		},
		"another class exists": {
			cause(`StorageClass "x" does not exist: use one of a, b`), cause(`StorageClass "x" does not exist: use one of a`), true,
		},
		"the only other class is gone": {
			cause(`PriorityClass "x" does not exist: use one of a`), cause(`PriorityClass "x" does not exist: omit priorityClassName, or ask the cluster's administrator for a class`), true,
		},
		"the stage after a start failed": {
			&Cause{Reason: ReasonRunContainerError, Message: "x"}, &Cause{Reason: ReasonRunContainerError, ExitCode: new(int32(128)), Message: "x"}, true,
		},
		"another missing class": {cause(`PriorityClass "x" does not exist: use one of a`), cause(`PriorityClass "y" does not exist: use one of a`), false},
		"another message":       {cause("x"), cause("y"), false},
		"another tag":           {cause(`image "jupyter:1" cannot`), cause(`image "jupyter:2" cannot`), false},
		"another digest":        {cause(fmt.Sprintf("image x@sha256:%064x", 1)), cause(fmt.Sprintf("image x@sha256:%064x", 2)), false},
		"another request":       {cause("the pod asks for 64"), cause("the pod asks for 32"), false},
		"another exit code":     {crashCause(1, 1), crashCause(2, 1), false},
		"another reason":        {&Cause{Reason: "X", Message: "x"}, &Cause{Reason: "Y", Message: "x"}, false},
		"another kind":          {&Cause{Object: Object{Kind: "Pod"}, Message: "x"}, &Cause{Object: Object{Kind: "Claim"}, Message: "x"}, false},
		"another container":     {&Cause{Container: "a", Message: "x"}, &Cause{Container: "b", Message: "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Identity() == tc.b.Identity(); got != tc.same {
				t.Errorf("same is %v:\n%s\n%s", got, tc.a.Identity(), tc.b.Identity())
			}
		})
	}
}

// alternate lets a workload alternate between states. It returns the identities of the
// reported causes, and how often the status was written.
func alternate(times int, states ...Workload) (reported map[string]bool, writes int) {
	reported = map[string]bool{}
	var last *Failure
	for i := range times {
		cause := Diagnose(states[i%len(states)]).Cause.Stabilize(last)
		reported[cause.Identity()] = true
		next := RecordFailure(last, &cause, at(100+i))
		if last == nil || cmp.Diff(*last, *next) != "" {
			writes++
		}
		last = next
	}
	return reported, writes
}

func TestAlternatingStagesAreReportedAtMostTwice(t *testing.T) {
	failed := []Event{podEvent(10, "notebook", "Failed", `Failed to pull image "jupyter:1": `+textNotFound)}
	const short = `Back-off pulling image "jupyter:1"`
	state := func(s corev1.ContainerStatus) Workload { return Workload{Pods: pods(newPod(status(s)))} }
	for name, tc := range map[string][]Workload{
		"image": {
			{Pods: waits("ErrImagePull", textNotFound)}, {Pods: waits("ImagePullBackOff", short+": ErrImagePull: "+textNotFound)},
		},
		"image of an old kubelet": {
			{Pods: waits("ErrImagePull", textNotFound), Events: failed}, {Pods: waits("ImagePullBackOff", short), Events: failed}, {Pods: waits("ImagePullBackOff", short)},
		},
		"crash": {
			state(corev1.ContainerStatus{State: ended("Error", 1, 60)}), state(crashLooping(ended("Error", 1, 60), 0)),
			state(corev1.ContainerStatus{State: runningSince(61), LastTerminationState: ended("Error", 1, 60), RestartCount: 1}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if reported, writes := alternate(50, tc...); len(reported) > 2 || writes > 2 {
				t.Errorf("%d writes, reported %v", writes, reported)
			}
		})
	}
}

func TestChangingSchedulerTextIsReportedOnce(t *testing.T) {
	asks := func(text, largest string) Workload {
		return Workload{Pods: pods(newPod(unscheduled(text), asking("64", "1Gi"))), Nodes: nodes(3, largest, "16Gi")}
	}
	reported, writes := alternate(50,
		asks("0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 2 Insufficient cpu.", "4"),
		asks("0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 2 Insufficient memory.", "8"),
		asks("0/24 nodes are available: 11 Insufficient cpu, 2 Insufficient memory, 11 node(s) had untolerated taint(s). preemption: 0/24 nodes are available: 24 Preemption is not helpful for scheduling.", "16"))
	if len(reported) > 1 || writes > 1 {
		t.Errorf("%d writes, reported %v", writes, reported)
	}
}

func TestDifferentFailureOfTheSameContainerIsReported(t *testing.T) {
	last := RecordFailure(nil, Diagnose(Workload{Pods: waits("ImagePullBackOff", "x: "+textNotFound)}).Cause, at(10))
	next := Diagnose(Workload{Pods: waits("ErrImagePull", textDenied)}).Cause.Stabilize(last)
	if got := RecordFailure(last, &next, at(20)); got.Message != sentenceDenied || got.Reason != "ImagePullBackOff" || got.Count != 1 {
		t.Errorf("got %+v", got)
	}
}

// After each crash, the status of a container is first Error, then CrashLoopBackOff.
func TestCrashCountsOnceInEitherStage(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	crash := func(reason string, at time.Duration) *Cause {
		return &Cause{
			Reason: reason, Object: Object{kindPod, "nb-0"}, Container: "notebook", ExitCode: new(int32(3)),
			Message: "container ended with exit code 3", Time: now.Add(at), Count: 1,
		}
	}
	var last *Failure
	for i := range 4 {
		at := time.Duration(i) * time.Minute
		last = RecordFailure(last, crash(ReasonError, at), now.Add(at))
		last = RecordFailure(last, crash(ReasonCrashLoopBackOff, at), now.Add(at+time.Second))
	}
	if last.Count != 4 || last.Reason != ReasonCrashLoopBackOff || !last.FirstTime.Time.Equal(now) {
		t.Errorf("remembered as %+v", last)
	}
}

// Each stage would otherwise be an Event of its own.
func TestAFailureWithSeveralStagesHasOneReasonForEvents(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		cause  Cause
		reason string
		wait   time.Duration
	}{
		"a container that has just ended":       {cause: Cause{Reason: ReasonError, Time: now.Add(-2 * time.Second)}, wait: 3 * time.Second},
		"a container that has not ended again":  {cause: Cause{Reason: ReasonError, Time: now.Add(-5 * time.Second)}, reason: "Error"},
		"a container that waits for a restart":  {cause: Cause{Reason: ReasonCrashLoopBackOff, Time: now}, reason: "CrashLoopBackOff"},
		"an image that has just not been found": {cause: Cause{Reason: ReasonErrImagePull, Time: now}, reason: "ImagePullBackOff"},
		"memory":                                {cause: Cause{Reason: ReasonOOMKilled, Time: now}, reason: "OOMKilled"},
	} {
		if reason, wait := tc.cause.EventReason(now); reason != tc.reason || wait != tc.wait {
			t.Errorf("%s: %q after %s", name, reason, wait)
		}
	}
}
