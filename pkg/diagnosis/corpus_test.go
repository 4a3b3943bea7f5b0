package diagnosis

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/internal/testing/size"
)

var (
	update = flag.Bool("update", false, "write the causes of new states into testdata/corpus, and print them: review each of them")
	accept = flag.String("change", "", "with -update, a regular expression: also write the causes of states with such a name if they have changed")
)

// state is one state of the corpus: what a component writes, and the cause that the
// diagnosis must find. Most states have one input.
type state struct {
	State     string `json:"state"`
	Component string `json:"component"`
	Source    string `json:"source"`

	// Inputs. Waiting and Ended are the state of container "notebook". Failed is the status
	// of the pod. Unscheduled is the message of its condition PodScheduled.
	Waiting     *text   `json:"waiting,omitempty"`
	Ended       *ending `json:"ended,omitempty"`
	Failed      *text   `json:"failed,omitempty"`
	Unscheduled string  `json:"unscheduled,omitempty"`
	// Pod is an Event of a pod whose containers have not started. Container is an Event of a
	// running container that is not ready. Deleted is one of a pod that was deleted, and Claim
	// one of a pending claim. Kill is the Event of a kubelet that kills a container. Waiting and
	// Unscheduled can have Pod in addition.
	Pod       *text `json:"pod,omitempty"`
	Container *text `json:"container,omitempty"`
	Deleted   *text `json:"deleted,omitempty"`
	Claim     *text `json:"claim,omitempty"`
	Kill      *text `json:"kill,omitempty"`
	// Resize is an Event of a bound claim whose size is raised, ResizeError its condition
	// ControllerResizeError or NodeResizeError.
	Resize      *text `json:"resize,omitempty"`
	ResizeError *text `json:"resizeError,omitempty"`
	// Create is the error of the API server when a StatefulSet creates the pod.
	Create string `json:"create,omitempty"`
	// Object is a Deployment, Job, HorizontalPodAutoscaler or PodDisruptionBudget. If Event is set,
	// it is the object that this Event regards. With NoCause, the object itself shows no cause.
	Object map[string]any `json:"object,omitempty"`
	Event  *text          `json:"event,omitempty"`
	// InitRunning, Unreachable and Gated are states of the pod without a text.
	InitRunning bool `json:"initRunning,omitempty"`
	Unreachable bool `json:"unreachable,omitempty"`
	Gated       bool `json:"gated,omitempty"`

	// Details of the pod and the nodes.
	Image          string              `json:"image,omitempty"`
	SchedulerName  string              `json:"schedulerName,omitempty"`
	ResourceClaim  string              `json:"resourceClaim,omitempty"`
	MemoryLimit    string              `json:"memoryLimit,omitempty"`
	PodMemoryLimit string              `json:"podMemoryLimit,omitempty"`
	NodesHave      corev1.ResourceList `json:"nodesHave,omitempty"`
	Requests       corev1.ResourceList `json:"requests,omitempty"`
	// VolumeZone is the zone of the volume that the pod mounts. NodesIn are the zones with a node, and
	// CordonedIn the zone with a cordoned node.
	VolumeZone string   `json:"volumeZone,omitempty"`
	NodesIn    []string `json:"nodesIn,omitempty"`
	CordonedIn string   `json:"cordonedIn,omitempty"`

	// Want is nil for a new state, and with NoCause.
	Want    *want `json:"want,omitempty"`
	NoCause bool  `json:"noCause,omitempty"`
	// Before is what the diagnosis said before the state was added. It is empty if that was right, or
	// if it is not recorded.
	Before string `json:"before,omitempty"`

	// now is the time of the check, or zero.
	now time.Time
}

// text is a reason with the message of a status, or with the note of an Event.
type text struct {
	Type    string `json:"type,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Note    string `json:"note,omitempty"`
	Seconds int    `json:"seconds,omitempty"`
}

type ending struct {
	text     `json:",inline"`
	ExitCode int32 `json:"exitCode"`
}

// want is the expected cause. Says is its sentence, MayPass whether waiting may help.
type want struct {
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Says    string `json:"says"`
	MayPass bool   `json:"mayPass"`
}

func TestEveryStateOfTheCorpusHasTheRightCause(t *testing.T) {
	const fewest = 900
	if *accept != "" && !*update {
		t.Fatal("-change has no effect without -update: set both")
	}
	all := len(hostileNames())
	names := size.Choose(t, 80, all, all, "hostile names for each state")
	sum := 0
	for _, file := range corpusFiles(t) {
		states := readCorpus(t, file)
		sum += len(states)
		written := false
		for i := range states {
			s := &states[i]
			name := strings.TrimSuffix(filepath.Base(file), ".yaml") + "/" + s.State
			t.Run(name, func(t *testing.T) { written = checkState(t, name, s, names) || written })
		}
		if written {
			writeCorpus(t, file, states)
		}
	}
	if sum < fewest {
		t.Errorf("%d states, want at least %d", sum, fewest)
	}
}

// checkState checks the cause of a state, also with some hostile names. With -update, it can set the cause
// instead, and reports whether it did.
func checkState(t *testing.T, name string, s *state, names int) (written bool) {
	t.Helper()
	var got *want
	if cause := s.cause(t); cause != nil {
		got = &want{cause.Reason, cause.Object.Kind + "/" + cause.Object.Name, cause.Sentence(), cause.Transient}
	}
	if *update {
		changed := s.setWant(name, got, regexp.MustCompile(cmp.Or(*accept, "^$")))
		fmt.Print(changed)
		written = changed != ""
	}
	if message := s.compare(name, got); message != "" {
		t.Error(message)
	}
	checkRenamed(t, someHostileNames(t, names), func(change func(string) string) *Cause { return s.withTexts(change).cause(t) })
	return written
}

// compare returns what is wrong with the cause of a state, or "".
func (s *state) compare(name string, got *want) string {
	switch {
	case s.Want == nil && !s.NoCause:
		return "the state has no cause yet: run the test with -update, and review what it prints"
	case got == nil && s.Object == nil:
		return "no cause"
	}
	if diff := gocmp.Diff(s.Want, got); diff != "" {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(name), "'", ".") // for a shell
		return fmt.Sprintf("(-want +got)\n%s\nto accept it, run the test with: -update -change '^%s$'", diff, pattern)
	}
	return ""
}

// setWant sets the cause of a state that is new, or whose name matches. It returns what changed, or "".
func (s *state) setWant(name string, got *want, names *regexp.Regexp) string {
	isNew := s.Want == nil && !s.NoCause
	if !isNew && !names.MatchString(name) || !isNew && reflect.DeepEqual(s.Want, got) || got == nil && s.Object == nil {
		return ""
	}
	before := s.Want
	s.Want, s.NoCause = got, got == nil
	if isNew {
		return fmt.Sprintf("%s:\n  + %v\n", name, got)
	}
	return fmt.Sprintf("%s:\n  - %v\n  + %v\n", name, before, got)
}

// String returns the cause as a line.
func (w *want) String() string {
	switch {
	case w == nil:
		return "no cause"
	case w.MayPass:
		return fmt.Sprintf("%s %s, may pass: %s", w.Object, w.Reason, w.Says)
	}
	return fmt.Sprintf("%s %s: %s", w.Object, w.Reason, w.Says)
}

func TestAnUpdateOfTheCorpusChangesOnlyWhatIsNewOrNamed(t *testing.T) {
	old, other := &want{"Error", "Pod/nb-0", "it ended: look", false}, &want{"Unhealthy", "Pod/nb-0", "it is slow: wait", true}
	job := map[string]any{"kind": "Job"}
	for name, tc := range map[string]struct {
		state   state
		got     *want
		names   string
		want    *want
		noCause bool
		printed string
		right   bool
	}{
		"new":                          {state{}, other, "^$", other, false, "a state:\n  + Pod/nb-0 Unhealthy, may pass: it is slow: wait\n", true},
		"new, of an object, no cause":  {state{Object: job}, nil, "^$", nil, true, "a state:\n  + no cause\n", true},
		"new, no cause":                {state{}, nil, "^$", nil, false, "", false},
		"as before":                    {state{Want: old}, old, "state", old, false, "", true},
		"changed":                      {state{Want: old}, other, "^$", old, false, "", false},
		"changed, another is named":    {state{Want: old}, other, "^state", old, false, "", false},
		"changed and named":            {state{Want: old}, other, "state$", other, false, "a state:\n  - Pod/nb-0 Error: it ended: look\n  + Pod/nb-0 Unhealthy, may pass: it is slow: wait\n", true},
		"an object with a cause":       {state{Object: job, NoCause: true}, old, "^$", nil, true, "", false},
		"an object with a named cause": {state{Object: job, NoCause: true}, old, "state", old, false, "a state:\n  - no cause\n  + Pod/nb-0 Error: it ended: look\n", true},
		"a named cause that is lost":   {state{Want: old}, nil, "state", old, false, "", false},
		"the named cause of an object": {state{Object: job, Want: old}, nil, "state", nil, true, "a state:\n  - Pod/nb-0 Error: it ended: look\n  + no cause\n", true},
		"an object without, as before": {state{Object: job, NoCause: true}, nil, "state", nil, true, "", true},
		"the lost cause of an object":  {state{Object: job, Want: old}, nil, "^$", old, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			printed := tc.state.setWant("a state", tc.got, regexp.MustCompile(tc.names))
			if printed != tc.printed || tc.state.Want != tc.want || tc.state.NoCause != tc.noCause {
				t.Errorf("printed %q, want %q; cause %v, want %v", printed, tc.printed, tc.state.Want, tc.want)
			}
			if message := tc.state.compare("a state", tc.got); (message == "") != tc.right {
				t.Errorf("the test says %q", message)
			}
		})
	}
}

// cause is what the diagnosis finds in the state.
func (s *state) cause(t *testing.T) *Cause {
	t.Helper()
	if s.Object != nil {
		return s.checked(s.objectCause(t))
	}
	if s.Resize == nil && s.ResizeError == nil {
		return Diagnose(s.workload()).Cause
	}
	c := claim(corev1.ClaimBound)
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	if s.ResizeError != nil {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimConditionType(s.ResizeError.Reason), Status: corev1.ConditionTrue, Message: s.ResizeError.Message, LastTransitionTime: metaAt(5),
		}}
		return s.checked(FromClaim(c, nil))
	}
	return s.checked(FromClaim(c, []Event{s.Resize.event(claimEvent(5, "", ""))}))
}

// checked returns a cause of an object as the diagnosis reports it at the time of the check.
func (s *state) checked(cause *Cause) *Cause {
	if cause == nil || s.now.IsZero() {
		return cause
	}
	return Diagnose(Workload{Now: s.now, Known: []Cause{*cause}}).Cause
}

// objectCause is what an object shows itself, or an Event that regards it.
func (s *state) objectCause(t *testing.T) *Cause {
	t.Helper()
	u := unstructured.Unstructured{Object: s.Object}
	if s.Event != nil {
		return FromEvent(s.Event.event(Event{Type: corev1.EventTypeWarning, Regarding: Object{u.GetKind(), u.GetName()}, FirstSeen: at(5), LastSeen: at(5), Count: 1}))
	}
	objects := map[string]metav1.Object{
		"Deployment": &appsv1.Deployment{}, "ReplicaSet": &appsv1.ReplicaSet{}, "Job": &batchv1.Job{},
		"HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(s.Object, objects[u.GetKind()], true); err != nil {
		t.Fatal(err)
	}
	switch o := objects[u.GetKind()].(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].LastTransitionTime = metaAt(5)
		}
		if causes := FromAutoscaler(o); len(causes) > 0 {
			return &causes[0]
		}
		return nil
	case *policyv1.PodDisruptionBudget:
		return FromBudget(o)
	default:
		return FromController(o)
	}
}

func readCorpus(t *testing.T, file string) []state {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var states []state
	if err := yaml.UnmarshalStrict(data, &states); err != nil {
		t.Fatal(file, err)
	}
	return states
}

func writeCorpus(t *testing.T, file string, states []state) {
	t.Helper()
	data, err := yaml.Marshal(states)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.TrimSpace(append(data, '\n')), 0o600); err != nil {
		t.Fatal(err)
	}
}

// workload builds what the cluster contains in the state.
func (s *state) workload() Workload {
	w := Workload{Now: s.now, Nodes: &Nodes{Total: 2, Largest: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}}}
	maps.Copy(w.Nodes.Largest, s.NodesHave)
	switch {
	case s.Create != "":
		w.Events = []Event{setEvent(5, "create Pod nb-0 in StatefulSet nb failed error: "+s.Create)}
		return w
	case s.Claim != nil:
		w.Claims = []*corev1.PersistentVolumeClaim{claim(corev1.ClaimPending)}
		w.Events = []Event{s.Claim.event(claimEvent(5, "", ""))}
		return w
	case s.Deleted != nil:
		w.Events = []Event{s.Deleted.event(podEvent(5, "", "", ""))}
		return w
	}
	w.Pods = pods(newPod(s.changes()...))
	w.Events = s.events()
	if s.VolumeZone != "" {
		w.Volumes = volumesIn(s.VolumeZone)
		mounting("home")(w.Pods[0])
		for _, zone := range s.NodesIn {
			w.Nodes.Places = append(w.Nodes.Places, nodeIn(zone, false))
		}
		if s.CordonedIn != "" {
			w.Nodes.Places = append(w.Nodes.Places, nodeIn(s.CordonedIn, true))
		}
	}
	return w
}

func (s *state) changes() []change {
	changes := []change{s.describe}
	switch {
	case s.Unscheduled != "":
		changes = append(changes, unscheduled(s.Unscheduled))
	case s.SchedulerName != "":
		changes = append(changes, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil })
	case s.Waiting != nil:
		changes = append(changes, status(corev1.ContainerStatus{State: waiting(s.Waiting.Reason, s.Waiting.Message)}))
	case s.Ended != nil:
		last := terminated(s.Ended)
		changes = append(changes, status(crashLooping(last, 3)))
	case s.Failed != nil:
		changes = append(changes, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, s.Failed.Reason, s.Failed.Message
		})
	case s.Pod != nil:
		changes = append(changes, status(corev1.ContainerStatus{State: waiting("ContainerCreating", "")}))
	case s.Container != nil:
		changes = append(changes, status(corev1.ContainerStatus{State: runningSince(1)}))
	case s.InitRunning:
		changes = append(changes, initStatus(corev1.ContainerStatus{Name: "prepare", State: runningSince(1)}, false), status(corev1.ContainerStatus{State: waiting("PodInitializing", "")}))
	case s.Unreachable:
		changes = append(changes, ready, setCondition(corev1.PodReady, corev1.ConditionFalse, 50))
	}
	if s.Gated {
		changes = append(changes, func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/approval"}}
		})
	}
	return changes
}

// terminated is the last end of a container that waits for its restart.
func terminated(e *ending) corev1.ContainerState {
	seconds := max(e.Seconds, 60)
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: e.Reason, ExitCode: e.ExitCode, Message: e.Message, StartedAt: metaAt(seconds - 30), FinishedAt: metaAt(seconds),
	}}
	return state
}

// describe sets the details of the pod.
func (s *state) describe(p *corev1.Pod) {
	if s.Image != "" {
		p.Spec.Containers[0].Image = s.Image
	}
	if s.MemoryLimit != "" {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(s.MemoryLimit)}
	}
	if s.PodMemoryLimit != "" {
		p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(s.PodMemoryLimit)}}
	}
	if s.Requests != nil {
		p.Spec.Containers[0].Resources.Requests = s.Requests
	}
	p.Spec.SchedulerName = s.SchedulerName
	if s.ResourceClaim != "" {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &s.ResourceClaim}}
	}
	if strings.Contains(s.Unscheduled, "persistentvolumeclaim") {
		mounting("data")(p)
	}
}

func (s *state) events() []Event {
	var events []Event
	if s.Pod != nil {
		events = append(events, s.Pod.event(podEvent(10, "", "", "")))
	}
	if s.Container != nil {
		events = append(events, s.Container.event(podEvent(55, "notebook", "", "")))
	}
	if s.Kill != nil {
		kill := s.Kill.event(podEvent(s.Kill.Seconds, "notebook", "", ""))
		kill.Type, kill.Reason = corev1.EventTypeNormal, "Killing"
		events = append(events, kill)
	}
	if s.Unreachable {
		events = append(events, podEvent(50, "", "NodeNotReady", "Node is not ready"))
	}
	return events
}

// event fills an Event.
func (x *text) event(e Event) Event {
	e.Reason, e.Note = x.Reason, x.Note
	if x.Type != "" {
		e.Type = x.Type
	}
	return e
}
