package bench

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

const appImage = "example.org/app:1"

// BenchmarkAppServices measures how long it takes from the first request that creates
// one of 1,000 AppServices of one pod until all are Available, beside a program that
// does nothing but create the same Deployments, 16 requests at a time, until these are.
func BenchmarkAppServices(b *testing.B) {
	u := bringUp{
		name: "app", watched: []client.Object{&appsv1.Deployment{}, &v1alpha1.AppService{}},
		object: func(namespace, name string) client.Object { return newApp(namespace, name) },
		made:   madeOfApp, requestsLimit: 10,
	}
	u.run(b)
}

func newApp(namespace, name string) *v1alpha1.AppService {
	return &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.AppServiceSpec{Size: 1, Image: appImage},
	}
}

func madeOfApp(namespace, name string) ([]client.Object, error) {
	a := newApp(namespace, name)
	a.UID = "of-nobody"
	pod, refused := workload.AppPod(a, appImage)
	delete(pod.Labels, workload.LabelManagedBy)
	return []client.Object{workload.AppDeployment(a, pod)}, refused.ToAggregate()
}
