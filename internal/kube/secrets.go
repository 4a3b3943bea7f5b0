package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

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

// SecretMeta is the metadata of a Secret. Annotations are only those of Bongsu.
type SecretMeta struct {
	types.NamespacedName
	UID types.UID
	// Version is the resourceVersion.
	Version             string
	Labels, Annotations map[string]string
	// Held are the finalizers of a Secret that is being deleted.
	Held []string
}

// SecretHandler handles the changes of all Secrets of the cluster.
type SecretHandler interface {
	// OnUpdate is called for each Secret that was created, updated or listed.
	OnUpdate(ctx context.Context, s SecretMeta)
	// OnDelete is called for each Secret that was deleted.
	OnDelete(ctx context.Context, name types.NamespacedName)
	// OnList is called after each list, when OnUpdate was called for all Secrets in it. A
	// Secret that does not exist was deleted, possibly without a call of OnDelete.
	OnList(ctx context.Context, exists func(types.NamespacedName) bool)
}

// SecretStream watches the metadata of all Secrets, because a role cannot be limited to
// names that are not known in advance. It stores none of them. Its memory does not grow
// with the number of Secrets.
type SecretStream struct {
	client   metadata.Interface
	handlers []SecretHandler
}

// NewSecretStream returns a SecretStream that calls the handlers one after the other.
func NewSecretStream(c metadata.Interface, handlers ...SecretHandler) *SecretStream {
	return &SecretStream{client: c, handlers: handlers}
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

// reflectorStore passes the changes from the reflector to the handlers.
type reflectorStore struct {
	ctx      context.Context // that of Start: the methods of the interface have none
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
	for _, h := range s.handlers {
		h.OnDelete(s.ctx, nameOf(m))
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s reflectorStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore. The reflector calls it with each list.
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
	for _, h := range s.handlers {
		h.OnList(s.ctx, func(name types.NamespacedName) bool { _, ok := exist[name]; return ok })
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
		Labels: m.GetLabels(), Annotations: m.GetAnnotations(), Held: held(m),
	}
	for _, h := range s.handlers {
		h.OnUpdate(s.ctx, secret)
	}
	return nil
}

// Transformer implements cache.TransformingStore. It drops all annotations of others at
// once, because last-applied-configuration can contain the values of a Secret.
func (s reflectorStore) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		m, err := meta.Accessor(o)
		if err != nil {
			return o, nil // a tombstone or a bookmark
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
			Labels: m.GetLabels(), Annotations: ownAnnotations(m.GetAnnotations()),
			DeletionTimestamp: m.GetDeletionTimestamp(), Finalizers: held(m),
		}}, nil
	}
}

func held(m metav1.Object) []string {
	if m.GetDeletionTimestamp() == nil {
		return nil
	}
	return m.GetFinalizers()
}

// ownAnnotations returns the annotations of Bongsu.
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

// SecretWatch is a SecretHandler that reports changes of the Secrets that other objects
// reference. It stores only the resourceVersions of these Secrets.
type SecretWatch struct {
	changed func(user Key)

	mu      sync.Mutex
	watched map[types.NamespacedName]*watchedSecret
	// users are the Secrets that each user references.
	users map[Key][]types.NamespacedName
}

// watchedSecret is a Secret and the users that reference it.
type watchedSecret struct {
	version string
	users   map[Key]struct{}
}

// NewSecretWatch returns a SecretWatch that calls changed for each user of a Secret that is created,
// updated or deleted.
func NewSecretWatch(changed func(user Key)) *SecretWatch {
	return &SecretWatch{
		changed: changed,
		watched: map[types.NamespacedName]*watchedSecret{}, users: map[Key][]types.NamespacedName{},
	}
}

// unobserved is different from all resourceVersions, and from the empty one of a deleted
// Secret. The first observation is therefore always a change.
const unobserved = "unseen"

// Watch sets the Secrets that a user references. It replaces those of the last call. The
// Secrets need not exist.
func (w *SecretWatch) Watch(user Key, secrets ...types.NamespacedName) {
	slices.SortFunc(secrets, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	secrets = slices.Compact(secrets) // a user can name one twice
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range secrets {
		if w.watched[name] == nil {
			w.watched[name] = &watchedSecret{version: unobserved, users: map[Key]struct{}{}}
		}
		w.watched[name].users[user] = struct{}{}
	}
	for _, name := range w.users[user] {
		if slices.Contains(secrets, name) {
			continue
		}
		if delete(w.watched[name].users, user); len(w.watched[name].users) == 0 {
			delete(w.watched, name)
		}
	}
	if len(secrets) == 0 {
		delete(w.users, user)
		return
	}
	w.users[user] = secrets
}

// Known reports whether no other version of a Secret was observed than the one that a user has just
// read or written. For an only user, the first observation of this version is then no change. Call it
// after Watch.
func (w *SecretWatch) Known(name types.NamespacedName, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	secret := w.watched[name]
	if secret == nil || secret.version != unobserved {
		return secret != nil && secret.version == version
	}
	if len(secret.users) == 1 {
		secret.version = version
	}
	return true
}

// OnUpdate implements SecretHandler. The first observation of a Secret is reported too,
// because the Secret may have changed since a user read it.
func (w *SecretWatch) OnUpdate(_ context.Context, s SecretMeta) {
	w.observe(s.NamespacedName, s.Version)
}

// OnDelete implements SecretHandler.
func (w *SecretWatch) OnDelete(_ context.Context, name types.NamespacedName) {
	w.observe(name, "")
}

// OnList implements SecretHandler.
func (w *SecretWatch) OnList(ctx context.Context, exists func(types.NamespacedName) bool) {
	for _, name := range w.names() {
		if !exists(name) {
			w.OnDelete(ctx, name)
		}
	}
}

// observe records the version of a Secret and reports a change.
func (w *SecretWatch) observe(name types.NamespacedName, version string) {
	for _, user := range w.setVersion(name, version) {
		w.changed(user)
	}
}

// setVersion returns the users of a Secret if its version has changed.
func (w *SecretWatch) setVersion(name types.NamespacedName, version string) []Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	secret, watched := w.watched[name]
	if !watched || secret.version == version {
		return nil
	}
	secret.version = version
	return slices.Collect(maps.Keys(secret.users))
}

func (w *SecretWatch) names() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]types.NamespacedName, 0, len(w.watched))
	for name := range w.watched {
		names = append(names, name)
	}
	return names
}
