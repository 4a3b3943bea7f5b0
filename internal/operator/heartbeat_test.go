package operator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/pkg/events"
)

// A leader that starts between two heartbeats neither delays the next one nor repeats the last one. A
// request that fails is repeated soon.
func TestAHeartbeatIsEmittedOnceForEachIntervalWhoeverLeads(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range schemes {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		const every = 5 * time.Minute
		begin := time.Now().Truncate(every)
		var emitted []time.Duration
		api := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if time.Since(begin) == 4*every {
					return errors.New("the API server does not answer")
				}
				err := c.Create(ctx, o, opts...)
				if err == nil {
					emitted = append(emitted, time.Since(begin))
				}
				return err
			},
		}).Build()
		lead := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			recorder := events.NewRecorder(api, clock.RealClock{}, "bongsu")
			h := &heartbeat{recorder: recorder, namespace: "bongsu-system", every: every, clock: clock.RealClock{}, log: logr.Discard()}
			if err := h.run(ctx); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Until(begin.Add(every)))
		lead(7 * time.Minute)
		time.Sleep(time.Minute)
		lead(3 * time.Minute)
		lead(time.Minute)
		lead(7 * time.Minute)
		if want := []time.Duration{every, 2 * every, 3 * every, 4*every + retryHeartbeat}; !slices.Equal(emitted, want) {
			t.Errorf("emitted at %v, want %v", emitted, want)
		}
		var list eventsv1.EventList
		if err := api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			got := []string{e.Namespace, e.Type, e.Reason, e.Regarding.Name}
			if diff := cmp.Diff([]string{"bongsu-system", corev1.EventTypeNormal, "Heartbeat", "bongsu-checkpoint"}, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}
