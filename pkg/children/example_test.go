package children_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bongsu-io/bongsu/pkg/children"
)

func ExampleChildren_Ensure() {
	ctx := context.Background()
	api := fake.NewClientBuilder().WithReturnManagedFields().Build()
	c := children.New(api, api, children.Names{Domain: "example.com", FieldOwner: "app-controller"})

	// service returns the child of an owner. It needs its kind, because it is applied.
	service := func(owner string) *corev1.Service {
		return &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "App", Name: owner, UID: types.UID("uid-of-" + owner), Controller: new(true)}},
			},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
	}
	for _, owner := range []string{"web", "web", "intruder"} {
		wanted := service(owner)
		var found corev1.Service
		err := c.Ensure(ctx, wanted, &found)
		if conflict, ok := errors.AsType[*children.ConflictError](err); ok {
			fmt.Println("conflict with", conflict.Owner)
			continue
		}
		fmt.Println(found.Name, err)
	}
	// Output:
	// web <nil>
	// web <nil>
	// conflict with App web
}
