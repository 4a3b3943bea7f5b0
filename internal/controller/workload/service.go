package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Ports of a notebook.
const (
	// NotebookPort is where the server listens in its pod.
	NotebookPort = 8888
	// ServicePort is where its Service does.
	ServicePort = 80

	portName = "http"
)

// NotebookService is how a notebook is reached within the cluster.
func NotebookService(j *v1alpha1.Jupyter) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: childMeta(j, j.Name),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: Selector(j),
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: intstr.FromInt32(NotebookPort),
			}},
		},
	}
}
