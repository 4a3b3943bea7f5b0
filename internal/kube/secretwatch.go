package kube

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// SecretWatch tells when a Secret that somebody refers to changes. It watches
// the metadata of all Secrets, since a role cannot be bounded to names that are
// not known beforehand, and keeps nothing but the resourceVersions of those that
// are referred to: memory does not grow with the Secrets of the cluster.
type SecretWatch struct {
	client  metadata.Interface
	changed func(context.Context, types.NamespacedName)

	mu      sync.Mutex
	watched map[types.NamespacedName]*watchedSecret
	// users are who refers to which Secrets.
	users map[string][]types.NamespacedName
}

// watchedSecret is a Secret that so many refer to.
type watchedSecret struct {
	version string
	users   int
}

// NewSecretWatch returns a SecretWatch that calls changed for each Secret that
// was passed to Watch and is created, changed or deleted.
func NewSecretWatch(c metadata.Interface, changed func(context.Context, types.NamespacedName)) *SecretWatch {
	return &SecretWatch{
		client: c, changed: changed,
		watched: map[types.NamespacedName]*watchedSecret{}, users: map[string][]types.NamespacedName{},
	}
}

// unseen is no resourceVersion, nor that of a Secret that is gone: whatever is
// observed first is a change.
const unseen = "unseen"

// Watch sets to which Secrets a user refers, in place of those of the last call.
// The Secrets need not exist.
func (w *SecretWatch) Watch(user string, secrets ...types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range secrets {
		if w.watched[name] == nil {
			w.watched[name] = &watchedSecret{version: unseen}
		}
		w.watched[name].users++
	}
	for _, name := range w.users[user] {
		if w.watched[name].users--; w.watched[name].users == 0 {
			delete(w.watched, name)
		}
	}
	if len(secrets) == 0 {
		delete(w.users, user)
		return
	}
	w.users[user] = secrets
}

// Start watches until ctx ends. It is a manager.Runnable.
func (w *SecretWatch) Start(ctx context.Context) error {
	secrets := w.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return secrets.Watch(ctx, o)
		},
	}
	reflector := cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, secretStore{ctx, w},
		cache.ReflectorOptions{Name: "secrets"})
	reflector.RunWithContext(ctx)
	return nil
}

// observe notes the version of a Secret and tells of a change. The first sight
// of a Secret that exists is told too: it may have changed since it was read.
func (w *SecretWatch) observe(ctx context.Context, name types.NamespacedName, version string) {
	if w.note(name, version) {
		w.changed(ctx, name)
	}
}

// note says whether the version of a Secret that is watched is news.
func (w *SecretWatch) note(name types.NamespacedName, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	secret, watched := w.watched[name]
	if !watched || secret.version == version {
		return false
	}
	secret.version = version
	return true
}

// secretStore is where the reflector puts what it sees.
type secretStore struct {
	ctx context.Context // of Start: the interface has no room for it
	w   *SecretWatch
}

// Add implements cache.ReflectorStore.
func (s secretStore) Add(o any) error { return s.observe(o, false) }

// Update implements cache.ReflectorStore.
func (s secretStore) Update(o any) error { return s.observe(o, false) }

// Delete implements cache.ReflectorStore.
func (s secretStore) Delete(o any) error { return s.observe(o, true) }

// Resync implements cache.ReflectorStore.
func (s secretStore) Resync() error { return nil }

// Transformer implements cache.TransformingStore: annotations, where a Secret's
// values may stand once more (last-applied-configuration), are dropped at once.
func (s secretStore) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		m, err := meta.Accessor(o)
		if err != nil {
			return o, nil // a tombstone or a bookmark
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.GetNamespace(), Name: m.GetName(), ResourceVersion: m.GetResourceVersion(),
		}}, nil
	}
}

// Replace implements cache.ReflectorStore: after a list, what is not in it is gone.
func (s secretStore) Replace(objects []any, _ string) error {
	seen := make(map[types.NamespacedName]struct{}, len(objects))
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		name := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
		seen[name] = struct{}{}
		s.w.observe(s.ctx, name, m.GetResourceVersion())
	}
	for _, name := range s.w.names() {
		if _, ok := seen[name]; !ok {
			s.w.observe(s.ctx, name, "")
		}
	}
	return nil
}

func (s secretStore) observe(o any, deleted bool) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	version := m.GetResourceVersion()
	if deleted {
		version = ""
	}
	s.w.observe(s.ctx, types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, version)
	return nil
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
