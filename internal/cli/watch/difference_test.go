package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummary(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"phase": {
			`{kind: Pod, status: {phase: Pending}}`, `{kind: Pod, status: {phase: Running}}`,
			"phase Pending -> Running",
		},
		"a pod becomes ready": {
			`{kind: Pod, spec: {containers: [{name: app}]}, status: {containerStatuses: [{name: app, ready: false, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]}}`,
			`{kind: Pod, spec: {containers: [{name: app}]}, status: {containerStatuses: [{name: app, ready: true, restartCount: 0, state: {running: {startedAt: "now"}}}]}}`,
			"ready 0/1 -> 1/1, container app waiting: ContainerCreating -> running",
		},
		"a container is killed": {
			`{kind: Pod, status: {containerStatuses: [{name: app, restartCount: 1, state: {running: {}}}]}}`,
			`{kind: Pod, status: {containerStatuses: [{name: app, restartCount: 2, state: {terminated: {reason: OOMKilled, exitCode: 137}}}]}}`,
			"container app running -> terminated: OOMKilled, exit code 137, restarts 1 -> 2",
		},
		"a container completes": {
			`{kind: Pod, status: {initContainerStatuses: [{name: init, state: {running: {}}}]}}`,
			`{kind: Pod, status: {initContainerStatuses: [{name: init, state: {terminated: {reason: Completed, exitCode: 0}}}]}}`,
			"container init running -> terminated: Completed",
		},
		"the first status of a container": {
			`{kind: Pod, status: {}}`, `{kind: Pod, status: {containerStatuses: [{name: app}]}}`,
			"container app <none> -> waiting",
		},
		"an image and a node": {
			`{kind: Pod, spec: {containers: [{name: app, image: "a:1"}]}}`,
			`{kind: Pod, spec: {nodeName: node-1, containers: [{name: app, image: "a:2"}]}}`,
			"image app a:1 -> a:2, node <none> -> node-1",
		},
		"a container restarts": {
			`{kind: Pod, status: {containerStatuses: [{name: app, imageID: "", containerID: "a", restartCount: 0}]}}`,
			`{kind: Pod, status: {containerStatuses: [{name: app, imageID: "sha256:1", containerID: "b", restartCount: 1}]}}`,
			"restarts 0 -> 1",
		},
		"a condition, with reason and message": {
			`{status: {conditions: [{type: Available, status: "True", lastTransitionTime: "1"}]}}`,
			`{status: {conditions: [{type: Available, status: "False", reason: NoPods, message: none is ready, lastTransitionTime: "2"}]}}`,
			"Available True -> False (NoPods: none is ready)",
		},
		"conditions for the same reason": {
			`{status: {conditions: [{type: A, status: "True"}, {type: B, status: "True"}]}}`,
			`{status: {conditions: [{type: A, status: "False", reason: Gone}, {type: B, status: "False", reason: Gone}]}}`,
			"A True -> False (Gone), B True -> False",
		},
		"only a condition's message": {
			`{status: {conditions: [{type: Ready, status: "False", reason: A, message: one}]}}`,
			`{status: {conditions: [{type: Ready, status: "False", reason: A, message: two}]}}`,
			"Ready False (A: two)",
		},
		"conditions in another order": {
			`{status: {conditions: [{type: A, status: "True"}, {type: B, status: "True"}]}}`,
			`{status: {conditions: [{type: B, status: "True"}, {type: A, status: "True"}]}}`,
			"",
		},
		"a condition is removed": {
			`{status: {conditions: [{type: A, status: "True"}, {type: B, status: "True"}]}}`,
			`{status: {conditions: [{type: A, status: "True"}]}}`,
			"B True -> <none>",
		},
		"conditions without a type": {
			`{status: {conditions: [{status: "True"}]}}`, `{status: {conditions: [{status: "False"}]}}`,
			`status.conditions [{"status":"True"}] -> [{"status":"False"}]`,
		},
		"a Deployment is scaled": {
			`{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 1}, status: {readyReplicas: 1, availableReplicas: 1}}`,
			`{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 3}, status: {readyReplicas: 1, availableReplicas: 1}}`,
			"replicas 1 -> 3, ready 1/1 -> 1/3",
		},
		"a Deployment has none ready": {
			`{kind: Deployment, spec: {replicas: 1}, status: {readyReplicas: 1}}`,
			`{kind: Deployment, spec: {replicas: 1}, status: {unavailableReplicas: 1}}`,
			"ready 1/1 -> 0/1",
		},
		"a DaemonSet": {
			`{kind: DaemonSet, status: {numberReady: 1, desiredNumberScheduled: 2}}`,
			`{kind: DaemonSet, status: {numberReady: 2, desiredNumberScheduled: 2}}`,
			"ready 1/2 -> 2/2",
		},
		"an AppService": {
			`{kind: AppService, spec: {size: 3}, status: {readyReplicas: 1}}`, `{kind: AppService, spec: {size: 3}, status: {readyReplicas: 2}}`,
			"ready 1/3 -> 2/3",
		},
		"a Jupyter": {
			`{kind: Jupyter, spec: {}, status: {readyReplicas: 0}}`, `{kind: Jupyter, spec: {}, status: {readyReplicas: 1}}`,
			"ready 0 -> 1",
		},
		"another kind with replicas": {
			`{kind: Thing, spec: {replicas: 2}, status: {readyReplicas: 0}}`, `{kind: Thing, spec: {replicas: 2}, status: {readyReplicas: 1}}`,
			"ready 0/2 -> 1/2",
		},
		"replicas of a kind without ready replicas": {
			`{kind: Thing, spec: {replicas: 1}}`, `{kind: Thing, spec: {replicas: 2}}`,
			"replicas 1 -> 2",
		},
		"cordoned": {
			`{kind: Node, spec: {}}`, `{kind: Node, spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}`,
			`unschedulable <none> -> true, spec.taints <none> -> [{"effect":"NoSchedule","key":"node.kubernetes.io/unschedulable"}]`,
		},
		"deletion begins": {
			`{metadata: {finalizers: [a]}}`, `{metadata: {finalizers: [a], deletionTimestamp: "now", deletionGracePeriodSeconds: 30}}`,
			"deletion requested",
		},
		"the first label and annotation": {
			`{metadata: {}}`, `{metadata: {labels: {tier: web}, annotations: {example.com/a: "1"}}}`,
			"annotation example.com/a <none> -> 1, label tier <none> -> web",
		},
		"any other field, of any kind": {
			`{kind: Thing, spec: {a: {b: 1, c: [x]}, is: true}}`, `{kind: Thing, spec: {a: {b: 2.5, c: [x, z]}}}`,
			`spec.a.b 1 -> 2.5, spec.a.c ["x"] -> ["x","z"], spec.is true -> <none>`,
		},
		"empty values": {
			`{spec: {a: "", c: {}}}`, `{spec: {b: {}, d: ""}}`,
			`spec.a "" -> <none>, spec.b <none> -> {}, spec.c {} -> <none>, spec.d <none> -> ""`,
		},
		"an item of a list": {
			`{spec: {volumes: [{name: a, size: 1}]}}`, `{spec: {volumes: [{name: a, size: 2}, {name: b, size: 3}]}}`,
			`spec.volumes[a].size 1 -> 2, spec.volumes[b] <none> -> {"name":"b","size":3}`,
		},
		"items whose key is a number": {
			`{spec: {ports: [{port: 80, to: 1}, {port: 443, to: 1}]}}`, `{spec: {ports: [{port: 80, to: 1}, {port: 443, to: 2}]}}`,
			`spec.ports[443].to 1 -> 2`,
		},
		"only bookkeeping": {
			`{metadata: {resourceVersion: "1"}, status: {conditions: [{type: Ready, status: "True", lastHeartbeatTime: "1"}]}}`,
			`{metadata: {resourceVersion: "2"}, status: {conditions: [{type: Ready, status: "True", lastHeartbeatTime: "2"}]}}`,
			"status.conditions[Ready].lastHeartbeatTime 1 -> 2",
		},
		"only hidden fields": {
			`{metadata: {resourceVersion: "1", managedFields: [{time: "1"}]}}`, `{metadata: {resourceVersion: "2", managedFields: [{time: "2"}]}}`,
			"",
		},
		"a Secret": {
			`{kind: Secret, metadata: {annotations: {a: x}}, type: Opaque, data: {changed: b25l, same: b25l, gone: b25l}}`,
			`{kind: Secret, metadata: {annotations: {a: y, b: x}}, type: Opaque, data: {changed: dHdv, same: b25l, new: b25l}}`,
			"annotation a changed, annotation b added, data key changed changed, data key gone removed, data key new added",
		},
		"the first key of a Secret": {
			`{kind: Secret, metadata: {}}`, `{kind: Secret, metadata: {}, data: {k: b25l}}`, "data key k added",
		},
		"more differences than fit in a line": {
			`{data: {a: x, b: x, c: x, d: x, e: x, f: x, g: x, h: x, i: x, j: x}}`,
			`{data: {a: z, b: z, c: z, d: z, e: z, f: z, g: z, h: z, i: z, j: z}}`,
			"data.a x -> z, data.b x -> z, data.c x -> z, data.d x -> z, data.e x -> z, data.f x -> z, data.g x -> z, data.h x -> z, and 2 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summary(Differences(kept(t, tc.from), kept(t, tc.to))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTheStateOfAnObject(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"a pod": {`{kind: Pod, spec: {containers: [{name: app}]}, status: {phase: Running, containerStatuses: [{name: app, ready: true}], conditions: [{type: Ready, status: "True"}]}}`,
			"phase Running, ready 1/1"},
		"a pod that is being deleted": {`{kind: Pod, metadata: {deletionTimestamp: "now"}, spec: {containers: [{name: app}]}, status: {phase: Running}}`,
			"phase Running, ready 0/1, deletion requested"},
		"a Deployment":           {`{kind: Deployment, spec: {replicas: 3}, status: {readyReplicas: 2, conditions: [{type: Available, status: "True"}]}}`, "ready 2/3"},
		"a claim":                {`{kind: PersistentVolumeClaim, status: {phase: Bound}}`, "phase Bound"},
		"an object of Bongsu":    {`{kind: Jupyter, spec: {suspend: true}, status: {state: Failing, reason: QuotaExceeded, readyReplicas: 0}}`, "state Failing (QuotaExceeded), ready 0, suspend true"},
		"a cordoned node":        {`{kind: Node, spec: {unschedulable: true}, status: {conditions: [{type: DiskPressure, status: "False"}, {type: Ready, status: "False", reason: KubeletNotReady}]}}`, "Ready False (KubeletNotReady), unschedulable true"},
		"a Job that has failed":  {`{kind: Job, status: {conditions: [{type: Complete, status: "False"}, {type: Failed, status: "True", reason: BackoffLimitExceeded}]}}`, "Failed True (BackoffLimitExceeded)"},
		"an object without any":  {`{kind: ConfigMap, data: {a: b}}`, ""},
		"an object of this name": {`{kind: Thing, status: {state: {on: true}, phase: 3}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summary(stateOfObject(kept(t, tc.object).Object)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestDifferencesKeepTheTypesOfValues(t *testing.T) {
	got := Differences(
		kept(t, `{kind: Thing, spec: {replicas: 1, a: {b: [x]}}}`),
		kept(t, `{kind: Thing, spec: {replicas: 3}, status: {conditions: [{type: Ready, status: "True", reason: Done}]}}`))
	want := []Difference{
		{Name: "replicas", From: int64(1), To: int64(3)},
		{Name: "Ready", To: "True", Note: "Done"},
		{Name: "spec.a.b", From: []any{"x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPath(t *testing.T) {
	for want, p := range map[string]path{
		"":                            nil,
		"status.phase":                {"status", "phase"},
		"spec.containers[app].image":  {"spec", "containers", "[app]", "image"},
		"data[a.b]":                   {"data", "a.b"},
		"metadata.labels[example/x]":  {"metadata", "labels", "example/x"},
		"[0].x":                       {"[0]", "x"},
		"spec[with space].containers": {"spec", "with space", "containers"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExtendingAPathDoesNotChangeItsSiblings(t *testing.T) {
	at := append(make(path, 0, 8), "a")
	b, c := at.then("b"), at.then("c")
	if b.String() != "a.b" || c.String() != "a.c" {
		t.Errorf("%s, %s", b, c)
	}
}

func TestPattern(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern string
		at      path
		last    string
		ok      bool
	}{
		"the same":                {"status phase", path{"status", "phase"}, "", true},
		"another":                 {"status phase", path{"status", "phases"}, "", false},
		"shorter":                 {"status phase", path{"status"}, "", false},
		"longer":                  {"status phase", path{"status", "phase", "x"}, "", false},
		"one step":                {"metadata labels *", path{"metadata", "labels", "a.b/c"}, "a.b/c", true},
		"an item":                 {"spec * image", path{"spec", "[app]", "image"}, "app", true},
		"any beginning":           {"** containers * image", path{"spec", "template", "spec", "containers", "[app]", "image"}, "app", true},
		"no beginning":            {"** containers * image", path{"containers", "[app]", "image"}, "app", true},
		"too short for beginning": {"** containers * image", path{"[app]", "image"}, "", false},
		"any end":                 {"status conditions **", path{"status", "conditions", "[Ready]", "status"}, "", true},
		"no end":                  {"status conditions **", path{"status", "conditions"}, "", true},
		"too short for end":       {"status conditions **", path{"status"}, "", false},
		"another end":             {"status conditions **", path{"spec", "conditions", "x"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if last, ok := parsePattern(tc.pattern).match(tc.at); ok != tc.ok || ok && last != tc.last {
				t.Errorf("got %q, %v; want %q, %v", last, ok, tc.last, tc.ok)
			}
		})
	}
}
