package diagnosis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Texts copied from components of Kubernetes, and the sentences made of them.
const (
	textNotFound = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/jupyter:1": failed to resolve reference "docker.io/library/jupyter:1": docker.io/library/jupyter:1: not found`
	textDenied   = `rpc error: code = Unknown desc = failed to pull and unpack image "docker.io/x/jupyter:1": failed to resolve reference "docker.io/x/jupyter:1": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`
	textNoHost   = `rpc error: code = Unknown desc = failed to pull and unpack image "no.such/jupyter:1": failed to do request: Head "https://no.such/v2/jupyter/manifests/1": dial tcp: lookup no.such on 10.96.0.10:53: no such host`
	textTimeout  = `rpc error: code = DeadlineExceeded desc = failed to pull and unpack image "reg.example/jupyter:1": failed to do request: Head "https://reg.example/v2/jupyter/manifests/1": dial tcp 203.0.113.7:443: i/o timeout`

	sentenceNotFound   = `image "jupyter:1" of container "notebook" cannot be pulled: the registry has no such image or tag: check the image name and tag`
	sentenceDenied     = `image "jupyter:1" of container "notebook" cannot be pulled: the registry denies access, or has no such repository: check the image name, and that imagePullSecrets names a Secret with credentials for the image`
	sentenceNoHost     = `image "jupyter:1" of container "notebook" cannot be pulled: the registry's host name cannot be resolved: check the host in the image name`
	sentenceTimeout    = `image "jupyter:1" of container "notebook" cannot be pulled: the registry cannot be reached: check the host in the image name; if it is correct, wait until the registry is available`
	sentenceUnspecific = `image "jupyter:1" of container "notebook" cannot be pulled: see the Events of the pod (kubectl describe pod -n shop nb-0); if they do not help, ask the cluster's administrator`

	sentenceCrash = `container "notebook" ended with exit code 1: check its log (kubectl logs -n shop nb-0 -c notebook --previous)`

	textQuota = `create Pod nb-0 in StatefulSet nb failed error: pods "nb-0" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`
)

var notebook = `container "notebook" `

// wantCause is the expected cause. A count of 0 matches any.
type wantCause struct {
	reason, sentence string
	object           Object // Pod/nb-0 if empty
	container        string
	code             *int32
	transient        bool
	count            int32
	others           []string // their reasons
}

func (w wantCause) check(t *testing.T, d Diagnosis) {
	t.Helper()
	if w.reason == "" {
		if d.Cause != nil {
			t.Errorf("there is a cause: %s: %s", d.Cause.Reason, d.Cause.Sentence())
		}
		return
	}
	if d.Cause == nil {
		t.Fatalf("there is no cause, want %s", w.reason)
	}
	if w.object == (Object{}) {
		w.object = Object{"Pod", "nb-0"}
	}
	got := wantCause{
		reason: d.Cause.Reason, sentence: d.Cause.Sentence(), object: d.Cause.Object, container: d.Cause.Container,
		code: d.Cause.ExitCode, transient: d.Cause.Transient, count: d.Cause.Count,
	}
	if w.count == 0 {
		got.count = 0
	}
	for _, o := range d.Others {
		got.others = append(got.others, o.Reason)
	}
	if diff := cmp.Diff(w, got, cmp.AllowUnexported(wantCause{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

type diagnoseCase struct {
	w    Workload
	want wantCause
}

func run(t *testing.T, cases map[string]diagnoseCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.check(t, Diagnose(tc.w))
			if tc.want.others != nil {
				return // the order of equal causes depends on their names
			}
			checkRenamed(t, hostileNames(), func(change func(string) string) *Cause { return Diagnose(withTexts(tc.w, change)).Cause })
		})
	}
}

// start is when the pods of these tests were created.
var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func at(seconds int) time.Time       { return start.Add(time.Duration(seconds) * time.Second) }
func metaAt(seconds int) metav1.Time { return metav1.NewTime(at(seconds)) }

type change = func(*corev1.Pod)

// newPod returns a scheduled pod nb-0 whose container notebook has no status yet.
func newPod(changes ...change) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nb-0", UID: "pod", CreationTimestamp: metaAt(0)},
		Spec: corev1.PodSpec{
			NodeName: "node-a", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "notebook", Image: "jupyter:1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metaAt(0)},
				{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: metaAt(1)},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metaAt(1)},
			},
		},
	}
	for _, f := range changes {
		f(p)
	}
	return p
}

func named(name string, uid types.UID) change {
	return func(p *corev1.Pod) { p.Name, p.UID = name, uid }
}

func created(seconds int) change {
	return func(p *corev1.Pod) { p.CreationTimestamp = metaAt(seconds) }
}

func setCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, seconds int) change {
	return func(p *corev1.Pod) {
		c := condition(p, kind)
		if c == nil {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind})
			c = &p.Status.Conditions[len(p.Status.Conditions)-1]
		}
		c.Status, c.LastTransitionTime = status, metaAt(seconds)
	}
}

func ready(p *corev1.Pod) {
	setCondition(corev1.ContainersReady, corev1.ConditionTrue, 5)(p)
	setCondition(corev1.PodReady, corev1.ConditionTrue, 5)(p)
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, State: runningSince(2)})
	}
}

func deleted(p *corev1.Pod) { t := metaAt(100); p.DeletionTimestamp = &t }

// unscheduled makes the pod unschedulable with a message of the scheduler.
func unscheduled(message string) change {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message, LastTransitionTime: metaAt(1),
		}}
	}
}

func asking(cpu, memory string) change {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
}

func mounting(claim string) change {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v-" + claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// status adds the status of a container, and the container unless it is notebook.
func status(s corev1.ContainerStatus) change {
	return func(p *corev1.Pod) {
		if s.Name == "" {
			s.Name = "notebook"
		}
		if s.Name != "notebook" {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: s.Name, Image: s.Name + ":1"})
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

func initStatus(s corev1.ContainerStatus, sidecar bool) change {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: s.Name, Image: s.Name + ":1"}
		if always := corev1.ContainerRestartPolicyAlways; sidecar {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, s)
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func runningSince(seconds int) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metaAt(seconds)}}
}

func ended(reason string, code int32, seconds int) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metaAt(seconds)}}
}

// crashLooping is the status of a container that waits for its restart.
func crashLooping(last corev1.ContainerState, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		RestartCount: restarts, LastTerminationState: last,
		State: waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=notebook pod=nb-0_shop(3f1c9d7e-5a0b-4c38-9d5e-0d9c1f2b3a4e)"),
	}
}

// podEvent is an Event of the pod nb-0, or of one of its containers.
func podEvent(seconds int, container, reason, note string) Event {
	e := Event{Type: "Warning", Reason: reason, Note: note, Regarding: Object{"Pod", "nb-0"}, UID: "pod", FirstSeen: at(seconds), LastSeen: at(seconds), Count: 1}
	if container != "" {
		e.FieldPath = fmt.Sprintf("spec.containers{%s}", container)
	}
	return e
}

func claimEvent(seconds int, reason, note string) Event {
	return Event{Type: "Warning", Reason: reason, Note: note, Regarding: Object{"PersistentVolumeClaim", "home"}, UID: "claim", FirstSeen: at(seconds), LastSeen: at(seconds), Count: 1}
}

func setEvent(seconds int, note string) Event {
	return Event{Type: "Warning", Reason: "FailedCreate", Note: note, Regarding: Object{"StatefulSet", "nb"}, FirstSeen: at(seconds), LastSeen: at(seconds), Count: 1}
}

func timeless(e Event) Event { e.FirstSeen, e.LastSeen = time.Time{}, time.Time{}; return e }

func claim(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "home", UID: "claim", CreationTimestamp: metaAt(0)},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func quota(name, pods, used string) corev1.ResourceQuota {
	return corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"pods": resource.MustParse(pods)}, Used: corev1.ResourceList{"pods": resource.MustParse(used)},
		},
	}
}

func nodes(total int, cpu, memory string) *Nodes {
	return &Nodes{Total: total, Largest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
}

func pods(p ...*corev1.Pod) []*corev1.Pod { return p }

// volumesIn returns the volume of claim home, in a zone.
func volumesIn(zone string) []*corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "home"}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
	}}}}}
	return []*corev1.PersistentVolume{v}
}

func nodeIn(zone string, cordoned bool) NodePlace {
	return NodePlace{Name: "node-a", Labels: map[string]string{corev1.LabelTopologyZone: zone}, Cordoned: cordoned}
}
