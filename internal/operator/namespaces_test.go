package operator

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaceReader has the namespaces with these labels. Reads of others return err, or a 404.
type namespaceReader struct {
	client.Reader
	labels map[string]map[string]string
	err    error
	reads  int
}

func (r *namespaceReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.reads++
	labels, ok := r.labels[key.Name]
	switch {
	case ok:
		object.SetLabels(labels)
		return nil
	case r.err != nil:
		return r.err
	default:
		return apierrors.NewNotFound(corev1.Resource("namespaces"), key.Name)
	}
}

func TestANamespaceThatTheCacheLacksIsReadFromTheAPIServer(t *testing.T) {
	cache, live := &namespaceReader{}, &namespaceReader{err: apierrors.NewTooManyRequestsError("slow down")}
	n := &knownReceivers{namespaces: newNamespaces(cache, live)}
	if _, _, unread := n.Labels("shop"); unread == "" {
		t.Error("a namespace that cannot be read counts as existing")
	}
	if _, _, unread := n.Labels("bank"); unread == "" {
		t.Error("another namespace is not unread")
	}
	if live.reads != 1 {
		t.Errorf("%d reads from the API server in one moment, want 1", live.reads)
	}

	n.namespaces = newNamespaces(cache, live) // as time does
	live.labels = map[string]map[string]string{"shop": {"team": "shop"}}
	if labels, exists, _ := n.Labels("shop"); !exists || labels["team"] != "shop" {
		t.Errorf("a new namespace: exists %v, labels %v", exists, labels)
	}

	cache.labels = map[string]map[string]string{"shop": {"team": "other"}}
	if labels, _, _ := n.Labels("shop"); labels["team"] != "other" {
		t.Errorf("labels %v, want those of the cache", labels)
	}

	n.namespaces = newNamespaces(cache, live)
	cache.labels, live.labels, live.err = nil, nil, nil
	if _, exists, unread := n.Labels("shop"); exists || unread != "" {
		t.Error("a deleted namespace counts as existing")
	}
}
