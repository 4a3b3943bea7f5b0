package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// SecretHandler handles the changes of all Secrets of the cluster, or of the namespaces of a
// SecretStream.
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
// with the number of Secrets, apart from the time until all namespaces were listed.
type SecretStream struct {
	client     metadata.Interface
	namespaces []string
	handlers   []SecretHandler
}

// NewSecretStream returns a SecretStream that calls the handlers one after the other. It watches
// the Secrets of these namespaces, or of all if there are none.
func NewSecretStream(c metadata.Interface, namespaces []string, handlers ...SecretHandler) *SecretStream {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &SecretStream{client: c, namespaces: namespaces, handlers: handlers}
}

// Start watches until ctx ends. It is a manager.Runnable.
func (s *SecretStream) Start(ctx context.Context) error {
	first := newFirstLists(s.namespaces)
	var running sync.WaitGroup
	for _, namespace := range s.namespaces {
		store := reflectorStore{ctx, namespace, first, s.handlers}
		secrets := s.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
		lw := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := secrets.List(ctx, o)
				if apierrors.IsForbidden(err) {
					store.unreadable()
				}
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return secrets.Watch(ctx, o)
			},
		}
		reflector := cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, store, cache.ReflectorOptions{Name: "secrets"})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// firstLists joins the first lists of several namespaces, so that handlers get all of them as one. It
// is safe for concurrent use.
type firstLists struct {
	mu sync.Mutex
	// missing are the namespaces that were not listed yet.
	missing map[string]bool
	// exist are the Secrets of the others. It is nil once no namespace is missing.
	exist map[types.NamespacedName]struct{}
	// unread are the namespaces that the operator may not read. Nothing is known about them.
	unread map[string]bool
}

func newFirstLists(namespaces []string) *firstLists {
	f := &firstLists{missing: map[string]bool{}, exist: map[types.NamespacedName]struct{}{}, unread: map[string]bool{}}
	for _, namespace := range namespaces {
		f.missing[namespace] = true
	}
	return f
}

// listed records a list, and returns which Secrets exist, for the handlers. It returns nil until all
// namespaces were listed.
func (f *firstLists) listed(namespace string, exist map[types.NamespacedName]struct{}) func(types.NamespacedName) bool {
	delete(f.unread, namespace)
	if len(f.missing) == 0 {
		return func(name types.NamespacedName) bool {
			_, ok := exist[name]
			return ok || namespace != metav1.NamespaceAll && name.Namespace != namespace
		}
	}
	for name := range exist {
		f.exist[name] = struct{}{}
	}
	delete(f.missing, namespace)
	return f.all()
}

// all returns which Secrets exist, if no namespace is missing.
func (f *firstLists) all() func(types.NamespacedName) bool {
	if len(f.missing) > 0 {
		return nil
	}
	exist, unread := f.exist, maps.Clone(f.unread)
	f.exist = nil
	return func(name types.NamespacedName) bool {
		_, ok := exist[name]
		return ok || unread[name.Namespace]
	}
}

// set records a change of a Secret while a namespace is missing.
func (f *firstLists) set(name types.NamespacedName, exists bool) {
	switch {
	case f.exist == nil:
	case exists:
		f.exist[name] = struct{}{}
	default:
		delete(f.exist, name)
	}
}

// reflectorStore passes the changes of a namespace from the reflector to the handlers.
type reflectorStore struct {
	ctx       context.Context // that of Start: the methods of the interface have none
	namespace string
	first     *firstLists
	handlers  []SecretHandler
}

// unreadable reports that the operator may not read the namespace. The others do not wait for it.
// The reflector retries.
func (s reflectorStore) unreadable() {
	s.first.mu.Lock()
	defer s.first.mu.Unlock()
	if s.namespace == metav1.NamespaceAll || !s.first.missing[s.namespace] {
		return
	}
	s.first.unread[s.namespace] = true
	delete(s.first.missing, s.namespace)
	if exists := s.first.all(); exists != nil {
		s.onList(exists)
	}
}

func (s reflectorStore) onList(exists func(types.NamespacedName) bool) {
	for _, h := range s.handlers {
		h.OnList(s.ctx, exists)
	}
}

// Add implements cache.ReflectorStore.
func (s reflectorStore) Add(o any) error { return s.Update(o) }

// Update implements cache.ReflectorStore.
func (s reflectorStore) Update(o any) error {
	s.first.mu.Lock()
	defer s.first.mu.Unlock()
	if m, err := meta.Accessor(o); err == nil {
		s.first.set(nameOf(m), true)
	}
	return s.onUpdate(o)
}

// Delete implements cache.ReflectorStore.
func (s reflectorStore) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	s.first.mu.Lock()
	defer s.first.mu.Unlock()
	s.first.set(nameOf(m), false)
	for _, h := range s.handlers {
		h.OnDelete(s.ctx, nameOf(m))
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s reflectorStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore. The reflector calls it with each list.
func (s reflectorStore) Replace(objects []any, _ string) error {
	s.first.mu.Lock()
	defer s.first.mu.Unlock()
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
	if exists := s.first.listed(s.namespace, exist); exists != nil {
		s.onList(exists)
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
