package reconciler

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAnEnqueuerCollectsTheChangesOfAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := types.NamespacedName{Namespace: "shop", Name: "web"}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		e := &Enqueuer{delay: time.Second}
		e.Enqueue(name) // before the controller starts
		if err := e.SetQueue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			e.Enqueue(name)
			time.Sleep(100 * time.Millisecond)
		}
		if got := queue.Len(); got != 0 {
			t.Errorf("%d objects are enqueued at once, want none", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := queue.Len(); got != 1 {
			t.Errorf("%d objects are enqueued, want one", got)
		}
	})
}
