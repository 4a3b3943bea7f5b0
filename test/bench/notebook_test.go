package bench

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
)

const notebookImage = "example.org/notebook:1"

// BenchmarkNotebooks measures how long it takes from the first request that creates
// one of 1,000 Jupyters until all are Ready, beside a program that does nothing but
// create the same objects, token, Service and StatefulSet, 16 requests at a time,
// until their pods are ready.
func BenchmarkNotebooks(b *testing.B) {
	u := bringUp{
		name: "notebook", watched: []client.Object{&corev1.Pod{}, &v1alpha1.Jupyter{}},
		object: newNotebook, made: madeOfNotebook, requestsLimit: 10,
	}
	u.run(b)
}

func newNotebook(namespace, name string) client.Object {
	return &v1alpha1.Jupyter{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.JupyterSpec{Image: notebookImage},
	}
}

func madeOfNotebook(namespace, name string) ([]client.Object, error) {
	j := &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "of-nobody"}}
	pod, refused := workload.NotebookPod(j, notebookImage)
	delete(pod.Labels, workload.LabelManagedBy)
	return []client.Object{
		workload.NotebookToken(j, "floor"), workload.NotebookService(j), workload.NotebookStatefulSet(j, pod),
	}, refused.ToAggregate()
}
