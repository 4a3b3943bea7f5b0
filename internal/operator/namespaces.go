package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/kube"
)

// namespaces tells the labels of namespaces from the cache of their metadata.
type namespaces struct{ cache client.Reader }

// Labels implements alarm.Namespaces.
func (n namespaces) Labels(name string) (map[string]string, bool) {
	ns, err := n.get(name)
	if err != nil {
		return nil, false
	}
	return ns.Labels, true
}

// orphaned tells of the key of a receiver that its namespace is gone.
func (n namespaces) orphaned(receiver string) bool {
	key, err := kube.ParseKey(receiver)
	if err != nil || key.Namespace == "" {
		return false
	}
	_, err = n.get(key.Namespace)
	return apierrors.IsNotFound(err)
}

func (n namespaces) get(name string) (*metav1.PartialObjectMetadata, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	// The read is from memory: it neither waits nor needs a deadline.
	return ns, n.cache.Get(context.Background(), client.ObjectKey{Name: name}, ns, client.UnsafeDisableDeepCopy)
}
