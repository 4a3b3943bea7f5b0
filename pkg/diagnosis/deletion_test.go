package diagnosis_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func TestStuckPod(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	type want struct {
		Reason, Sentence string
		Again            time.Duration
	}
	lost := map[string]diagnosis.NodeState{"node-b": {Lost: true}}
	for name, tc := range map[string]struct {
		deleted    time.Duration // before now
		finalizers []string
		node       string
		lost       map[string]diagnosis.NodeState
		killed     string // the note of FailedKillPod
		want       want
	}{
		"not deleted":             {node: "node-b", lost: lost},
		"within its grace period": {deleted: -20 * time.Second, node: "node-b", lost: lost, want: want{Again: 80 * time.Second}},
		"just after it":           {deleted: 59 * time.Second, node: "node-b", lost: lost, want: want{Again: time.Second}},
		"the node is lost": {
			deleted: time.Hour, node: "node-b", lost: lost,
			want: want{"NodeLost", `the pod cannot be deleted while node "node-b" does not respond: repair the node; if it is off for good, an administrator adds the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or deletes the node`, time.Minute},
		},
		"the node responds": {
			deleted: 20 * time.Minute, node: "node-a", lost: lost,
			want: want{"Terminating", `the pod is still being deleted: node "node-a" has not confirmed that its containers ended and its volumes are unmounted: wait; if the problem persists, ask the cluster's administrator`, time.Minute},
		},
		"the node responds, and it is late": {
			deleted: time.Hour, node: "node-a", lost: lost,
			want: want{"Terminating", `the pod is still being deleted: node "node-a" has not confirmed that its containers ended and its volumes are unmounted: waiting since 2026-03-01 08:00 UTC has not helped: ask the cluster's administrator`, time.Minute},
		},
		"the nodes are unknown": {
			deleted: 20 * time.Minute, node: "node-b",
			want: want{"Terminating", `the pod is still being deleted: node "node-b" has not confirmed that its containers ended and its volumes are unmounted: wait; if the problem persists, ask the cluster's administrator`, time.Minute},
		},
		"the network plugin fails": {
			deleted: 20 * time.Minute, node: "node-a", lost: lost,
			killed: `error killing pod: failed to "KillPodSandbox" for "270f7734-2e29-4d2c-9de3-c83fbe80a3ad" with KillPodSandboxError: "rpc error: code = Unknown desc = failed to destroy network for sandbox \"e031\": plugin type=\"calico\" failed (delete): error getting ClusterInformation: connection is unauthorized: Unauthorized"`,
			want:   want{"Terminating", `node "node-a" cannot end the pod: the API server does not accept the credentials of network plugin calico: wait; if the problem persists, ask the cluster's administrator`, time.Minute},
		},
		"the runtime does not answer": {
			deleted: 20 * time.Minute, node: "node-a", lost: lost,
			killed: `error killing pod: [failed to "KillContainer" for "web" with KillContainerError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded", failed to "KillPodSandbox" for "0c98df45-982b-4a22-a977-7dac36a014c7" with KillPodSandboxError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"]`,
			want:   want{"Terminating", `node "node-a" cannot end the pod: context deadline exceeded: wait; if the problem persists, ask the cluster's administrator`, time.Minute},
		},
		"finalizers, within their grace period": {deleted: 4 * time.Second, node: "node-b", finalizers: []string{"a.example/hold"}, want: want{Again: 6 * time.Second}},
		"finalizers, just after it": {
			deleted: 10 * time.Second, node: "node-b", finalizers: []string{"a.example/hold"},
			want: want{"FinalizersRemaining", `the deletion of the pod waits until these finalizers are removed: a.example/hold: check that the controller that removes them runs; remove them yourself only if it no longer exists`, time.Minute},
		},
		"finalizers": {
			deleted: time.Hour, node: "node-b", lost: lost, finalizers: []string{"b.example/\x1b[1m", "a.example/hold"},
			want: want{"FinalizersRemaining", `the deletion of the pod waits until these finalizers are removed: a.example/hold, b.example/[1m: check that the controller that removes them runs; remove them yourself only if it no longer exists`, time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nb-0", Finalizers: tc.finalizers}, Spec: corev1.PodSpec{NodeName: tc.node}}
			if tc.deleted != 0 {
				pod.DeletionTimestamp = new(metav1.NewTime(now.Add(-tc.deleted)))
			}
			var events []diagnosis.Event
			if tc.killed != "" {
				events = []diagnosis.Event{{Type: "Warning", Reason: "FailedKillPod", Note: tc.killed, Regarding: diagnosis.Object{Kind: "Pod", Name: "nb-0"}, LastSeen: now}}
			}
			cause, again := diagnosis.StuckPod(pod, events, tc.lost, now)
			got := want{Again: again}
			if cause != nil {
				got.Reason, got.Sentence = cause.Reason, cause.Sentence()
				if !cause.Transient || cause.Object != (diagnosis.Object{Kind: "Pod", Name: "nb-0"}) {
					t.Errorf("got %+v, want a cause in the pod that waiting can remove", cause)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStuckPodsAreCausesBesidesOthers(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	deleted := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: new(metav1.NewTime(now.Add(-time.Hour)))}, Spec: corev1.PodSpec{NodeName: node}}
	}
	leaving := deleted("web-2", "node-a")
	leaving.DeletionTimestamp.Time = now.Add(-20 * time.Second)
	w := diagnosis.Workload{NodeStates: map[string]diagnosis.NodeState{"node-b": {Lost: true}}}
	deadline := diagnosis.Cause{Reason: diagnosis.ReasonProgressDeadlineExceeded, Object: diagnosis.Object{Kind: "Deployment", Name: "web"}, Message: "x"}
	attach := diagnosis.Cause{Reason: diagnosis.ReasonFailedAttachVolume, Object: diagnosis.Object{Kind: "Pod", Name: "web-9"}, Message: "x"}
	lost := diagnosis.Cause{Reason: diagnosis.ReasonNodeLost, Object: diagnosis.Object{Kind: "Pod", Name: "web-0"}, Message: "x"}
	for name, tc := range map[string]struct {
		cause *diagnosis.Cause
		pods  []*corev1.Pod
		want  []string
		again time.Duration
	}{
		"none":                         {pods: []*corev1.Pod{{}}},
		"instead of a deadline":        {&deadline, []*corev1.Pod{deleted("web-0", "node-b")}, []string{"NodeLost Pod web-0"}, time.Minute},
		"besides a volume":             {&attach, []*corev1.Pod{deleted("web-0", "node-a"), leaving}, []string{"FailedAttachVolume Pod web-9", "Terminating Pod web-0"}, 40 * time.Second},
		"two on the same node":         {nil, []*corev1.Pod{deleted("web-0", "node-b"), deleted("web-1", "node-b")}, []string{"NodeLost Pod web-0"}, time.Minute},
		"the cause is known":           {&lost, []*corev1.Pod{deleted("web-0", "node-b")}, []string{"NodeLost Pod web-0"}, time.Minute},
		"within the grace period":      {nil, []*corev1.Pod{leaving}, nil, 40 * time.Second},
		"a deadline, and none of them": {&deadline, []*corev1.Pod{leaving}, []string{"ProgressDeadlineExceeded Deployment web"}, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnosis.Diagnosis{Cause: tc.cause}
			again := d.AddStuck(tc.pods, w, now)
			var got []string
			if d.Cause != nil {
				for _, c := range append([]diagnosis.Cause{*d.Cause}, d.Others...) {
					got = append(got, c.Reason+" "+c.Object.Kind+" "+c.Object.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || again != tc.again {
				t.Errorf("again after %v: %s", again, diff)
			}
		})
	}
}
