package bench

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// writers is how many requests are under way at once: the API server is then the
// one that is waited for.
const writers = 16

// newClientset returns a client that speaks protobuf, as the control plane's own
// components do.
func newClientset(b *testing.B, c *cluster.Cluster) kubernetes.Interface {
	b.Helper()
	config := rest.CopyConfig(c.RESTConfig())
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	must(b, err)
	return clientset
}

// podEvent is what a kubelet says of a container that fails.
func podEvent(namespace, name, reason string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: name},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "kubelet",
		ReportingInstance:   "node-0",
		Action:              "Waiting",
		Type:                corev1.EventTypeWarning,
		Reason:              reason,
		Note: fmt.Sprintf("Back-off restarting failed container app in pod %s_%s(0b1e7f0a-6c2b-4a53-8a3f-5f7b7a1e9d10)",
			name, namespace),
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name,
			FieldPath: "spec.containers{app}",
		},
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
