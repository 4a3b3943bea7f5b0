package kubelet_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bongsu-io/bongsu/internal/testing/kubelet"
)

func TestAPodThatWasReplacedAlreadyIsDeleted(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "nb-0", UID: uid}}
	}
	deletions := 0
	k := kubelet.Kubelet{Client: fake.NewClientBuilder().WithObjects(pod("next")).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			deletions++ // the API server refuses the UID of the former pod
			return apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), nil)
		},
	}).Build()}
	k.Deleted(t, pod("former"))
	if deletions != 1 {
		t.Errorf("%d deletions", deletions)
	}
}
