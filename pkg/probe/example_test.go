package probe_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/pkg/probe"
)

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
