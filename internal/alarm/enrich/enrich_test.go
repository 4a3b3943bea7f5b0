package enrich_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// event is one of the namespace that regards an object.
func event(namespace string, regarding alarm.Reference) *alarm.Event {
	return &alarm.Event{Namespace: namespace, Regarding: regarding}
}

func (s *surroundings) web() alarm.Reference {
	return alarm.Reference{
		APIVersion: "v1", Kind: "Service", Namespace: s.namespace, Name: "web", UID: string(s.service.UID),
	}
}

func TestAnObjectIsToldOfWithItsMetadata(t *testing.T) {
	s := newSurroundings(t, nil)
	got := s.Context(t.Context(), event(s.namespace, s.web()))
	want := alarm.Object{APIVersion: "v1", Kind: "Service", Metadata: alarm.ObjectMeta{
		Namespace: s.namespace, Name: "web", UID: string(s.service.UID),
		Labels:            map[string]string{"app": "web"},
		Annotations:       map[string]string{"team": "shop"}, // and nothing of last-applied-configuration
		CreationTimestamp: s.service.CreationTimestamp.Time,
	}}
	if diff := cmp.Diff(want, got.Object); diff != "" || !got.Resolved {
		t.Errorf("resolved=%v\n%s", got.Resolved, diff)
	}
	if got.Cluster.Name != "test" {
		t.Errorf("the cluster is called %q", got.Cluster.Name)
	}
}

func TestOnlyTheObjectThatIsMeantIsToldOf(t *testing.T) {
	s := newSurroundings(t, nil)
	other := s.cluster.Namespace(t, nil)
	node := s.createNode(t, "trusted-node")
	service := func(change func(*alarm.Reference)) alarm.Reference {
		ref := s.web()
		change(&ref)
		return ref
	}
	worker := alarm.Reference{APIVersion: "v1", Kind: "Node", Name: node.Name}
	ofNamespace := func(ref alarm.Reference, namespace string) alarm.Reference {
		ref.Namespace = namespace
		return ref
	}
	NewWithT(t).Eventually(func() int64 { // until the cache knows the Node
		return s.Context(t.Context(), event(metav1.NamespaceDefault, worker)).Cluster.Nodes
	}).Should(BeEquivalentTo(1))
	withUID := func(ref alarm.Reference, uid string) alarm.Reference {
		ref.UID = uid
		return ref
	}
	for name, tc := range map[string]struct {
		namespace string
		regarding alarm.Reference
		want      bool
	}{
		"of its own namespace":          {s.namespace, s.web(), true},
		"whichever of its containers":   {s.namespace, service(func(r *alarm.Reference) { r.FieldPath = "spec.containers{app}" }), true},
		"without API version":           {s.namespace, service(func(r *alarm.Reference) { r.APIVersion = "" }), true},
		"of any version of its kind":    {s.namespace, service(func(r *alarm.Reference) { r.APIVersion = "v7" }), true},
		"without UID":                   {s.namespace, withUID(s.web(), ""), true},
		"of another namespace":          {other, s.web(), false},
		"of the default namespace":      {metav1.NamespaceDefault, s.web(), false},
		"a later one of the same name":  {s.namespace, withUID(s.web(), "3e0c4d6a-4b1c-4f0e-8f3e-000000000000"), false},
		"its name as UID":               {s.namespace, withUID(s.web(), "web"), false},
		"one that is gone":              {s.namespace, service(func(r *alarm.Reference) { r.Name = "gone" }), false},
		"a kind that there is not":      {s.namespace, service(func(r *alarm.Reference) { r.APIVersion, r.Kind = "example.com/v1", "Widget" }), false},
		"no kind":                       {s.namespace, service(func(r *alarm.Reference) { r.Kind = "" }), false},
		"an impossible API version":     {s.namespace, service(func(r *alarm.Reference) { r.APIVersion = "a/b/c" }), false},
		"a kind that may not be read":   {s.namespace, service(func(r *alarm.Reference) { r.Kind = "ConfigMap" }), false},
		"a Node, as a kubelet says":     {metav1.NamespaceDefault, withUID(worker, node.Name), true},
		"a Node without UID":            {metav1.NamespaceDefault, worker, true},
		"a Node without API version":    {metav1.NamespaceDefault, alarm.Reference{Kind: "Node", Name: node.Name}, true},
		"a Node with its UID":           {metav1.NamespaceDefault, withUID(worker, string(node.UID)), true},
		"an earlier Node of that name":  {metav1.NamespaceDefault, withUID(worker, "3e0c4d6a-4b1c-4f0e-8f3e-000000000000"), false},
		"a Node, says a tenant's Event": {s.namespace, worker, false},
		"a Node of the tenant's own":    {s.namespace, ofNamespace(worker, s.namespace), false},
		"a Namespace of the tenant's own": {
			s.namespace, alarm.Reference{APIVersion: "v1", Kind: "Namespace", Namespace: s.namespace, Name: other}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.Context(t.Context(), event(tc.namespace, tc.regarding))
			if got.Resolved != tc.want {
				t.Fatalf("resolved=%v, want %v: %+v", got.Resolved, tc.want, got.Object)
			}
			if tc.want {
				return
			}
			nothing := alarm.Object{APIVersion: tc.regarding.APIVersion, Kind: tc.regarding.Kind, Metadata: alarm.ObjectMeta{
				Namespace: tc.regarding.Namespace, Name: tc.regarding.Name, UID: tc.regarding.UID,
			}}
			if diff := cmp.Diff(nothing, got.Object); diff != "" {
				t.Errorf("more is told than the Event says:\n%s", diff)
			}
		})
	}
}

// Whoever owns an object may put 256 KiB into its annotations, and thousands of
// objects are remembered.
func TestOfMetadataNoMoreIsToldThanThereIsRoomFor(t *testing.T) {
	s := newSurroundings(t, nil)
	annotations := map[string]string{"a-short": "one", "long": strings.Repeat("x", 5<<10)}
	for i := range 50 {
		annotations[fmt.Sprintf("many-%02d", i)] = strings.Repeat("x", 1<<10)
	}
	s.create(t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "big", Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	got := s.Context(t.Context(), event(s.namespace, alarm.Reference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: s.namespace, Name: "big",
	}))
	size := 0
	for key, value := range got.Object.Metadata.Annotations {
		size += len(key) + len(value)
	}
	told := got.Object.Metadata.Annotations
	if size > 8<<10 || told["a-short"] != "one" || told["many-00"] == "" || told["long"] != "" {
		t.Errorf("%d annotations of %d bytes are told", len(told), size)
	}
}

func TestSecretsAreNeverRead(t *testing.T) {
	s := newSurroundings(t, nil)
	s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "password", Annotations: map[string]string{"note": "hunter2"},
	}})
	for _, version := range []string{"v1", ""} {
		got := s.Context(t.Context(), event(s.namespace, alarm.Reference{
			APIVersion: version, Kind: "Secret", Namespace: s.namespace, Name: "password",
		}))
		if got.Resolved || len(got.Object.Metadata.Annotations) > 0 {
			t.Errorf("a Secret is told of: %+v", got.Object)
		}
	}
	if asked := s.live.asked(); len(asked) > 0 {
		t.Errorf("the API server was asked for %v", asked)
	}
}

func TestANodeIsToldOfWithWhatANewcomerIsJudgedBy(t *testing.T) {
	for name, tc := range map[string]struct {
		cached fields.Selector
		want   []string // asked of the API server
	}{
		"from the cache":       {nil, nil},
		"newer than the cache": {fields.OneTermEqualSelector("metadata.name", "none"), []string{"Node"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newSurroundings(t, tc.cached)
			node := s.createNode(t, "worker-9")
			about := event(metav1.NamespaceDefault, alarm.Reference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.Name})
			if tc.cached == nil {
				g.Eventually(func() int64 { return s.Context(t.Context(), about).Cluster.Nodes }).Should(BeEquivalentTo(1))
				s.live.kinds = nil // of the time when the cache did not know it yet
			}

			got := s.Context(t.Context(), about)
			labels := maps.Clone(node.Labels)
			want := alarm.Object{
				APIVersion: "v1", Kind: "Node",
				Metadata: alarm.ObjectMeta{
					Name: node.Name, UID: string(node.UID), Labels: labels,
					Annotations: map[string]string{"rack": "7"}, CreationTimestamp: node.CreationTimestamp.Time,
				},
				Node: alarm.Node{InstanceType: "m7g.large", Zone: "zone-b", Capacity: map[string]string{"cpu": "2"}},
			}
			if diff := cmp.Diff(want, got.Object); diff != "" || !got.Resolved {
				t.Errorf("resolved=%v\n%s", got.Resolved, diff)
			}
			if diff := cmp.Diff(tc.want, s.live.asked()); diff != "" {
				t.Errorf("asked of the API server:\n%s", diff)
			}
		})
	}
}

func TestAFloodThatRegardsOneObjectIsOneRequest(t *testing.T) {
	s := newSurroundings(t, nil)
	for _, container := range []string{"", "spec.containers{app}", "spec.containers{sidecar}"} {
		ref := s.web()
		ref.FieldPath = container
		if !s.Context(t.Context(), event(s.namespace, ref)).Resolved {
			t.Error("not resolved")
		}
	}
	if diff := cmp.Diff([]string{"Service"}, s.live.asked()); diff != "" {
		t.Errorf("asked of the API server:\n%s", diff)
	}
}

func TestAnObjectThatCameAfterItsEventIsFoundTheNextTime(t *testing.T) {
	s := newSurroundings(t, nil)
	late := event(s.namespace, alarm.Reference{APIVersion: "v1", Kind: "Service", Namespace: s.namespace, Name: "late"})
	if s.Context(t.Context(), late).Resolved {
		t.Fatal("resolved before it exists")
	}
	service := s.service.DeepCopy()
	service.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "late"}
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	s.create(t, service)
	if !s.Context(t.Context(), late).Resolved {
		t.Error("not resolved although it exists")
	}
}

func TestAnAPIServerInTroubleHoldsAnAlarmUpForTwoSecondsAtMost(t *testing.T) {
	hanging := hangingReader{}
	e := enrich.New("test", hanging, hanging)
	for _, kind := range []string{"Normal", "Warning"} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			about := event("shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0"})
			about.Type = kind
			got := e.Context(t.Context(), about)
			if took := time.Since(begun); took != 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if got.Resolved || got.Object.Metadata.Name != "web-0" {
				t.Errorf("got %+v, want the names alone", got)
			}
		})
	}
}

// hangingReader answers when its caller has given up.
type hangingReader struct{}

func (hangingReader) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hangingReader) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// warning is an Event of a pod of the namespace, as a kubelet reports it.
func (s *surroundings) warning(pod *corev1.Pod, kind, reason string) *alarm.Event {
	e := event(s.namespace, alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: string(pod.UID)})
	e.Type, e.Reason = kind, reason
	return e
}

// createPod creates a pod that has run out of memory, as its kubelet says.
func (s *surroundings) createPod(t *testing.T) *corev1.Pod {
	t.Helper()
	s.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"}})
	limit := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hungry", Labels: map[string]string{"app": "hungry"}},
		Spec: corev1.PodSpec{
			NodeName:   "node-0",
			Containers: []corev1.Container{{Name: "app", Image: "example.com/hungry:1", Resources: corev1.ResourceRequirements{Limits: limit}}},
		},
	}
	s.create(t, pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", RestartCount: 3,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s restarting failed container"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, FinishedAt: metav1.Now(), Message: "hunter2",
		}},
	}}
	if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestAWarningOfAPodIsToldWithItsCause(t *testing.T) {
	const cause = `container "app" was killed because it used more memory than its limit of 64Mi: raise resources.limits.memory, or reduce its memory use`
	s := newSurroundings(t, nil)
	pod := s.createPod(t)
	got := s.Context(t.Context(), s.warning(pod, "Warning", "BackOff"))
	want := alarm.Object{APIVersion: "v1", Kind: "Pod", Cause: cause, Metadata: alarm.ObjectMeta{
		Namespace: s.namespace, Name: pod.Name, UID: string(pod.UID),
		Labels: map[string]string{"app": "hungry"}, CreationTimestamp: pod.CreationTimestamp.Time,
	}}
	if diff := cmp.Diff(want, got.Object); diff != "" || !got.Resolved {
		t.Errorf("resolved=%v\n%s", got.Resolved, diff)
	}
	for range 10 { // a flood
		if got := s.Context(t.Context(), s.warning(pod, "Warning", "BackOff")); got.Object.Cause != cause {
			t.Errorf("the cause is %q", got.Object.Cause)
		}
	}
	if diff := cmp.Diff([]string{"whole Pod"}, s.live.asked()); diff != "" {
		t.Errorf("asked of the API server:\n%s", diff)
	}
}

// A kubelet has no Warning for a pull that it puts off.
func TestAPullThatIsPutOffIsToldWithItsCause(t *testing.T) {
	s := newSurroundings(t, nil)
	pod := s.createPod(t)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ImagePullBackOff", Message: `Back-off pulling image "example.com/hungry:1": ErrImagePull: dial tcp: connect: connection refused`,
	}}}}
	if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	got := s.Context(t.Context(), s.warning(pod, "Normal", "BackOff")).Object.Cause
	if !strings.Contains(got, "the registry cannot be reached") {
		t.Errorf("the cause is %q", got)
	}
}

func TestACauseIsOfTheMomentOfItsWarning(t *testing.T) {
	s := newSurroundings(t, nil)
	pod := s.createPod(t)
	if got := s.Context(t.Context(), s.warning(pod, "Normal", "Pulled")); got.Object.Cause != "" || !got.Resolved {
		t.Errorf("nothing is wrong: %+v", got)
	}
	before := s.Context(t.Context(), s.warning(pod, "Warning", "BackOff")).Object.Cause
	pod.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CreateContainerConfigError", Message: `configmap "settings" not found`,
	}}
	if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	after := s.Context(t.Context(), s.warning(pod, "Warning", "Failed")).Object.Cause
	if !strings.Contains(before, "memory") || !strings.Contains(after, `ConfigMap "settings" does not exist`) {
		t.Errorf("got %q, then %q", before, after)
	}
	if diff := cmp.Diff([]string{"Pod", "whole Pod", "whole Pod"}, s.live.asked()); diff != "" {
		t.Errorf("asked of the API server:\n%s", diff)
	}
}

func TestACauseIsOfThePodThatIsMeant(t *testing.T) {
	s := newSurroundings(t, nil)
	pod := s.createPod(t)
	former := pod.DeepCopy()
	former.UID = "3e0c4d6a-4b1c-4f0e-8f3e-000000000000"
	if got := s.Context(t.Context(), s.warning(former, "Warning", "BackOff")); got.Resolved || got.Object.Cause != "" {
		t.Errorf("got %+v", got)
	}
	foreign := s.warning(pod, "Warning", "BackOff")
	foreign.Namespace = metav1.NamespaceDefault
	if got := s.Context(t.Context(), foreign); got.Resolved || got.Object.Cause != "" {
		t.Errorf("got %+v", got)
	}
}
