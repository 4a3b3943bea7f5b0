package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// SecretMeta is what is told of a Secret: its values never, and of its annotations
// our own alone.
type SecretMeta struct {
	types.NamespacedName
	UID types.UID
	// Version is its resourceVersion.
	Version             string
	Labels, Annotations map[string]string
}

// SecretListener hears of every Secret of the cluster. It keeps what it needs.
type SecretHandler interface {
	// Seen: the Secret is there in this version.
	OnUpdate(ctx context.Context, s SecretMeta)
	// Gone: there is none of that name.
	OnDelete(ctx context.Context, name types.NamespacedName)
	// Listed: all that there are have been told; exists knows them.
	OnList(ctx context.Context, exists func(types.NamespacedName) bool)
}

// SecretStream watches the metadata of all Secrets, since a role cannot be bounded
// to names that are not known beforehand. It keeps none of them: memory does not
// grow with the Secrets of the cluster.
type SecretStream struct {
	client   metadata.Interface
	handlers []SecretHandler
}

// NewSecretStream returns a SecretStream that tells the listeners, one after the
// other.
func NewSecretStream(c metadata.Interface, listeners ...SecretHandler) *SecretStream {
	return &SecretStream{client: c, handlers: listeners}
}

// Start watches until ctx ends. It is a manager.Runnable.
func (s *SecretStream) Start(ctx context.Context) error {
	secrets := s.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return secrets.Watch(ctx, o)
		},
	}
	reflector := cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, reflectorStore{ctx, s.handlers},
		cache.ReflectorOptions{Name: "secrets"})
	reflector.RunWithContext(ctx)
	return nil
}

// secretStore is where the reflector puts what it sees.
type reflectorStore struct {
	ctx      context.Context // of Start: the interface has no room for it
	handlers []SecretHandler
}

// Add implements cache.ReflectorStore.
func (s reflectorStore) Add(o any) error { return s.onUpdate(o) }

// Update implements cache.ReflectorStore.
func (s reflectorStore) Update(o any) error { return s.onUpdate(o) }

// Delete implements cache.ReflectorStore.
func (s reflectorStore) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	for _, l := range s.handlers {
		l.OnDelete(s.ctx, nameOf(m))
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s reflectorStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore: what is not in a list is gone.
func (s reflectorStore) Replace(objects []any, _ string) error {
	exist := make(map[types.NamespacedName]struct{}, len(objects))
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		exist[nameOf(m)] = struct{}{}
		if err := s.onUpdate(o); err != nil {
			return err
		}
	}
	for _, l := range s.handlers {
		l.OnList(s.ctx, func(name types.NamespacedName) bool { _, ok := exist[name]; return ok })
	}
	return nil
}

func (s reflectorStore) onUpdate(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	secret := SecretMeta{
		NamespacedName: nameOf(m), UID: m.GetUID(), Version: m.GetResourceVersion(),
		Labels: m.GetLabels(), Annotations: m.GetAnnotations(),
	}
	for _, l := range s.handlers {
		l.OnUpdate(s.ctx, secret)
	}
	return nil
}

// Transformer implements cache.TransformingStore: annotations, where a Secret's
// values may stand once more (last-applied-configuration), are dropped at once, but
// for our own.
func (s reflectorStore) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		m, err := meta.Accessor(o)
		if err != nil {
			return o, nil // a tombstone or a bookmark
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
			Labels: m.GetLabels(), Annotations: ownAnnotations(m.GetAnnotations()),
		}}, nil
	}
}

// own returns the annotations of our domain.
func ownAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range annotations {
		if !strings.HasPrefix(key, v1alpha1.Group+"/") {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}

func nameOf(m metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
}
