package status

import (
	"context"
	"errors"
	"slices"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Otherwise the status would be empty as long as the error lasts.
func TestAnErrorIsReportedUntilTheFirstEvaluation(t *testing.T) {
	down := apierrors.NewInternalError(errors.New("etcd does not answer"))
	evaluated := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}
	failed := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonReconcileError, Message: "another"}
	for name, tc := range map[string]struct {
		before *metav1.Condition
		err    error
		want   string
	}{
		"the first reconcile": {nil, down, "a request of the operator failed: Internal error occurred: etcd does not answer: the operator retries"},
		"the next failure":    {&failed, down, "a request of the operator failed: Internal error occurred: etcd does not answer: the operator retries"},
		"a former evaluation": {&evaluated, down, ""},
		"a conflict":          {nil, apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("newer")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(nil, clocktesting.NewFakeClock(metav1.Now().Time), "appservice-controller")
			a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			if tc.before != nil {
				w.SetCondition(a, *tc.before)
				w.SetState(a, v1alpha1.StateReady, "", false)
			}
			w.SetError(a, tc.err)
			ready := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
			if reported := ready != nil && ready.Reason == v1alpha1.ReasonReconcileError; reported != (tc.want != "") || reported && ready.Message != tc.want {
				t.Errorf("condition %+v, want message %q", ready, tc.want)
			}
		})
	}
}

var errDown = errors.New("connection refused")

// If the operator ended between the two, the next one would observe another time, and emit a
// second Event.
func TestEventsAboutEntriesOfTheStatusFollowItsWrite(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var written bool
	var emitted []string
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	failing := ""
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(a).WithStatusSubresource(a).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if failing == "status" {
				return errDown
			}
			written = true
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			reason := o.(*eventsv1.Event).Reason
			if failing == reason {
				return errDown
			}
			emitted = append(emitted, reason)
			return nil
		},
	}).Build()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(api, clocktesting.NewFakeClock(metav1.Now().Time), "appservice-controller")
	write := func() error {
		now := a.DeepCopy()
		now.Status.Unhealthy = 1
		_, err := w.Write(t.Context(), a, now, Report{
			Changes: []events.Event{{Reason: "Change"}}, Lasting: []events.Event{{Reason: "Lasting"}},
		})
		return err
	}
	failing = "status"
	if err := write(); !errors.Is(err, errDown) || len(emitted) != 1 {
		t.Fatalf("without a write: error %v, Events %q", err, emitted)
	}
	failing = "Lasting"
	if err := write(); !errors.Is(err, errDown) || !written {
		t.Fatalf("without the Event: error %v, written %v", err, written)
	}
	failing = ""
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil || !slices.Equal(emitted, []string{"Change", "Lasting"}) {
		t.Errorf("at last: error %v, Events %q", err, emitted)
	}
}

// If the cache still has the first status, the second change seems to be none. No watch enqueues the
// object again.
func TestAStatusThatChangesBackBeforeTheCacheHasItIsWritten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	a := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "1"}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(a).WithStatusSubresource(a).Build()
	read := func() *v1alpha1.AppService {
		var now v1alpha1.AppService
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(a), &now); err != nil {
			t.Fatal(err)
		}
		return &now
	}
	clock := clocktesting.NewFakeClock(metav1.Now().Time)
	w := NewWriter(api, clock, "appservice-controller")
	write := func(before *v1alpha1.AppService, unhealthy int32) error {
		now := before.DeepCopy()
		now.Status.Unhealthy = unhealthy
		_, err := w.Write(t.Context(), before, now, Report{})
		return err
	}
	cached := read()
	if err := write(cached, 1); err != nil {
		t.Fatal(err)
	}
	if err := write(cached, 0); !apierrors.IsConflict(err) {
		t.Errorf("with an old cache: %v, want a conflict", err)
	}
	if err := write(read(), 0); err != nil || read().Status.Unhealthy != 0 {
		t.Errorf("with a new cache: %v, %d unhealthy", err, read().Status.Unhealthy)
	}
	if err := write(read(), 0); err != nil {
		t.Errorf("without a change: %v", err)
	}
	old := read()
	if err := write(old, 2); err != nil {
		t.Fatal(err)
	}
	clock.Step(2 * maxCacheLag)
	if err := write(old, 0); err != nil { // as after a restore of etcd, the version is the present one again
		t.Errorf("after a while: %v", err)
	}
}
