package appservice

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
)

// The cache of pods can lag behind that of Deployments: it contains pods that a rollout has ended.
func TestACrashOfAnOlderRevisionIsNoProblemOfAFinishedRollout(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	numbered := func(name, number string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Annotations: map[string]string{"deployment.kubernetes.io/revision": number}}
	}
	ownedBy := func(kind, name string, meta metav1.ObjectMeta) metav1.ObjectMeta {
		meta.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
		return meta
	}
	set := func(name, number string) client.Object {
		return &appsv1.ReplicaSet{ObjectMeta: ownedBy("Deployment", "web", numbered(name, number))}
	}
	pod := func(set string, crashed bool) client.Object {
		p := &corev1.Pod{ObjectMeta: ownedBy("ReplicaSet", set, metav1.ObjectMeta{Namespace: "shop", Name: set + "-x"})}
		p.Spec.Containers = []corev1.Container{{Name: "app"}}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-30 * time.Second))}},
		}}}
		if crashed {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: "Error", ExitCode: 1, StartedAt: metav1.NewTime(now.Add(-90 * time.Second)), FinishedAt: metav1.NewTime(now.Add(-time.Minute)),
			}
		}
		return p
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"of an older one":        {[]client.Object{set("web-1", "1"), set("web-2", "2"), pod("web-1", true), pod("web-2", false)}, ""},
		"of the current one":     {[]client.Object{set("web-1", "1"), set("web-2", "2"), pod("web-1", false), pod("web-2", true)}, "web-2-x"},
		"after a rollback":       {[]client.Object{set("web-1", "2"), set("web-2", "1"), pod("web-1", true), pod("web-2", true)}, "web-1-x"},
		"the new one is unknown": {[]client.Object{set("web-1", "1"), pod("web-1", true)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(&v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
			a.deployment.ObjectMeta, a.sets = numbered("web", "2"), map[types.UID]string{}
			r := &Reconciler{ended: reconciler.NewEndedPods(v1alpha1.LabelAppService)}
			if err := r.readPods(t.Context(), a, fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build()); err != nil {
				t.Fatal(err)
			}
			a.findings.FindCrash(nil, now, a.current(a.pods)...)
			got := ""
			if a.findings.Crash != nil {
				got = a.findings.Crash.Object.Name
			}
			if got != tc.want {
				t.Errorf("got a crash of %q, want %q", got, tc.want)
			}
		})
	}
}
