package watch

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Object is an object of the cluster whose whole content may be shown. The redactor,
// which is the only one to create Objects, removes the rest.
type Object struct {
	*unstructured.Unstructured
	// hidden holds the digests of the removed values by name, to detect changes.
	hidden map[string]digest
}

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	return &Object{Unstructured: o.DeepCopy(), hidden: maps.Clone(o.hidden)}
}

// digest represents a value that is not kept. It is keyed (HMAC), so that the value
// cannot be guessed from it.
type digest [sha256.Size]byte

// redactor creates Objects.
type redactor struct{ key []byte }

// newRedactor returns a redactor with a new random key. Digests of two redactors are
// not comparable.
func newRedactor() redactor {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return redactor{key}
}

// transform is a cache.TransformFunc. The informer passes some objects twice, so an
// Object stays as it is.
func (r redactor) transform(o any) (any, error) {
	if raw, ok := o.(*unstructured.Unstructured); ok {
		return r.redact(raw), nil
	}
	return o, nil
}

// shownOfSecret are the fields of a Secret that cannot hold its values.
var shownOfSecret = sets.New("apiVersion", "kind", "metadata", "type", "immutable")

const (
	managedFields = "managedFields"
	annotations   = "annotations"
)

// redact changes an object into one that may be shown. If its kind is called Secret, in
// any API group, redact keeps only the fields in shownOfSecret, without annotations.
func (r redactor) redact(raw *unstructured.Unstructured) *Object {
	o := &Object{Unstructured: raw}
	metadata, _ := raw.Object["metadata"].(map[string]any)
	delete(metadata, managedFields)
	dropLastApplied(metadata)
	if raw.GetKind() != "Secret" {
		return o
	}
	o.hidden = map[string]digest{}
	r.hide(o.hidden, "annotation ", metadata[annotations])
	delete(metadata, annotations)
	for field, value := range raw.Object {
		if !shownOfSecret.Has(field) {
			r.hide(o.hidden, field+" key ", value)
			delete(raw.Object, field)
		}
	}
	return o
}

// dropLastApplied removes the annotation that contains a copy of the whole object.
func dropLastApplied(metadata map[string]any) {
	all, ok := metadata[annotations].(map[string]any)
	if !ok {
		delete(metadata, annotations)
		return
	}
	delete(all, corev1.LastAppliedConfigAnnotation)
	if len(all) == 0 {
		delete(metadata, annotations)
	}
}

// hide adds the digests of a map's values to hidden.
func (r redactor) hide(hidden map[string]digest, prefix string, values any) {
	entries, ok := values.(map[string]any)
	if !ok && values != nil {
		entries = map[string]any{"?": values} // no API server sends this
	}
	for key, value := range entries {
		hidden[prefix+key] = r.digest(value)
	}
}

func (r redactor) digest(value any) (d digest) {
	mac := hmac.New(sha256.New, r.key)
	_, _ = fmt.Fprint(mac, value)
	mac.Sum(d[:0])
	return d
}
