package secretshare

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/controller/secretshare/share"
)

// Limits of the memory for the contents of sources. A Secret has at most 1 MiB of data.
const (
	// maxContents limits the contents that are kept, in bytes.
	maxContents = 16 << 20
	// maxNamespaceContents limits those of the Secrets of one namespace, in bytes.
	maxNamespaceContents = 8 << 20
	// maxReads limits how many Secrets are being read at the same time.
	maxReads = 20
	// pageSize is the number of Secrets in one page of a list.
	pageSize = 10
	// entrySize is the memory of a Secret without its contents, in bytes.
	entrySize = 1 << 10
)

// contents reads sources. It keeps those that were read last, because many copies are
// written from one source. It is safe for concurrent use.
type contents struct {
	live    client.Reader
	reads   *semaphore.Weighted
	flights singleflight.Group

	mu     sync.Mutex
	recent *simplelru.LRU[sourceVersion, *corev1.Secret]
	bytes  int
	// bytesOf are the bytes of each namespace.
	bytesOf map[string]int
}

// sourceVersion is one version of a source.
type sourceVersion struct {
	types.NamespacedName
	version string
}

// errSourceChanged means that a source no longer has the version of the plan.
var errSourceChanged = errors.New("the source has changed since the plan was made")

// unreadError means that a source could not be read. The text does not contain the error
// of the request, because the owners of other namespaces can see it.
type unreadError struct{ cause error }

func (*unreadError) Error() string {
	return "the source could not be read, so the copy stays as it is until a retry succeeds"
}

func (e *unreadError) Unwrap() error { return e.cause }

func newContents(live client.Reader) *contents {
	c := &contents{live: live, reads: semaphore.NewWeighted(maxReads), bytesOf: map[string]int{}}
	c.recent, _ = simplelru.NewLRU(maxContents/entrySize, c.forget) // fails only for a size of 0
	return c
}

// get returns a version of a source. It reads the source only if it was not read before,
// and once for all callers that ask at the same time. The result must not be changed. The
// error is errSourceChanged, or an *unreadError.
func (c *contents) get(ctx context.Context, want sourceVersion) (*corev1.Secret, error) {
	if found, ok := c.lookup(want); ok {
		return found, nil
	}
	found, err, _ := c.flights.Do(fmt.Sprint(want), func() (any, error) {
		found, err := c.read(ctx, want.NamespacedName)
		switch {
		case apierrors.IsNotFound(err):
			return nil, errSourceChanged
		case err != nil:
			return nil, &unreadError{err}
		case share.VersionOf(found.UID, found.ResourceVersion) != want.version:
			return nil, errSourceChanged
		}
		c.keep(found)
		return found, nil
	})
	if err != nil {
		return nil, err
	}
	return found.(*corev1.Secret), nil
}

// read reads a Secret from the API server.
func (c *contents) read(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	if err := c.reads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.reads.Release(1)
	var secret corev1.Secret
	if err := c.live.Get(ctx, name, &secret); err != nil {
		return nil, err
	}
	return &secret, nil
}

// list reads Secrets page by page. It calls each with every Secret until that returns an
// error. each must not keep a Secret, because all Secrets of a page are one block of memory.
func (c *contents) list(ctx context.Context, each func(*corev1.Secret) error, opts ...client.ListOption) error {
	for next := ""; ; {
		var err error
		if next, err = c.listPage(ctx, each, append(opts, client.Limit(pageSize), client.Continue(next))); err != nil || next == "" {
			return err
		}
	}
}

// listPage reads one page and returns the token of the next one.
func (c *contents) listPage(ctx context.Context, each func(*corev1.Secret) error, opts []client.ListOption) (next string, err error) {
	if err := c.reads.Acquire(ctx, pageSize); err != nil {
		return "", err
	}
	defer c.reads.Release(pageSize)
	var list corev1.SecretList
	if err := c.live.List(ctx, &list, opts...); err != nil {
		return "", err
	}
	for i := range list.Items {
		if err := each(&list.Items[i]); err != nil {
			return "", err
		}
	}
	return list.Continue, nil
}

func (c *contents) lookup(want sourceVersion) (*corev1.Secret, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Get(want)
}

// keep keeps the content of a source, instead of those that were used least recently.
func (c *contents) keep(secret *corev1.Secret) {
	metadata := secret.ObjectMeta
	metadata.ManagedFields = nil
	kept := &corev1.Secret{
		ObjectMeta: *metadata.DeepCopy(), Type: secret.Type, Data: secret.Data, Immutable: secret.Immutable,
	}
	key, size := keyOf(kept), sizeOf(kept)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent.Contains(key) || size > maxNamespaceContents {
		return
	}
	if c.bytesOf[key.Namespace]+size > maxNamespaceContents {
		c.makeSpace(key.Namespace, size)
	}
	for c.bytes+size > maxContents {
		c.recent.RemoveOldest()
	}
	c.recent.Add(key, kept)
	c.bytes += size
	c.bytesOf[key.Namespace] += size
}

// makeSpace removes Secrets of a namespace until another one of this size fits. The
// caller holds c.mu.
func (c *contents) makeSpace(namespace string, size int) {
	for _, key := range c.recent.Keys() { // the least recently used is the first
		if key.Namespace == namespace {
			c.recent.Remove(key)
		}
		if c.bytesOf[namespace]+size <= maxNamespaceContents {
			return
		}
	}
}

// forget is called for each Secret that is removed. The caller holds c.mu.
func (c *contents) forget(key sourceVersion, secret *corev1.Secret) {
	size := sizeOf(secret)
	c.bytes -= size
	if c.bytesOf[key.Namespace] -= size; c.bytesOf[key.Namespace] == 0 {
		delete(c.bytesOf, key.Namespace)
	}
}

// size returns the bytes of all contents that are kept.
func (c *contents) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func keyOf(secret *corev1.Secret) sourceVersion {
	return sourceVersion{client.ObjectKeyFromObject(secret), share.VersionOf(secret.UID, secret.ResourceVersion)}
}

// sizeOf returns about the memory of a Secret, in bytes.
func sizeOf(secret *corev1.Secret) int {
	size := entrySize
	for key, value := range secret.Data {
		size += len(key) + len(value)
	}
	for _, m := range []map[string]string{secret.Labels, secret.Annotations} {
		for key, value := range m {
			size += len(key) + len(value)
		}
	}
	return size
}
