package operator

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaceReader has the namespaces with these labels. Reads of others return err, or a 404.
type namespaceReader struct {
	client.Reader
	labels  map[string]map[string]string
	created time.Time
	err     error
	reads   int
}

func (r *namespaceReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.reads++
	labels, ok := r.labels[key.Name]
	switch {
	case ok:
		object.SetLabels(labels)
		object.SetCreationTimestamp(metav1.NewTime(r.created))
		return nil
	case r.err != nil:
		return r.err
	default:
		return apierrors.NewNotFound(corev1.Resource("namespaces"), key.Name)
	}
}

func TestANamespaceThatTheCacheLacksIsReadFromTheAPIServer(t *testing.T) {
	const receiver = "AlarmReceiver/shop/hook"
	cache, live := &namespaceReader{}, &namespaceReader{err: apierrors.NewTooManyRequestsError("slow down")}
	n := &receivers{namespaces: newNamespaces(cache, live)}
	if _, _, unread := n.Labels("shop"); unread == "" || n.orphaned(receiver) {
		t.Error("a namespace that cannot be read counts as existing or as deleted")
	}
	if _, _, unread := n.Labels("bank"); unread == "" {
		t.Error("another namespace is not unread")
	}
	if live.reads != 1 {
		t.Errorf("%d reads from the API server in one moment, want 1", live.reads)
	}

	n.recent.Purge() // as time does
	n.failing.Purge()
	live.labels = map[string]map[string]string{"shop": {"team": "shop"}}
	if labels, exists, _ := n.Labels("shop"); !exists || labels["team"] != "shop" || n.orphaned(receiver) {
		t.Errorf("a new namespace: exists %v, labels %v", exists, labels)
	}

	cache.labels = map[string]map[string]string{"shop": {"team": "other"}}
	if labels, _, _ := n.Labels("shop"); labels["team"] != "other" {
		t.Errorf("labels %v, want those of the cache", labels)
	}

	n.recent.Purge() // as time does
	cache.labels, live.labels, live.err = nil, nil, nil
	if _, exists, unread := n.Labels("shop"); exists || unread != "" || !n.orphaned(receiver) {
		t.Error("a deleted namespace counts as existing")
	}
	if n.orphaned("ClusterAlarmReceiver//ops") || n.orphaned("nonsense") {
		t.Error("a receiver without a namespace is orphaned")
	}
}

// Messages that waited before a namespace was deleted are not for receivers of the next one.
func TestTheCacheDoesNotSayWhenANamespaceWasCreated(t *testing.T) {
	const receiver = "AlarmReceiver/shop/hook"
	shop, created := map[string]map[string]string{"shop": nil}, time.Unix(1_800_000_000, 0)
	cache, live := &namespaceReader{labels: shop, created: created}, &namespaceReader{labels: shop, created: created.Add(time.Hour)}
	n := newNamespaces(cache, live)
	if since, err := n.since(receiver); err != nil || !since.Equal(live.created) {
		t.Errorf("since %v (%v), want %v", since, err, live.created)
	}
	live.labels, live.err = nil, apierrors.NewTooManyRequestsError("slow down")
	for range 2 {
		if since, err := n.since(receiver); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("it cannot be read: since %v (%v)", since, err)
		}
	}
	if live.reads != 2 {
		t.Errorf("%d reads, want no further one right after a failure", live.reads)
	}
	if since, err := n.since("ClusterAlarmReceiver//ops"); err != nil || !since.IsZero() {
		t.Errorf("without a namespace: since %v (%v)", since, err)
	}
}
