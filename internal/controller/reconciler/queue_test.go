package reconciler

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace string, number int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(number)}}
}

// take returns the next request. It fails if there is none that may be processed now.
func take(t *testing.T, queue priorityqueue.PriorityQueue[reconcile.Request]) reconcile.Request {
	t.Helper()
	got := make(chan reconcile.Request, 1)
	go func() {
		item, _ := queue.Get()
		got <- item
	}()
	synctest.Wait()
	select {
	case item := <-got:
		return item
	default:
		t.Fatal("no request may be processed now")
		return reconcile.Request{}
	}
}

func newTestQueue(workers int) priorityqueue.PriorityQueue[reconcile.Request] {
	options := Workers(workers)
	return options.NewQueue("test", nil).(priorityqueue.PriorityQueue[reconcile.Request])
}

func TestANamespaceUsesHalfOfTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTestQueue(4)
		defer queue.ShutDown()
		for i := range 1000 {
			queue.Add(request("noisy", i))
		}
		first, second := take(t, queue), take(t, queue)
		queue.Add(request("quiet", 0))
		if got := take(t, queue); got != request("quiet", 0) {
			t.Fatalf("the third worker got %v, want the request of the other namespace", got)
		}
		queue.Add(request("noisy", 500)) // waits already
		queue.Add(request("", 0))
		if got := take(t, queue); got != request("", 0) {
			t.Fatalf("the fourth worker got %v, want the request without a namespace", got)
		}
		queue.Done(request("", 0))
		queue.Done(request("quiet", 0))

		seen := map[reconcile.Request]bool{first: true, second: true}
		queue.Done(first)
		for len(seen) < 1000 {
			item := take(t, queue)
			if seen[item] {
				t.Fatalf("%v is processed twice", item)
			}
			seen[item] = true
			queue.Done(item)
		}
		queue.Done(second)
		if fair := queue.(*fairQueue[reconcile.Request]); len(fair.busy) != 0 {
			t.Errorf("the queue remembers %d namespaces without requests", len(fair.busy))
		}
	})
}

func TestTheLimitHoldsWhileWorkersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, namespaces, each = 6, 3, 200
		queue := newTestQueue(workers)
		var mu sync.Mutex
		processing, done := map[string]int{}, map[reconcile.Request]int{}
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for item, shutdown := queue.Get(); !shutdown; item, shutdown = queue.Get() {
					mu.Lock()
					if processing[item.Namespace]++; processing[item.Namespace] > workers/2 {
						t.Errorf("%d workers process namespace %s", processing[item.Namespace], item.Namespace)
					}
					done[item]++
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					processing[item.Namespace]--
					mu.Unlock()
					queue.Done(item)
				}
			})
		}
		for i := range each {
			for n := range namespaces {
				queue.Add(request(fmt.Sprint("n", n), i))
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		queue.ShutDown()
		wg.Wait()
		if len(done) != namespaces*each {
			t.Errorf("%d requests were processed, want %d", len(done), namespaces*each)
		}
	})
}

func TestAFailedObjectIsRetriedWithinAMinute(t *testing.T) {
	limiter := Workers(1).RateLimiter
	before := time.Duration(0)
	for range 50 {
		pause := limiter.When(request("shop", 1))
		if pause < before || pause > time.Minute {
			t.Fatalf("the pause after %v is %v", before, pause)
		}
		before = pause
	}
	if before != time.Minute {
		t.Errorf("the last pause is %v, want a minute", before)
	}
}
