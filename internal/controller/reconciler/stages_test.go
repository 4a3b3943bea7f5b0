package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// stage is the state of a pod with one container during a failure, and the Events that the kubelet
// emits with it.
type stage struct {
	state  corev1.ContainerState
	last   corev1.ContainerState
	events []string // reason and note of each
}

const pullError = `failed to pull and unpack image "example.org/web:nope": failed to resolve reference "example.org/web:nope": example.org/web:nope: not found`

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func endedAt(at time.Time, reason, message string, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, Message: message, ExitCode: code, StartedAt: metav1.NewTime(at.Add(-time.Second)), FinishedAt: metav1.NewTime(at),
	}}
}

// failures are those that pass through several stages, as a kubelet shows them.
func failures(at time.Time) map[string][]stage {
	backOff := stage{
		state:  waitingFor("ImagePullBackOff", `Back-off pulling image "example.org/web:nope": ErrImagePull: `+pullError),
		events: []string{"BackOff", `Back-off pulling image "example.org/web:nope"`, "Failed", "Error: ImagePullBackOff"},
	}
	pull := func(reason string) stage {
		return stage{state: waitingFor(reason, pullError), events: []string{"Failed", `Failed to pull image "example.org/web:nope": ` + pullError, "Failed", "Error: " + reason}}
	}
	loop := func(end corev1.ContainerState) stage {
		return stage{state: waitingFor("CrashLoopBackOff", "back-off 10s restarting failed container=app"), last: end, events: []string{"BackOff", "Back-off restarting failed container app in pod web-1"}}
	}
	crash := endedAt(at, "Error", "", 3)
	killed := endedAt(at, "OOMKilled", "", 137)
	start := endedAt(at, "StartError", `failed to create containerd task: exec: "nope": executable file not found in $PATH`, 128)
	missing := `couldn't find key theme in ConfigMap shop/settings`
	return map[string][]stage{
		"the image":                  {pull("ErrImagePull"), backOff},
		"the image, as of an Event":  {{state: waitingFor("ContainerCreating", ""), events: pull("ErrImagePull").events}, backOff},
		"the registry":               {pull("RegistryUnavailable"), backOff},
		"the signature of the image": {pull("SignatureValidationFailed"), backOff},
		"a crash":                    {{state: crash}, loop(crash)},
		"a crash, as of a restart":   {{state: waitingFor("ContainerCreating", ""), last: crash}, {state: crash}, loop(crash)},
		"the memory":                 {{state: killed}, loop(killed)},
		"the command":                {{state: waitingFor("RunContainerError", start.Terminated.Message)}, {state: start}, loop(start)},
		"a ConfigMap":                {{state: waitingFor("CreateContainerConfigError", missing)}, {state: waitingFor("CreateContainerConfigError", missing), events: []string{"Failed", "Error: " + missing}}},
	}
}

// world reports the findings about one app as the reconcilers do.
type world struct {
	client client.Client
	clock  *testingclock.FakeClock
	writer *status.Writer
	app    *v1alpha1.AppService
	events []diagnosis.Event
}

func newWorld(t *testing.T, now time.Time) *world {
	t.Helper()
	w := &world{clock: testingclock.NewFakeClock(now)}
	w.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "app", Generation: 1}}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.app).WithStatusSubresource(w.app).Build()
	w.restart()
	return w
}

// restart starts the operator again.
func (w *world) restart() { w.writer = status.NewWriter(w.client, w.clock, "appservice-controller") }

// observe reconciles the app with a pod in a stage, or without a pod.
func (w *world) observe(t *testing.T, pod types.UID, s *stage) time.Duration {
	t.Helper()
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(w.app), w.app); err != nil {
		t.Fatal(err)
	}
	before := w.app.DeepCopy()
	f := Findings{Kind: v1alpha1.KindAppService, Owner: w.app}
	load := diagnosis.Workload{Recreated: true}
	if s != nil {
		for i := 0; i+1 < len(s.events); i += 2 {
			w.events = append(w.events, diagnosis.Event{
				Type: corev1.EventTypeWarning, Reason: s.events[i], Note: s.events[i+1], Regarding: diagnosis.Object{Kind: "Pod", Name: "web-1"}, UID: pod,
				FieldPath: "spec.containers{app}", LastSeen: w.clock.Now(), Count: 1,
			})
		}
		load.Pods = []*corev1.Pod{podIn(pod, s)}
	}
	load.Events = w.events
	now, last := w.clock.Now(), w.app.Status.LastFailure
	f.SetCause(diagnosis.Diagnose(load), last)
	ready := s != nil && s.state.Running != nil
	if ready {
		f.FindCrash(last, now, load.Pods...)
	}
	stalled := f.Cause != nil
	state, reason, failing := v1alpha1.StateStarting, "", stalled
	switch {
	case stalled:
		state, reason = v1alpha1.StateFailing, f.Cause.Reason
	case ready:
		state = v1alpha1.StateReady
		if crash, _ := f.Recovering(now, load.Pods...); crash != nil {
			state, reason, failing = v1alpha1.StateDegraded, crash.Reason, true
		}
	}
	w.writer.SetState(w.app, state, reason, failing)
	w.app.Status.LastFailure = f.Remember(last, stalled, now)
	report, wait := f.Report(before, w.app.Status.LastFailure, stalled, "1 of 1 pods are ready", now)
	if _, err := w.writer.Write(t.Context(), before, w.app, report); err != nil {
		t.Fatal(err)
	}
	return wait
}

// settle is observe, and again after the wait that it asks for.
func (w *world) settle(t *testing.T, pod types.UID, s *stage) {
	t.Helper()
	for wait := w.observe(t, pod, s); wait > 0; wait = w.observe(t, pod, s) {
		w.clock.Step(wait)
	}
}

func podIn(uid types.UID, s *stage) *corev1.Pod {
	running := s.state.Running != nil
	ready, restarts := corev1.ConditionFalse, int32(0)
	if running {
		ready = corev1.ConditionTrue
	}
	if s.last.Terminated != nil {
		restarts = 1
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: uid},
		Spec:       corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "app", Image: "example.org/web:nope"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.ContainersReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: running, RestartCount: restarts, State: s.state, LastTerminationState: s.last}},
		},
	}
}

// emitted counts the Events on the app, by type, and returns the Warnings.
func (w *world) emitted(ctx context.Context, t *testing.T) (warnings []string, recoveries int) {
	t.Helper()
	var all eventsv1.EventList
	if err := w.client.List(ctx, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if e := &all.Items[i]; e.Type == corev1.EventTypeWarning {
			warnings = append(warnings, e.Reason+": "+e.Note)
		} else if e.Reason == v1alpha1.ReasonRecovered {
			recoveries++
		}
	}
	return warnings, recoveries
}

// A kubelet goes back and forth between the stages of a failure with each attempt.
func TestAFailureIsReportedOnceWhateverStagesItPassesThrough(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, stages := range failures(noon.Add(-time.Second)) {
		for i := range stages {
			for j := range stages {
				for _, restarts := range []bool{false, true} {
					t.Run(fmt.Sprint(name, " ", i, j, restarts), func(t *testing.T) {
						w := newWorld(t, noon)
						for n, s := range []int{i, j, i, j} {
							w.settle(t, "1", &stages[s])
							w.clock.Step(time.Duration(n+1) * time.Second)
							if restarts {
								w.restart()
							}
						}
						w.observe(t, "", nil) // its pod is replaced by a corrected one
						w.clock.Step(50 * time.Millisecond)
						w.observe(t, "2", &stage{state: waitingFor("ContainerCreating", "")})
						w.clock.Step(time.Second)
						w.observe(t, "2", &stage{state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.clock.Now())}}})
						if warnings, recoveries := w.emitted(t.Context(), t); len(warnings) != 1 || recoveries != 1 {
							t.Errorf("%d recoveries, and these Warnings: %q", recoveries, warnings)
						}
					})
				}
			}
		}
	}
}

// The Warning of a first end waits for the stage that may follow.
func TestAContainerThatEndedOnceIsReportedAlthoughItRunsAgainAtOnce(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ended := endedAt(noon, "Error", "", 3)
	running := func(at time.Time) *stage {
		return &stage{last: ended, state: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}}
	}
	for name, later := range map[string][]time.Duration{
		"seen during the wait":    {time.Second, 6 * time.Second, 20 * time.Second},
		"seen after it":           {20 * time.Second},
		"seen after a long stop":  {30 * time.Minute},
		"seen after each restart": {2 * time.Second, 4 * time.Second, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, noon)
			w.observe(t, "1", &stage{state: ended})
			if warnings, _ := w.emitted(t.Context(), t); len(warnings) != 0 {
				t.Errorf("at once: %q", warnings)
			}
			for _, d := range later {
				w.clock.SetTime(noon.Add(d))
				w.restart()
				w.observe(t, "1", running(noon.Add(time.Second)))
			}
			warnings, recoveries := w.emitted(t.Context(), t)
			want := []string{"Error: " + `container "app" ended with exit code 3: check its log (kubectl logs -n shop web-1 -c app --previous)`}
			if !slices.Equal(warnings, want) || recoveries != 1 {
				t.Errorf("%d recoveries, and these Warnings: %q", recoveries, warnings)
			}
		})
	}
}
