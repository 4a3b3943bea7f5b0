package explain_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

const (
	ofDeployment = 10
	// objectLimit limits the time for 95 % of the objects, and overviewLimit that for all problems.
	objectLimit   = time.Second
	overviewLimit = 5 * time.Second
	// memoryLimit limits the heap during an overview, in MB.
	memoryLimit = 300
)

// BenchmarkManyPods measures the explanation of one of 200 Deployments, and of all problems, in a namespace with
// 2,000 pods. In each Deployment, one pod crashes.
func BenchmarkManyPods(b *testing.B) {
	c := cluster.Shared(b)
	ns := c.Namespace(b, nil)
	deployments := size.Scaled(2000) / ofDeployment
	create(b, c.Client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}})
	var group errgroup.Group
	group.SetLimit(8)
	for i := range deployments {
		group.Go(func() error { createApp(b, c.Client, ns, fmt.Sprint("app-", i)); return nil })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	e, err := explain.New(c.RESTConfig(), clock.RealClock{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("object", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			for i := range deployments {
				begin := time.Now()
				x, err := e.Explain(b.Context(), schema.GroupResource{Group: "apps", Resource: "deployments"}, ns, fmt.Sprint("app-", i))
				if err != nil || x.Cause == nil {
					b.Fatalf("%v, %+v", err, x)
				}
				took = append(took, time.Since(begin))
			}
		}
		slices.Sort(took)
		p95 := took[len(took)*95/100]
		b.ReportMetric(p95.Seconds(), "p95-s")
		if size.Exceeds(p95, objectLimit) {
			b.Errorf("95 %% take up to %v, the limit is %v", p95, objectLimit)
		}
	})
	b.Run("overview", func(b *testing.B) {
		peak := peakHeap(b)
		for b.Loop() {
			o, err := e.Overview(b.Context(), ns)
			if err != nil || len(o.Problems) != deployments {
				b.Fatalf("%v, %d problems", err, len(o.Problems))
			}
		}
		each := b.Elapsed() / time.Duration(b.N)
		megabytes := float64(peak()) / (1 << 20)
		b.ReportMetric(megabytes, "peak-MB")
		if size.Exceeds(each, overviewLimit) || size.Exceeds(megabytes, memoryLimit) {
			b.Errorf("%v and %.0f MB, the limits are %v and %d MB", each, megabytes, overviewLimit, memoryLimit)
		}
	})
}

// peakHeap measures the heap until the returned function is called. It returns the largest size in bytes.
func peakHeap(b *testing.B) (stop func() uint64) {
	b.Helper()
	runtime.GC()
	ctx, cancel := context.WithCancel(b.Context())
	peak := make(chan uint64)
	go func() {
		var m runtime.MemStats
		most := uint64(0)
		for ticker := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; {
			select {
			case <-ticker.C:
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			case <-ctx.Done():
				ticker.Stop()
			}
		}
		peak <- most
	}()
	return func() uint64 { cancel(); return <-peak }
}

// createApp creates a Deployment with its ReplicaSet and its pods. One of these crashes.
func createApp(b *testing.B, c client.Client, ns, name string) {
	b.Helper()
	wanted, labels := int32(ofDeployment), map[string]string{"app": name}
	meta := func(name string, owner client.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}
		if owner != nil {
			m.OwnerReferences = ownedBy(owner, kind)
		}
		return m
	}
	spec := newPod("", nil, "").Spec
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	d := &appsv1.Deployment{ObjectMeta: meta(name, nil, ""), Spec: appsv1.DeploymentSpec{Replicas: &wanted, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	create(b, c, d)
	r := &appsv1.ReplicaSet{ObjectMeta: meta(name+"-1", d, "Deployment"), Spec: appsv1.ReplicaSetSpec{Replicas: &wanted, Selector: d.Spec.Selector, Template: template}}
	create(b, c, r)
	for i := range ofDeployment {
		p := &corev1.Pod{ObjectMeta: meta(fmt.Sprintf("%s-1-%d", name, i), r, "ReplicaSet"), Spec: spec}
		p.Spec.NodeName = "node-0"
		create(b, c, p)
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: metav1.Now()}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: i > 0, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if i == 0 {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses[0].State, p.Status.ContainerStatuses[0].LastTerminationState, p.Status.ContainerStatuses[0].RestartCount = ended, ended, 3
		}
		if err := c.Status().Update(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

func create(b *testing.B, c client.Client, o client.Object) {
	b.Helper()
	if err := c.Create(b.Context(), o); err != nil {
		b.Error(err)
	}
}
