package jupyter

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// What the cache shows may have been made anew by others meanwhile.
func TestNothingIsDeletedButWhatWasSeen(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, networkingv1.AddToScheme, appsv1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nb", UID: "of-jupyter"}}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nb", UID: "of-ingress", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "bongsu.io/v1alpha1", Kind: "Jupyter", Name: "nb", UID: j.UID, Controller: new(true)},
	}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "nb-0", UID: "of-pod", Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "former"},
	}}
	deleted := map[string]types.UID{}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(ingress, pod).Build(), interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			options := (&client.DeleteOptions{}).ApplyOptions(opts)
			if p := options.Preconditions; p != nil && p.UID != nil {
				deleted[o.GetName()] = *p.UID
			}
			return nil
		},
	})
	r := New(Dependencies{Client: c, Live: c, Clock: testingclock.NewFakeClock(time.Unix(0, 0))})
	n := newNotebook(j)
	n.pod, n.set.Status.UpdateRevision = pod, "latest"
	if _, err := step.Run(t.Context(), n, r.ensureIngress, r.replacePod); err != nil {
		t.Fatal(err)
	}
	if deleted["nb"] != ingress.UID || deleted["nb-0"] != pod.UID {
		t.Errorf("deleted by these UIDs: %v", deleted)
	}
}
