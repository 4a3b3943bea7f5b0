// Package stages_test holds the Events of simulated nodes and pods, which come
// from pkg/localcluster/stages, against the source of the kubelet that they
// pretend to be. It is in this module as only this one has that source; the two
// share files, not code.
package stages_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the scheme that GenerateContainerRef asks
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/events"
	"k8s.io/kubernetes/pkg/kubelet/util/format"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/yaml"
)

// reasons are the kubelet's constants for what the Stages emit. Those on the
// node's resources have none: they stand as they are in nodestatus/setters.go.
var reasons = map[string][]string{
	"node-join": {
		events.StartingKubelet, "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
		events.SuccessfulNodeAllocatableEnforcement,
	},
	"node-ready":            {events.NodeReady},
	"node-not-ready":        {events.NodeNotReady},
	"pod-image-pulled":      {events.PullingImage, events.PulledImage},
	"pod-image-present":     {events.PulledImage},
	"pod-container-started": {events.CreatedContainer, events.StartedContainer},
	"pod-container-stopped": {events.KillingContainer},
	"pod-back-off":          {events.BackOffStartContainer},
	"pod-not-ready":         {events.ContainerUnhealthy},
	"pod-restart":           {events.PulledImage, events.CreatedContainer, events.StartedContainer},
	"pod-pull-failed":       {events.PullingImage, events.FailedToPullImage, events.FailedToCreateContainer},
	"pod-pull-back-off":     {events.BackOffPullImage, events.FailedToCreateContainer},
}

func TestReasonsAreTheKubelets(t *testing.T) {
	got := map[string][]string{}
	for _, e := range stageEvents(t) {
		got[e.stage] = append(got[e.stage], e.Reason)
	}
	if diff := cmp.Diff(reasons, got); diff != "" {
		t.Errorf("reasons (-kubelet +stages):\n%s", diff)
	}
}

func TestMessagesAreFormattedAsTheKubeletDoes(t *testing.T) {
	formats := kubeletFormats(t)
	for _, e := range stageEvents(t) {
		message := e.render(t).Message
		if !anyMatches(formats, message) {
			t.Errorf("%s: the kubelet has no format for %q", e.stage, message)
		}
	}
}

func TestBackOffNamesThePodAsTheKubeletDoes(t *testing.T) {
	pod := samplePod()
	want := fmt.Sprintf("Back-off restarting failed container %s in pod %s", pod.Spec.Containers[0].Name, format.Pod(pod))
	for _, e := range stageEvents(t) {
		if got := e.render(t).Message; e.stage == "pod-back-off" && got != want {
			t.Errorf("message = %q, want %q", got, want)
		}
	}
}

func TestRegardingObjectsAreTheKubelets(t *testing.T) {
	pod := samplePod()
	container, err := kubecontainer.GenerateContainerRef(pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	// As in NewMainKubelet: a name, and neither a UID nor a namespace.
	node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: sampleNode().Name}
	for _, e := range stageEvents(t) {
		want := container
		if e.isNode() {
			want = node
		}
		if diff := cmp.Diff(*want, e.render(t).InvolvedObject); diff != "" {
			t.Errorf("%s, %s: regarding (-kubelet +stage):\n%s", e.stage, e.Reason, diff)
		}
	}
}

func TestEventsBearTheKubeletsNameAndItsNodes(t *testing.T) {
	for _, e := range stageEvents(t) {
		got := e.render(t)
		want := corev1.EventSource{Component: "kubelet", Host: sampleNode().Name}
		if got.Source != want || got.ReportingController != want.Component || got.ReportingInstance != want.Host {
			t.Errorf("%s, %s: source %v, reported by %s on %s", e.stage, e.Reason, got.Source, got.ReportingController, got.ReportingInstance)
		}
		if got.Type != corev1.EventTypeNormal && got.Type != corev1.EventTypeWarning {
			t.Errorf("%s, %s: type %q", e.stage, e.Reason, got.Type)
		}
	}
}

// stageDir is where the operator's module keeps the Stages.
const stageDir = "../../../pkg/localcluster/stages"

// stageEvent is a step of a Stage that emits an Event.
type stageEvent struct {
	stage, let            string
	Type, Reason, Message string
}

func stageEvents(t *testing.T) []stageEvent {
	t.Helper()
	files, err := filepath.Glob(stageDir + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Stages in %s: %v", stageDir, err)
	}
	var all []stageEvent
	for _, file := range files {
		var stage struct {
			Metadata metav1.ObjectMeta
			Spec     struct {
				Steps []struct{ Event *stageEvent }
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, &stage); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, step := range stage.Spec.Steps {
			if step.Event != nil {
				step.Event.stage = stage.Metadata.Name
				step.Event.let = stage.Metadata.Annotations["bongsu.io/let"]
				all = append(all, *step.Event)
			}
		}
	}
	return all
}

func (e stageEvent) isNode() bool { return strings.HasPrefix(e.stage, "node-") }

// render makes the Event that KWOK applies for the sample pod or node.
func (e stageEvent) render(t *testing.T) corev1.Event {
	t.Helper()
	body, err := os.ReadFile(stageDir + "/event.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	variables := `{{ $now := Now | quote }}{{ $container := "" }}{{ $count := 1 }}{{ $occasion := "" }}`
	text := strings.NewReplacer("@LET@", variables+e.let, "@ID@", "id",
		"@TYPE@", e.Type, "@REASON@", e.Reason, "@MESSAGE@", e.Message).Replace(string(body))
	pod := samplePod()
	if e.stage == "pod-container-started" { // which waits for the image
		pod.Status.ContainerStatuses[0].ImageID = "present"
	}
	var regarding any = pod
	if e.isNode() {
		regarding = sampleNode()
	}
	data, err := gotpl.NewRenderer(gotpl.FuncMap{}).ToJSON(text, regarding)
	if err != nil {
		t.Fatalf("%s, %s: %v", e.stage, e.Reason, err)
	}
	var event corev1.Event
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatal(err)
	}
	return event
}

// samplePod is in a state that the let of almost every Stage makes sense of.
func samplePod() *corev1.Pod {
	state := corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"},
		Running: &corev1.ContainerStateRunning{},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", Namespace: "shop", UID: "7f692c7b-46d7-438a-ad38-beeea559af1d", ResourceVersion: "431",
			Annotations: map[string]string{"bongsu-local/simulated-pulls": "2"},
		},
		Spec: corev1.PodSpec{
			NodeName:   sampleNode().Name,
			Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}},
		},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "app", Image: "example.com/app:1", RestartCount: 3, State: state},
		{Name: "other", ImageID: "present", State: state},
	}
	return pod
}

func sampleNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "a-uid", ResourceVersion: "12"}}
}

func anyMatches(formats []*regexp.Regexp, message string) bool {
	for _, f := range formats {
		if f.MatchString(message) {
			return true
		}
	}
	return false
}
