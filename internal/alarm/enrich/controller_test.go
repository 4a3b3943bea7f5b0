package enrich_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const outOfMemory = `container "app" was killed because it used more memory than its limit of 64Mi: raise resources.limits.memory, or reduce its memory use`

// controllers are empty objects whose pods have the label app: KIND. A Deployment controls the
// ReplicaSet "set".
func controllers() map[string]client.Object {
	selector := func(kind string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": kind}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app", Image: "a"}}},
		}
	}
	deployment, replicaSet, statefulSet, daemonSet, job := &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &batchv1.Job{}
	deployment.Spec.Selector, deployment.Spec.Template = selector("Deployment")
	replicaSet.Spec.Selector, replicaSet.Spec.Template = selector("ReplicaSet")
	statefulSet.Spec.Selector, statefulSet.Spec.Template = selector("StatefulSet")
	daemonSet.Spec.Selector, daemonSet.Spec.Template = selector("DaemonSet")
	job.Spec.Selector, job.Spec.Template = selector("Job")
	job.Spec.Template.Spec.RestartPolicy, job.Spec.ManualSelector = corev1.RestartPolicyNever, new(true)
	return map[string]client.Object{
		"Deployment": deployment, "ReplicaSet": replicaSet, "StatefulSet": statefulSet, "DaemonSet": daemonSet, "Job": job,
	}
}

// control creates a controller of a kind with the pod "hungry", which exceeds its memory limit.
// It also creates a pod without a controller that has the same labels.
func (s *fixture) control(t *testing.T, kind string) (owner client.Object, pod *corev1.Pod) {
	t.Helper()
	owner = controllers()[kind]
	owner.SetNamespace(s.namespace)
	owner.SetName("web")
	s.create(t, owner)
	direct := owner
	if kind == "Deployment" {
		set := controllers()["ReplicaSet"].(*appsv1.ReplicaSet)
		set.Namespace, set.Name, set.OwnerReferences = s.namespace, "set", []metav1.OwnerReference{s.referenceTo(t, owner)}
		s.create(t, set)
		direct = set
	}
	pod = s.createPod(t)
	pod.Labels, pod.OwnerReferences = map[string]string{"app": kind}, []metav1.OwnerReference{s.referenceTo(t, direct)}
	s.update(t, pod)
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "foreign", Labels: pod.Labels}, Spec: corev1.PodSpec{
		NodeName: "node-0", Containers: []corev1.Container{{Name: "foreign", Image: "a"}},
	}}
	s.create(t, foreign)
	foreign.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "foreign", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "foreign" not found`},
	}}}
	if err := s.cluster.Client.Status().Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	return owner, pod
}

func (s *fixture) update(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.cluster.Client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (s *fixture) referenceTo(t *testing.T, o client.Object) metav1.OwnerReference {
	t.Helper()
	kind, err := apiutil.GVKForObject(o, s.cluster.Client.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	return *metav1.NewControllerRef(o, kind)
}

// about returns an Event that regards a controller and contains no cause itself.
func (s *fixture) about(t *testing.T, o client.Object, kind, reason string) *alarm.Event {
	t.Helper()
	ref := s.referenceTo(t, o)
	e := event(s.namespace, alarm.Reference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: s.namespace, Name: ref.Name, UID: string(ref.UID)})
	e.Type, e.Reason = kind, reason
	return e
}

func TestAWarningOfAControllerHasTheCauseOfItsPods(t *testing.T) {
	for kind := range controllers() {
		t.Run(kind, func(t *testing.T) {
			s := newFixture(t, nil)
			owner, pod := s.control(t, kind)
			if got := s.Context(t.Context(), s.about(t, owner, "Normal", "Scaled")); got.Object.Cause != "" || !got.Resolved || s.live.listed() != 0 {
				t.Errorf("a Normal Event reads pods: %+v", got)
			}
			for i := range 10 { // a storm
				got := s.Context(t.Context(), s.about(t, owner, "Warning", fmt.Sprint("Reason", i)))
				if got.Object.Cause != outOfMemory || !got.Resolved || got.Object.Metadata.UID != string(owner.GetUID()) {
					t.Errorf("got %+v", got)
				}
			}
			if lists := s.live.listed(); lists != 1 {
				t.Errorf("the pods were listed %d times", lists)
			}
			another := enrich.New("test", s.nodes, s.live).WithLongTimeout()
			pod.OwnerReferences = nil
			s.update(t, pod)
			if got := another.Context(t.Context(), s.about(t, owner, "Warning", "Failing")); got.Object.Cause != "" || !got.Resolved {
				t.Errorf("a cause of pods of others: %+v", got)
			}
		})
	}
}

// A cause that its own status shows counts if its pods show none.
func TestAWarningOfAControllerWithoutPodsHasTheCauseInItsStatus(t *testing.T) {
	s := newFixture(t, nil)
	job := controllers()["Job"].(*batchv1.Job)
	job.Namespace, job.Name = s.namespace, "nightly"
	s.create(t, job)
	job.Status.StartTime = new(metav1.Now())
	job.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too many retries", LastTransitionTime: metav1.Now()},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too many retries", LastTransitionTime: metav1.Now()},
	}
	if err := s.cluster.Client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	got := s.Context(t.Context(), s.about(t, job, "Warning", "BackoffLimitExceeded")).Object.Cause
	if !strings.Contains(got, "the Job has failed: too many retries") {
		t.Errorf("got %q", got)
	}
}

// controllerReader has every ReplicaSet, and other objects of any name. It answers lists after a
// delay, with an error, or with pods and whether there are more.
type controllerReader struct {
	failingReader
	err   error
	pods  []corev1.Pod
	more  string
	limit int64
	delay time.Duration
	// unreadable is the name of an object that cannot be read.
	unreadable string

	mu    sync.Mutex
	lists int
	// now is the number of lists at present, and most the highest.
	now, most int
}

func (r *controllerReader) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	r.mu.Lock()
	r.reads++
	r.mu.Unlock()
	if key.Name == r.unreadable {
		return statusError(403)
	}
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		controllers()["ReplicaSet"].(*appsv1.ReplicaSet).DeepCopyInto(o)
	case *appsv1.Deployment:
		controllers()["Deployment"].(*appsv1.Deployment).DeepCopyInto(o)
	}
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetUID(types.UID(key.Name + "-uid"))
	return nil
}

func (r *controllerReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.count(1)
	defer r.count(-1)
	if r.delay > 0 {
		select {
		case <-time.After(r.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.limit = (&client.ListOptions{}).ApplyOptions(opts).Limit
	list.(*corev1.PodList).Items = r.pods
	list.SetContinue(r.more)
	return r.err
}

// count counts a list that begins or ends.
func (r *controllerReader) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += n
	r.most = max(r.most, r.now)
	r.lists += max(n, 0)
}

// replicaSetFailing is a Warning of a ReplicaSet.
func replicaSetFailing(name string) *alarm.Event {
	e := event("shop", alarm.Reference{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: name})
	e.Type, e.Reason = "Warning", "Failing"
	return e
}

// failingPod is a pod of a ReplicaSet of [controllerReader]. Its container ends with exit code 3.
func failingPod(set string) corev1.Pod {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-a", UID: "a", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(set + "-uid"), Controller: new(true),
	}}}}
	pod.Spec.NodeName, pod.Spec.Containers = "node-0", []corev1.Container{{Name: "app"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: ended, LastTerminationState: ended, RestartCount: 2}}
	return pod
}

// The pod that replaces a failed one may not be among those that were read.
func TestOnlySomePodsOfALargeControllerAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		phase corev1.PodPhase
		more  string
		want  string
	}{
		"all, one has failed":       {corev1.PodFailed, "", "exit code 3"},
		"some, one has failed":      {corev1.PodFailed, "next", ""},
		"some, one does not run":    {corev1.PodRunning, "next", "exit code 3"},
		"all, and one does not run": {corev1.PodRunning, "", "exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := failingPod("web")
			pod.Status.Phase = tc.phase
			live := &controllerReader{pods: []corev1.Pod{pod}, more: tc.more}
			got := enrich.New("test", live, live).Context(t.Context(), replicaSetFailing("web"))
			if !got.Resolved || !strings.Contains(got.Object.Cause, tc.want) || (got.Object.Cause == "") != (tc.want == "") {
				t.Errorf("got %+v", got)
			}
			if live.limit != 100 {
				t.Errorf("the limit of the list is %d", live.limit)
			}
		})
	}
}

// The cause is optional. Without it, the object is known, and other objects are read.
func TestPodsThatCannotBeListedAreNotAbsent(t *testing.T) {
	for name, tc := range map[string]struct {
		err error
		// again: the pods are listed again after a second.
		again bool
	}{
		"too many requests":  {statusError(429), true},
		"no permission":      {statusError(403), true},
		"no answer":          {context.DeadlineExceeded, true},
		"an invalid request": {statusError(400), false},
		"too large":          {fmt.Errorf("read: %w", kube.ErrTooLarge), false},
	} {
		t.Run(name, func(t *testing.T) {
			live := &controllerReader{err: tc.err}
			e := enrich.New("test", live, live)
			synctest.Test(t, func(t *testing.T) {
				for range 10 { // a storm
					got := e.Context(t.Context(), replicaSetFailing("web"))
					if !got.Resolved || got.ObjectUnread != "" || got.Object.Metadata.UID != "web-uid" || got.Object.Cause != "" {
						t.Errorf("got %+v", got)
					}
				}
				if live.lists != 1 || live.reads > 2 {
					t.Errorf("%d lists and %d reads of a storm", live.lists, live.reads)
				}
				if other := e.Context(t.Context(), podNamed("other")); !other.Resolved {
					t.Errorf("another object: %+v", other)
				}
				live.err, live.pods = nil, []corev1.Pod{failingPod("web")}
				time.Sleep(1100 * time.Millisecond)
				got := e.Context(t.Context(), replicaSetFailing("web"))
				if !got.Resolved || strings.Contains(got.Object.Cause, "exit code 3") != tc.again {
					t.Errorf("a second later: %+v", got)
				}
			})
		})
	}
}

// A ReplicaSet that cannot be read leaves open whose the pods are.
func TestReplicaSetsThatCannotBeReadLeaveTheDeploymentKnown(t *testing.T) {
	live := &controllerReader{pods: []corev1.Pod{failingPod("web")}, unreadable: "web"}
	e := event("shop", alarm.Reference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "app"})
	e.Type, e.Reason = "Warning", "Failing"
	if got := enrich.New("test", live, live).Context(t.Context(), e); !got.Resolved || got.ObjectUnread != "" || got.Object.Cause != "" {
		t.Errorf("got %+v", got)
	}
	if live.lists != 1 {
		t.Errorf("%d lists", live.lists)
	}
}

func TestThePodsOfOneControllerAreReadAtATime(t *testing.T) {
	const namespaces = 12
	live := &controllerReader{delay: 5 * time.Millisecond}
	e := enrich.New("test", live, live)
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		for i := range namespaces {
			group.Go(func() {
				about := replicaSetFailing(fmt.Sprint("web-", i))
				about.Namespace = fmt.Sprint("team-", i)
				about.Regarding.Namespace = about.Namespace
				if got := e.Context(t.Context(), about); !got.Resolved {
					t.Errorf("got %+v", got)
				}
			})
		}
		group.Wait()
	})
	if live.most != 1 || live.lists != namespaces {
		t.Errorf("%d lists, %d at the same time", live.lists, live.most)
	}
}

// Occurrences of a batch share the time for reads.
func TestPodsThatAreReadSlowlyDelayNoOther(t *testing.T) {
	live := &controllerReader{delay: time.Hour}
	e := enrich.New("test", live, live)
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		group.Go(func() {
			start := time.Now()
			slow := replicaSetFailing("slow")
			slow.Namespace, slow.Regarding.Namespace = "attacker", "attacker"
			if got := e.Context(t.Context(), slow); !got.Resolved || time.Since(start) > 500*time.Millisecond {
				t.Errorf("the slow one: %+v after %s", got, time.Since(start))
			}
		})
		synctest.Wait()
		start := time.Now()
		for i := range 50 {
			if got := e.Context(t.Context(), replicaSetFailing(fmt.Sprint("web-", i))); !got.Resolved || got.Object.Cause != "" {
				t.Errorf("got %+v", got)
			}
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("50 objects took %s", took)
		}
		group.Wait()
		live.delay, live.pods = 0, []corev1.Pod{failingPod("web-0")}
		time.Sleep(time.Second)
		if got := e.Context(t.Context(), replicaSetFailing("web-0")); !strings.Contains(got.Object.Cause, "exit code 3") {
			t.Errorf("later: %+v", got)
		}
	})
}

// A list of 2 MiB is decoded, a larger one is not.
func TestAListOfPodsHasAtMost2MiB(t *testing.T) {
	for name, tc := range map[string]struct {
		size  int
		cause bool
	}{
		"at most 2 MiB": {2_000_000, true},
		"more":          {2_200_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := controllers()["ReplicaSet"].(*appsv1.ReplicaSet)
			set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}
			set.Namespace, set.Name, set.UID = "shop", "web", "web-uid"
			pod := failingPod("web")
			pod.Annotations = map[string]string{"large": strings.Repeat("x", tc.size)}
			list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{pod}}
			mux := http.NewServeMux()
			for path, o := range map[string]any{"/apis/apps/v1/namespaces/shop/replicasets/web": set, "/api/v1/namespaces/shop/pods": list} {
				mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(o) // the reader can end the response
				})
			}
			server := httptest.NewServer(mux)
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			config.Wrap(kube.LimitResponses(8 << 20))
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			live, err := client.New(config, client.Options{Mapper: mapper})
			if err != nil {
				t.Fatal(err)
			}
			got := enrich.New("test", &failingReader{}, live).WithLongTimeout().Context(t.Context(), replicaSetFailing("web"))
			if !got.Resolved || (got.Object.Cause != "") != tc.cause {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A tenant decides how large its pods are.
func TestPodsThatAreTooLargeAreNotRead(t *testing.T) {
	s := newFixture(t, nil)
	owner, pod := s.control(t, "ReplicaSet")
	pod.Annotations = map[string]string{"large": strings.Repeat("x", 100_000)}
	s.update(t, pod)
	config := s.cluster.OperatorConfig(t)
	config.Wrap(kube.LimitResponses(50_000))
	live := &recordingReader{Reader: newReader(t, config)}
	got := enrich.New("test", s.nodes, live).WithLongTimeout().Context(t.Context(), s.about(t, owner, "Warning", "Failing"))
	if got.Object.Cause != "" || !got.Resolved || live.listed() != 1 {
		t.Errorf("got %+v after %d lists", got, live.listed())
	}
}

func (r *recordingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.mu.Lock()
	r.kinds = append(r.kinds, "list")
	r.mu.Unlock()
	return r.Reader.List(ctx, list, opts...)
}

// listed returns the number of lists.
func (r *recordingReader) listed() int {
	return len(slices.DeleteFunc(slices.Clone(r.reads()), func(kind string) bool { return kind != "list" }))
}
