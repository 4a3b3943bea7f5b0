package trial

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
)

func TestAnAlarmWhoseStatusIsWrittenMeanwhileIsReviewed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	conflicts := 2
	update := func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if conflicts--; conflicts >= 0 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "alarms"}, o.GetName(), nil)
		}
		return c.Update(ctx, o, opts...)
	}
	create := func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "alarms"}, o.GetName()) // the fake does not look in a dry run
	}
	present := &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "crashes"}}
	e := &Environment{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(present).
		WithInterceptorFuncs(interceptor.Funcs{Create: create, Update: update}).Build()}
	stored, note, err := e.review(t.Context(), present, kube.Key{Kind: "Alarm", Namespace: "shop", Name: "crashes"})
	if stored == nil || note != "" || err != nil {
		t.Errorf("stored %v, note %q, %v", stored, note, err)
	}
}
