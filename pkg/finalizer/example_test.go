package finalizer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/finalizer"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// Cache is a custom resource whose status contains the State, as in finalizer_test.go.
func ExampleFinalizer_Reconcile() {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	utilruntime.Must(eventsv1.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cache"}, &Cache{})
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&Cache{}).WithObjects(
		&Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cache"}},
	).Build()
	clk := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	recorder := events.NewRecorder(api, clk, "cache-controller")
	backup := finalizer.New(api, clk, recorder, "example.com/backup", "Backup")

	// dump fails the first time.
	dumps := 0
	dump := func(context.Context) error {
		if dumps++; dumps == 1 {
			return errors.New("no space left on device")
		}
		return nil
	}
	reconcile := func() {
		cache := &Cache{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "cache"}, cache); err != nil {
			fmt.Println(err)
			return
		}
		result, err := backup.Reconcile(ctx, cache, &cache.Status.Backup, finalizer.Policy{OnFailure: finalizer.Abandon}, dump)
		if err != nil || result.Stop {
			again, err := step.Finish(result.RequeueAfter, err)
			fmt.Println(cache.Status.Backup.Phase, cache.Status.Backup.Message, again.RequeueAfter, err)
			return
		}
		fmt.Println("create children")
	}
	reconcile()
	_ = api.Delete(ctx, &Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cache"}})
	reconcile()
	clk.SetTime(clk.Now().Add(10 * time.Second))
	reconcile()
	reconcile()
	// Output:
	// create children
	// Failed no space left on device 10s <nil>
	// Succeeded  0s <nil>
	// caches.example.com "cache" not found
}
