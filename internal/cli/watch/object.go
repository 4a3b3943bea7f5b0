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

// Object is what is kept of an object of the cluster. All of its content may be
// shown: what may not is left out by the redactor, which alone makes one.
type Object struct {
	*unstructured.Unstructured
	// hidden tells by which name something was left out, and whether it changes.
	hidden map[string]digest
}

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	return &Object{Unstructured: o.DeepCopy(), hidden: maps.Clone(o.hidden)}
}

// digest stands for a value that is not kept. It is keyed, so that nobody who
// comes by it can guess the value.
type digest [sha256.Size]byte

// redactor makes Objects.
type redactor struct{ key []byte }

// newRedactor returns one whose digests compare with no other's.
func newRedactor() redactor {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // which never fails
	return redactor{key}
}

// transform is a cache.TransformFunc. It is passed some objects twice: an Object
// stays as it is.
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

// redact turns an object, which it changes, into one that may be shown. Of what
// is called a Secret, of whatever API group, it keeps no more than is known to be
// harmless.
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

// dropLastApplied drops the annotation that holds the whole object once more.
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

// hide puts the digests of a map's values under their keys.
func (r redactor) hide(hidden map[string]digest, prefix string, values any) {
	entries, ok := values.(map[string]any)
	if !ok && values != nil {
		entries = map[string]any{"?": values} // which no API server sends
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
