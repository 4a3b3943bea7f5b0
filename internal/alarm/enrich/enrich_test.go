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
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// event returns an Event in a namespace that regards an object.
func event(namespace string, regarding alarm.Reference) *alarm.Event {
	return &alarm.Event{Namespace: namespace, Regarding: regarding}
}

func (s *fixture) web() alarm.Reference {
	return alarm.Reference{
		APIVersion: "v1", Kind: "Service", Namespace: s.namespace, Name: "web", UID: string(s.service.UID),
	}
}

func TestContextHasTheMetadataOfTheObject(t *testing.T) {
	s := newFixture(t, nil)
	got := s.Context(t.Context(), event(s.namespace, s.web()))
	want := alarm.Object{APIVersion: "v1", Kind: "Service", Metadata: alarm.ObjectMeta{
		Namespace: s.namespace, Name: "web", UID: string(s.service.UID),
		Labels:            map[string]string{"app": "web"},
		Annotations:       map[string]string{"team": "shop"}, // without last-applied-configuration
		CreationTimestamp: s.service.CreationTimestamp.Time,
	}}
	if diff := cmp.Diff(want, got.Object); diff != "" || !got.Resolved {
		t.Errorf("resolved=%v\n%s", got.Resolved, diff)
	}
	if got.Cluster.Name != "test" {
		t.Errorf("the cluster is called %q", got.Cluster.Name)
	}
}

func TestOnlyTheRegardedObjectIsResolved(t *testing.T) {
	s := newFixture(t, nil)
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
	NewWithT(t).Eventually(func() int64 { // until the cache has the Node
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
		"in the same namespace":        {s.namespace, s.web(), true},
		"of a container":               {s.namespace, service(func(r *alarm.Reference) { r.FieldPath = "spec.containers{app}" }), true},
		"without API version":          {s.namespace, service(func(r *alarm.Reference) { r.APIVersion = "" }), true},
		"of an unknown version":        {s.namespace, service(func(r *alarm.Reference) { r.APIVersion = "v7" }), true},
		"without UID":                  {s.namespace, withUID(s.web(), ""), true},
		"in another namespace":         {other, s.web(), false},
		"in the default namespace":     {metav1.NamespaceDefault, s.web(), false},
		"a later object of that name":  {s.namespace, withUID(s.web(), "3e0c4d6a-4b1c-4f0e-8f3e-000000000000"), false},
		"the name as UID":              {s.namespace, withUID(s.web(), "web"), false},
		"an object that is gone":       {s.namespace, service(func(r *alarm.Reference) { r.Name = "gone" }), false},
		"a kind that does not exist":   {s.namespace, service(func(r *alarm.Reference) { r.APIVersion, r.Kind = "example.com/v1", "Widget" }), false},
		"no kind":                      {s.namespace, service(func(r *alarm.Reference) { r.Kind = "" }), false},
		"an invalid API version":       {s.namespace, service(func(r *alarm.Reference) { r.APIVersion = "a/b/c" }), false},
		"a kind that is forbidden":     {s.namespace, service(func(r *alarm.Reference) { r.Kind = "ConfigMap" }), false},
		"a Node, by its kubelet":       {metav1.NamespaceDefault, withUID(worker, node.Name), true},
		"a Node without UID":           {metav1.NamespaceDefault, worker, true},
		"a Node without API version":   {metav1.NamespaceDefault, alarm.Reference{Kind: "Node", Name: node.Name}, true},
		"a Node with its UID":          {metav1.NamespaceDefault, withUID(worker, string(node.UID)), true},
		"an earlier Node of that name": {metav1.NamespaceDefault, withUID(worker, "3e0c4d6a-4b1c-4f0e-8f3e-000000000000"), false},
		"a Node, by a tenant":          {s.namespace, worker, false},
		"a Node in a namespace":        {s.namespace, ofNamespace(worker, s.namespace), false},
		"a Namespace in a namespace": {
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
			namesOnly := alarm.Object{APIVersion: tc.regarding.APIVersion, Kind: tc.regarding.Kind, Metadata: alarm.ObjectMeta{
				Namespace: tc.regarding.Namespace, Name: tc.regarding.Name, UID: tc.regarding.UID,
			}}
			if diff := cmp.Diff(namesOnly, got.Object); diff != "" {
				t.Errorf("the object has more than the names in the Event:\n%s", diff)
			}
		})
	}
}

// Annotations can have 256 KiB, and the cache has thousands of objects.
func TestMetadataIsLimited(t *testing.T) {
	s := newFixture(t, nil)
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
	kept := got.Object.Metadata.Annotations
	size := 0
	for key, value := range kept {
		size += len(key) + len(value)
	}
	if size > 8<<10 || kept["a-short"] != "one" || kept["many-00"] == "" || kept["long"] != "" {
		t.Errorf("kept %d annotations with %d bytes", len(kept), size)
	}
}

func TestSecretsAreNeverRead(t *testing.T) {
	s := newFixture(t, nil)
	s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "password", Annotations: map[string]string{"note": "hunter2"},
	}})
	for _, version := range []string{"v1", ""} {
		got := s.Context(t.Context(), event(s.namespace, alarm.Reference{
			APIVersion: version, Kind: "Secret", Namespace: s.namespace, Name: "password",
		}))
		if got.Resolved || len(got.Object.Metadata.Annotations) > 0 {
			t.Errorf("the context contains a Secret: %+v", got.Object)
		}
	}
	if reads := s.live.reads(); len(reads) > 0 {
		t.Errorf("the API server got requests for %v", reads)
	}
}

// Each occurrence that an alarm may match needs the number of Nodes. Its cost must not grow
// with the cluster.
func TestNodesAreCountedWithoutListingThem(t *testing.T) {
	g := NewWithT(t)
	s := newFixture(t, nil)
	for i := range 3 {
		s.createNode(t, fmt.Sprint("counted-", i))
	}
	count := func() int64 {
		n, err := s.nodes.Count(t.Context())
		if err != nil {
			t.Error(err)
		}
		return n
	}
	g.Eventually(count).Should(BeEquivalentTo(3))
	if allocated := testing.AllocsPerRun(100, func() { count() }); allocated > 0 {
		t.Errorf("a count allocates %v objects", allocated)
	}
	g.Expect(s.cluster.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "counted-1"}})).To(Succeed())
	g.Eventually(count).Should(BeEquivalentTo(2))
}

func TestContextHasTheDetailsOfANode(t *testing.T) {
	for name, tc := range map[string]struct {
		cached fields.Selector
		want   []string // reads from the API server
	}{
		"from the cache":       {nil, nil},
		"newer than the cache": {fields.OneTermEqualSelector("metadata.name", "none"), []string{"Node"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newFixture(t, tc.cached)
			node := s.createNode(t, "worker-9")
			about := event(metav1.NamespaceDefault, alarm.Reference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.Name})
			if tc.cached == nil {
				g.Eventually(func() int64 { return s.Context(t.Context(), about).Cluster.Nodes }).Should(BeEquivalentTo(1))
				s.live.kinds = nil // forget reads before the cache had the Node
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
			if diff := cmp.Diff(tc.want, s.live.reads()); diff != "" {
				t.Errorf("reads from the API server:\n%s", diff)
			}
		})
	}
}

func TestFloodAboutOneObjectCausesOneRequest(t *testing.T) {
	s := newFixture(t, nil)
	for _, container := range []string{"", "spec.containers{app}", "spec.containers{sidecar}"} {
		ref := s.web()
		ref.FieldPath = container
		if !s.Context(t.Context(), event(s.namespace, ref)).Resolved {
			t.Error("not resolved")
		}
	}
	if diff := cmp.Diff([]string{"Service"}, s.live.reads()); diff != "" {
		t.Errorf("reads from the API server:\n%s", diff)
	}
}

// The Events about the end of an object come after its deletion.
func TestADeletedObjectIsKnownAsItWasReadBefore(t *testing.T) {
	s := newFixture(t, nil)
	before := s.Context(t.Context(), event(s.namespace, s.web()))
	if err := s.cluster.Client.Delete(t.Context(), s.service); err != nil {
		t.Fatal(err)
	}
	s.ForgetCached()
	after := s.Context(t.Context(), event(s.namespace, s.web()))
	if diff := cmp.Diff(before.Object, after.Object); diff != "" || !after.Resolved {
		t.Errorf("resolved %t: %s", after.Resolved, diff)
	}
	other := s.web()
	other.UID = "5d2b3f60-3f5b-4e0e-8f0e-3b0c0f8c0a11"
	if s.Context(t.Context(), event(s.namespace, other)).Resolved {
		t.Error("another object of the name is known")
	}
	if got := s.live.reads(); len(got) != 3 {
		t.Errorf("reads %v: it was not read again after its deletion", got)
	}
}

func TestAMissingObjectThatCanAppearIsNotCached(t *testing.T) {
	s := newFixture(t, nil)
	late := event(s.namespace, alarm.Reference{APIVersion: "v1", Kind: "Service", Namespace: s.namespace, Name: "late"})
	if s.Context(t.Context(), late).Resolved {
		t.Fatal("resolved before the object exists")
	}
	service := s.service.DeepCopy()
	service.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "late"}
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	s.create(t, service)
	if !s.Context(t.Context(), late).Resolved {
		t.Error("not resolved although the object exists")
	}
}

func TestSlowAPIServerDelaysAnAlarmByTwoSecondsAtMost(t *testing.T) {
	hanging := hangingReader{}
	for _, kind := range []string{"Normal", "Warning"} {
		e := enrich.New("test", hanging, hanging)
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			about := event("shop", alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0"})
			about.Type = kind
			got := e.Context(t.Context(), about)
			if took := time.Since(start); took != 2*time.Second {
				t.Errorf("the call took %v", took)
			}
			if got.Resolved || got.Object.Metadata.Name != "web-0" {
				t.Errorf("got %+v, want the names only", got)
			}
		})
	}
}

// hangingReader returns only when its context ends.
type hangingReader struct{}

func (hangingReader) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hangingReader) Count(context.Context) (int64, error) { return 3, nil }

func (hangingReader) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// warning returns an Event of a pod, as a kubelet reports it.
func (s *fixture) warning(pod *corev1.Pod, kind, reason string) *alarm.Event {
	e := event(s.namespace, alarm.Reference{APIVersion: "v1", Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: string(pod.UID)})
	e.Type, e.Reason = kind, reason
	return e
}

// createPod creates a pod with the status of one that exceeded its memory limit.
func (s *fixture) createPod(t *testing.T) *corev1.Pod {
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

func TestWarningOfAPodHasItsCause(t *testing.T) {
	const cause = `container "app" was killed because it used more memory than its limit of 64Mi: raise resources.limits.memory, or reduce its memory use`
	s := newFixture(t, nil)
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
	if diff := cmp.Diff([]string{"whole Pod"}, s.live.reads()); diff != "" {
		t.Errorf("reads from the API server:\n%s", diff)
	}
}

// The kubelet reports a delayed pull as a Normal Event.
func TestDelayedImagePullHasItsCause(t *testing.T) {
	s := newFixture(t, nil)
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

// The kubelet reports Events of a static pod with the hash of its configuration as UID.
func TestEventOfAStaticPodFindsItsMirrorPod(t *testing.T) {
	s := newFixture(t, nil)
	s.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: "etcd-node-0", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "d41d8cd9"},
		},
		Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "etcd", Image: "example.com/etcd:1"}}},
	}
	s.create(t, pod)
	for uid, want := range map[string]bool{"d41d8cd9": true, string(pod.UID): true, "another": false} {
		about := s.warning(pod, "Normal", "Pulled")
		about.Regarding.UID = uid
		if got := s.Context(t.Context(), about); got.Resolved != want {
			t.Errorf("UID %s: resolved=%v, want %v", uid, got.Resolved, want)
		}
	}
}

func TestCauseIsReadForEachReason(t *testing.T) {
	s := newFixture(t, nil)
	pod := s.createPod(t)
	if got := s.Context(t.Context(), s.warning(pod, "Normal", "Pulled")); got.Object.Cause != "" || !got.Resolved {
		t.Errorf("a Normal Event has a cause: %+v", got)
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
	if diff := cmp.Diff([]string{"Pod", "whole Pod", "whole Pod"}, s.live.reads()); diff != "" {
		t.Errorf("reads from the API server:\n%s", diff)
	}
}

// The status of a pod does not show why it has not started.
func TestAnEventAboutAVolumeOrTheNetworkIsItsCause(t *testing.T) {
	s := newFixture(t, nil)
	pod := s.createPod(t)
	pod.Status.ContainerStatuses = nil
	if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.At(pod.CreationTimestamp.Add(time.Minute))
	for _, tc := range []struct{ reason, note, want string }{
		{"FailedMount", `MountVolume.SetUp failed for volume "conf" : configmap "settings" not found`, `volume "conf" cannot be mounted: ConfigMap "settings" does not exist: create it, or correct its name`},
		{"FailedMount", `MountVolume.SetUp failed for volume "keys" : secret "login" not found`, `volume "keys" cannot be mounted: Secret "login" does not exist: create it, or correct its name; if a controller creates it, find out why it has not`},
		{"FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) web-1`, `volume "pvc-1" cannot be attached: pods on another node use it: web-1: wait until these pods end, or stop them; if one of them does not end, check its node`},
		{"FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to reserve sandbox name "x"`, "the node cannot set up the pod: the node takes too long to set up its sandbox: wait; if the problem persists, ask the cluster's administrator"},
	} {
		e := s.warning(pod, "Warning", tc.reason)
		e.Note = tc.note
		for range 2 {
			if got := s.Context(t.Context(), e).Object.Cause; got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.note, got, tc.want)
			}
		}
	}
	if diff := cmp.Diff([]string{"whole Pod", "whole Pod", "whole Pod", "whole Pod"}, s.live.reads()); diff != "" {
		t.Errorf("reads from the API server:\n%s", diff)
	}
}

// A cause is named when it is late, and an advice to wait ends.
func TestACauseIsNamedFromTheTimeAtWhichItIsLate(t *testing.T) {
	const message = "the node cannot set up the pod: the node takes too long to set up its sandbox: "
	s := newFixture(t, nil)
	pod := s.createPod(t)
	created := pod.CreationTimestamp
	pod.Status.ContainerStatuses = nil
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: created}}
	if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	e := s.warning(pod, "Warning", "FailedCreatePodSandBox")
	e.Note = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to reserve sandbox name "x"`
	late := message + "waiting since " + created.UTC().Format("2006-01-02 15:04 UTC") + " has not helped: ask the cluster's administrator"
	for age, want := range map[time.Duration]string{
		5 * time.Second:  "",
		11 * time.Second: message + "wait; if the problem persists, ask the cluster's administrator",
		29 * time.Minute: message + "wait; if the problem persists, ask the cluster's administrator",
		30 * time.Minute: late,
		90 * time.Hour:   late,
	} {
		s.ForgetCached()
		if got := s.At(created.Add(age)).Context(t.Context(), e); got.Object.Cause != want || !got.Resolved {
			t.Errorf("after %s: got %q, want %q", age, got.Object.Cause, want)
		}
	}
}

// The Event names the pod that holds the volume. That pod says why it does not end, if it mounts the same claim.
func TestTheHolderOfAVolumeIsPartOfTheCause(t *testing.T) {
	s := newFixture(t, nil)
	holder := s.createPod(t)
	pod := func(name, claim string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: corev1.PodSpec{
			NodeName: "node-0", Containers: []corev1.Container{{Name: "app", Image: "a"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		}}
	}
	for _, name := range []string{"data", "other"} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		s.create(t, claim)
		claim.Status.Phase = corev1.ClaimBound
		if err := s.cluster.Client.Status().Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	mounting := pod("mounting", "data")
	s.create(t, mounting)
	mounting.Status.ContainerStatuses = holder.Status.ContainerStatuses
	mounting.Status.ContainerStatuses[0].Name = "app"
	if err := s.cluster.Client.Status().Update(t.Context(), mounting); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		claim, named string
		want         bool
	}{
		"the same claim": {"data", "mounting", true},
		"another claim":  {"other", "mounting", false},
		"no claim":       {"data", "hungry", false},
		"no such pod":    {"data", "gone", false},
	} {
		waiting := pod("waiting-"+strings.ReplaceAll(name, " ", "-"), tc.claim)
		s.create(t, waiting)
		e := s.warning(waiting, "Warning", "FailedAttachVolume")
		e.Note = `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) ` + tc.named
		got := s.Context(t.Context(), e).Object.Cause
		if !strings.Contains(got, tc.named) || strings.Contains(got, `Pod "mounting" has a problem: `) != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTheCauseIsAboutTheContainerOfTheEvent(t *testing.T) {
	s := newFixture(t, nil)
	s.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "two"},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "app", Image: "a:1"}, {Name: "metrics", Image: "m:1"}}},
	}
	s.create(t, pod)
	loops := func(name, reason string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metav1.Now()}},
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{loops("app", "Error", 1), loops("metrics", "OOMKilled", 137)}
	if err := s.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for container, want := range map[string]string{"app": `container "app" ended with exit code 1`, "metrics": `container "metrics" was killed because it ran out of memory`} {
		e := s.warning(pod, "Warning", "BackOff")
		e.Regarding.FieldPath = "spec.containers{" + container + "}"
		e.Note = "Back-off restarting failed container " + container
		if got := s.Context(t.Context(), e).Object.Cause; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", container, got)
		}
	}
}

func TestAPodOnANodeThatDoesNotRespondHasThisCause(t *testing.T) {
	s := newFixture(t, nil)
	node := s.createNode(t, "node-0")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if err := s.cluster.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	pod := s.createPod(t) // it crashed before
	NewWithT(t).Eventually(func() string {
		return s.Context(t.Context(), s.warning(pod, "Warning", "BackOff")).Object.Cause
	}).WithTimeout(time.Minute).Should(HavePrefix(`node "node-0" of the pod does not respond`))
}

func TestCauseIsOfTheRegardedPod(t *testing.T) {
	s := newFixture(t, nil)
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

func TestTrimNodeKeepsTheUsedFields(t *testing.T) {
	now := metav1.Now()
	kept := metav1.ObjectMeta{
		Name: "node-0", UID: "uid", ResourceVersion: "7", CreationTimestamp: now, DeletionTimestamp: &now,
		Labels: map[string]string{"pool": "web"}, Annotations: map[string]string{"rack": "7"},
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	whole := &corev1.Node{
		ObjectMeta: *kept.DeepCopy(),
		Spec:       corev1.NodeSpec{ProviderID: "aws:///i-1", Taints: []corev1.Taint{{Key: "a", TimeAdded: &now}}, PodCIDRs: []string{"10.1.0.0/24"}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Images:     []corev1.ContainerImage{{Names: []string{"example.com/a:1"}}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "a long text", LastHeartbeatTime: now, LastTransitionTime: now}},
			Addresses:  []corev1.NodeAddress{{Address: "10.0.0.1"}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", MachineID: "m"},
		},
	}
	whole.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	whole.OwnerReferences = []metav1.OwnerReference{{Name: "a"}}
	whole.Finalizers = []string{"a"}

	got, err := enrich.TrimNode(whole.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{
		ObjectMeta: kept,
		Spec:       corev1.NodeSpec{PodCIDRs: whole.Spec.PodCIDRs, Taints: whole.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Addresses: whole.Status.Addresses,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: now}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTrimNodeIgnoresOtherObjects(t *testing.T) {
	want := cache.DeletedFinalStateUnknown{Key: "node-0"}
	if got, err := enrich.TrimNode(want); err != nil || got != any(want) {
		t.Errorf("got %v, %v", got, err)
	}
}
