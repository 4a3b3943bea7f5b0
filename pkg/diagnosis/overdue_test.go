package diagnosis

import (
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

var wait = regexp.MustCompile(`\bwait\b`)

func TestEachRuleThatAdvisesToWaitSaysWhatElseHelps(t *testing.T) {
	for _, r := range allRules() {
		if waits := wait.MatchString(r.advice); waits != (r.late != "") {
			t.Errorf("rule %s advises %q, and later %q", r.name, r.advice, r.late)
		}
		if wait.MatchString(r.late) {
			t.Errorf("rule %s advises to wait although waiting has not helped: %q", r.name, r.late)
		}
	}
}

func TestEveryAdviceToWaitInTheCorpusEnds(t *testing.T) {
	const fewest = 150
	ended := 0
	for _, file := range corpusFiles(t) {
		states := readCorpus(t, file)
		for i := range states {
			s := &states[i]
			first := s.cause(t)
			if first == nil || !wait.MatchString(first.Advice) {
				continue
			}
			s.now = at(0).Add(10 * time.Hour)
			late := s.cause(t)
			if first.Since.IsZero() {
				t.Errorf("%s: nothing is known about the begin", s.State)
			}
			if late == nil || !strings.HasPrefix(late.Advice, "waiting since ") || wait.MatchString(late.Advice) {
				t.Errorf("%s: after 10 hours: %+v", s.State, late)
				continue
			}
			if first.Identity() != late.Identity() {
				t.Errorf("%s: it is another failure when it is late", s.State)
			}
			ended++
		}
	}
	if ended < fewest {
		t.Errorf("%d states, want at least %d", ended, fewest)
	}
}

func TestAnAdviceToWaitChangesOnce(t *testing.T) {
	diagnoseAt := func(age time.Duration) *Cause {
		return Diagnose(Workload{
			Now:    at(0).Add(age),
			Pods:   pods(newPod(setCondition(corev1.PodReady, corev1.ConditionFalse, 0), status(corev1.ContainerStatus{State: waiting("ContainerCreating", "")}))),
			Events: []Event{podEvent(10, "", "FailedMount", `MountVolume.SetUp failed for volume "v" : rpc error: code = DeadlineExceeded desc = context deadline exceeded`)},
		}).Cause
	}
	const message = `volume "v" cannot be attached or mounted yet: the storage driver takes too long: `
	for age, want := range map[time.Duration]struct {
		advice string
		left   time.Duration
	}{
		time.Second:      {administratorLater, 30*time.Minute - time.Second},
		time.Minute:      {administratorLater, 29 * time.Minute},
		30 * time.Minute: {"waiting since 2026-03-01 09:00 UTC has not helped: ask the cluster's administrator", 0},
		72 * time.Hour:   {"waiting since 2026-03-01 09:00 UTC has not helped: ask the cluster's administrator", 0},
	} {
		c := diagnoseAt(age)
		if got := c.Sentence(); got != message+want.advice || c.WaitLeft(at(0).Add(age)) != want.left {
			t.Errorf("after %s: %q, %s left", age, got, c.WaitLeft(at(0).Add(age)))
		}
	}
	first, late := diagnoseAt(time.Minute), diagnoseAt(time.Hour)
	failure := RecordFailure(nil, first, at(60))
	if again := RecordFailure(failure, late, at(3600)); !again.FirstTime.Equal(&failure.FirstTime) {
		t.Error("it is recorded as another failure when it is late")
	}
}

// What a probe may take is a normal start, however long it is.
func TestANormalStartIsNotWaitedForInVain(t *testing.T) {
	c := Cause{Advice: "wait", LateAdvice: "check it", Since: at(0), LateAfter: at(7200)}
	if c.endWait(at(3600)); c.Advice != "wait" || c.WaitLeft(at(3600)) != time.Hour {
		t.Errorf("%+v", c)
	}
	if c.endWait(at(7200)); c.Advice == "wait" {
		t.Errorf("%+v", c)
	}
}

func TestTheBeginOfACause(t *testing.T) {
	between := func(e Event, first, last int) Event {
		e.FirstSeen, e.LastSeen = at(first), at(last)
		return e
	}
	failure := func(condition string) *Cause {
		r := &appsv1.ReplicaSet{}
		r.Status.Conditions = []appsv1.ReplicaSetCondition{{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: condition, LastTransitionTime: metaAt(7),
		}}
		return FromController(r)
	}
	scaling := &autoscalingv2.HorizontalPodAutoscaler{}
	scaling.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, LastTransitionTime: metaAt(7)}}
	stuck, _ := StuckPod(newPod(deleted), nil, nil, at(1000))
	const provisioning = "rpc error: code = Unavailable desc = connection refused"
	other := claimEvent(40, ReasonProvisioningFailed, provisioning+" again")
	for name, tc := range map[string]struct {
		c    *Cause
		want int
	}{
		"an Event":                       {Diagnose(Workload{Events: []Event{between(setEvent(0, textQuota), 7, 50)}}).Cause, 7},
		"an Event alone":                 {FromEvent(between(setEvent(0, textQuota), 7, 50)), 7},
		"a condition of a ReplicaSet":    {failure("pods is forbidden"), 7},
		"a condition of an autoscaler":   {&FromAutoscaler(scaling)[0], 7},
		"a pod that is not ready":        {Diagnose(Workload{Pods: pods(newPod(status(corev1.ContainerStatus{State: waiting("ErrImagePull", "")})))}).Cause, 1},
		"a pod that was scheduled later": {Diagnose(Workload{Pods: pods(newPod(setCondition(corev1.PodScheduled, corev1.ConditionTrue, 7), status(corev1.ContainerStatus{State: waiting("ErrImagePull", "")})))}).Cause, 7},
		"a pod that does not end":        {stuck, 100},
		"the first of several Events of a claim": {
			Diagnose(Workload{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{between(claimEvent(0, ReasonProvisioningFailed, provisioning), 7, 30), other}}).Cause, 7,
		},
		"a claim whose Event has no time": {
			Diagnose(Workload{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{timeless(other)}}).Cause, 0,
		},
		"a claim that waited for a pod before": {
			Diagnose(Workload{Claims: []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}, Events: []Event{between(claimEvent(0, "ExternalProvisioning", ""), 7, 30)}}).Cause, 7,
		},
		"the same of several pods": {
			Diagnose(Workload{Pods: pods(
				newPod(named("web-1", "a"), created(20), setCondition(corev1.PodReady, corev1.ConditionFalse, 20), status(corev1.ContainerStatus{State: waiting("ErrImagePull", textTimeout)})),
				newPod(named("web-2", "b"), status(corev1.ContainerStatus{State: waiting("ErrImagePull", textTimeout)})),
			)}).Cause, 1,
		},
	} {
		if tc.c == nil || !tc.c.Since.Equal(at(tc.want)) {
			t.Errorf("%s: %+v", name, tc.c)
		}
	}
}

func TestAnEventThatLastsIsLate(t *testing.T) {
	e := Event{Type: corev1.EventTypeWarning, Reason: "FailedKillPod", Note: "error killing pod", Regarding: Object{"Pod", "nb-0"}, FirstSeen: at(0), LastSeen: at(3600)}
	if c := FromEvent(e); !strings.HasPrefix(c.Advice, "waiting since 2026-03-01 09:00 UTC has not helped: ") {
		t.Error(c.Sentence())
	}
	e.LastSeen = at(60)
	if c := FromEvent(e); c.Advice != administratorLater {
		t.Error(c.Sentence())
	}
}
