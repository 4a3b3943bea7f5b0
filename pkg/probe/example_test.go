package probe_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// refusing is a healthcheck.Checker whose pods are not healthy.
type refusing struct{}

func (refusing) Run(context.Context, healthcheck.Check) healthcheck.Observation {
	return healthcheck.Observation{At: time.Now(), Outcome: healthcheck.Failed, Message: "exit code 1: connection refused"}
}

func (r refusing) Overdue(c healthcheck.Check) healthcheck.Observation {
	return r.Run(context.Background(), c)
}

// An operator calls ForManager instead of New, and its controller calls Start.
func ExampleProber() {
	prober := probe.New(clock.RealClock{}, refusing{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := prober.Start(ctx, queue); err != nil {
		fmt.Println(err)
	}
	go func() { _ = prober.Run(ctx) }()

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cache-0", UID: "1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "memcached"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "memcached", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
	spec := probe.Spec{Probe: corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"memcached-ping"}}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}}
	var status []probe.PodHealth // in the status of the owner
	status = prober.Probe(types.NamespacedName{Namespace: "shop", Name: "cache"}, &spec, []*corev1.Pod{pod}, status)
	fmt.Println(status[0].Name, status[0].Health, status[0].Reason)

	request, _ := queue.Get() // the next reconcile
	status = prober.Probe(request.NamespacedName, &spec, []*corev1.Pod{pod}, status)
	fmt.Println(status[0].Name, status[0].Health, status[0].Message)
	// Output:
	// cache-0 Unknown NotChecked
	// cache-0 Unhealthy exit code 1: connection refused
}

func ExamplePool() {
	results := make(chan string)
	pool := probe.NewPool(4, clock.RealClock{}, func(ctx context.Context, key types.NamespacedName, _ types.UID, healthy bool) {
		select {
		case results <- fmt.Sprint(key, " is healthy: ", healthy):
		case <-ctx.Done():
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- pool.Start(ctx) }() // a manager does this
	pool.Put(probe.Check[bool]{
		Key: types.NamespacedName{Namespace: "shop", Name: "web-0"}, PodUID: "1",
		Period: 10 * time.Millisecond, Timeout: time.Second,
		Run: func(context.Context) bool { return true }, // ask the pod here
	})
	fmt.Println(<-results)
	stop()
	fmt.Println(<-done)
	// Output:
	// shop/web-0 is healthy: true
	// <nil>
}
