package kube

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// SecretWatch is a SecretListener that tells when a Secret changes that somebody
// refers to. It keeps nothing but the resourceVersions of those.
type SecretWatch struct {
	changed func(context.Context, types.NamespacedName)

	mu      sync.Mutex
	watched map[types.NamespacedName]*watchedSecret
	// users are who refers to which Secrets.
	users map[string][]types.NamespacedName
}

// watchedSecret is a Secret and who refers to it.
type watchedSecret struct {
	version string
	users   map[string]struct{}
}

// NewSecretWatch returns a SecretWatch that calls changed for each Secret that
// was passed to Watch and is created, changed or deleted.
func NewSecretWatch(changed func(context.Context, types.NamespacedName)) *SecretWatch {
	return &SecretWatch{
		changed: changed,
		watched: map[types.NamespacedName]*watchedSecret{}, users: map[string][]types.NamespacedName{},
	}
}

// unseen is no resourceVersion, nor that of a Secret that is gone: whatever is
// observed first is a change.
const unobserved = "unseen"

// Watch sets to which Secrets a user refers, in place of those of the last call.
// The Secrets need not exist.
func (w *SecretWatch) Watch(user string, secrets ...types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range secrets {
		if w.watched[name] == nil {
			w.watched[name] = &watchedSecret{version: unobserved, users: map[string]struct{}{}}
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

// Users returns who refers to a Secret, in no particular order.
func (w *SecretWatch) Users(name types.NamespacedName) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[name] == nil {
		return nil
	}
	return slices.Collect(maps.Keys(w.watched[name].users))
}

// Seen implements SecretListener. The first sight of a Secret that exists is told
// too: it may have changed since it was read.
func (w *SecretWatch) OnUpdate(ctx context.Context, s SecretMeta) {
	w.observe(ctx, s.NamespacedName, s.Version)
}

// Gone implements SecretListener.
func (w *SecretWatch) OnDelete(ctx context.Context, name types.NamespacedName) {
	w.observe(ctx, name, "")
}

// Listed implements SecretListener.
func (w *SecretWatch) OnList(ctx context.Context, exists func(types.NamespacedName) bool) {
	for _, name := range w.names() {
		if !exists(name) {
			w.OnDelete(ctx, name)
		}
	}
}

// observe notes the version of a Secret and tells of a change.
func (w *SecretWatch) observe(ctx context.Context, name types.NamespacedName, version string) {
	if w.setVersion(name, version) {
		w.changed(ctx, name)
	}
}

// note says whether the version of a Secret that is watched is news.
func (w *SecretWatch) setVersion(name types.NamespacedName, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	secret, watched := w.watched[name]
	if !watched || secret.version == version {
		return false
	}
	secret.version = version
	return true
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
