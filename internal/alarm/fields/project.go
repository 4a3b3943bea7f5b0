package fields

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	kjson "sigs.k8s.io/json"
)

// lastApplied is kubectl's annotation with a copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// alwaysKept are the paths that every projection contains: what identifies and selects an
// object.
var alwaysKept = []Path{
	Join("apiVersion"), Join("kind"), Join("metadata", "name"), Join("metadata", "namespace"), Join("metadata", "uid"),
	Join("metadata", "labels"), Join("metadata", "creationTimestamp"),
}

// tree is a shape as a tree: the fields that are kept below a value.
type tree struct {
	all      bool
	rest     bool
	names    map[string]*tree
	elements *tree
	// base has further names. This tree shares them with others.
	base *tree
}

func treeOf(paths []Path) *tree { return (*tree)(nil).with(paths) }

// with returns a tree with further paths. It shares memory with t, which stays as it is and can
// be nil.
func (t *tree) with(paths []Path) *tree {
	root := t.extend()
	for _, p := range paths {
		at := root
		for _, s := range p.steps {
			at = at.child(s)
		}
		if p.rest {
			at.rest = true
		} else {
			at.all = true
		}
	}
	return root
}

// extend returns a tree with the same fields, which can be changed.
func (t *tree) extend() *tree {
	if t == nil {
		return &tree{}
	}
	return &tree{all: t.all, rest: t.rest, elements: t.elements, base: t}
}

// child returns the subtree of a step, which can be changed.
func (t *tree) child(s step) *tree {
	if s.all {
		if t.elements == nil || t.base != nil && t.elements == t.base.elements {
			t.elements = t.elements.extend()
		}
		return t.elements
	}
	if t.names == nil {
		t.names = map[string]*tree{}
	}
	if t.names[s.name] == nil {
		t.names[s.name] = t.name(s.name).extend()
	}
	return t.names[s.name]
}

// name returns the subtree of a name, or nil.
func (t *tree) name(name string) *tree {
	for ; t != nil; t = t.base {
		if child := t.names[name]; child != nil {
			return child
		}
	}
	return nil
}

// covers reports whether another path of the tree includes every field at p.
func (t *tree) covers(p Path) bool {
	if p.rest {
		return t.all
	}
	for i, s := range p.steps {
		if t.all || i == 0 && t.rest && !slices.Contains(notInRest, s.name) {
			return !p.isNoise()
		}
		if t = t.next(s); t == nil {
			return false
		}
	}
	return false
}

// includes reports whether the tree contains every field at p.
func (t *tree) includes(p Path) bool {
	if p.rest && t.rest || t.covers(p) {
		return true
	}
	for _, s := range p.steps {
		if t = t.next(s); t == nil {
			return false
		}
	}
	return t.all && !p.rest
}

// next returns the subtree of a step, or nil.
func (t *tree) next(s step) *tree {
	if s.all {
		return t.elements
	}
	return t.name(s.name)
}

// Filter keeps the fields of a shape. It is immutable.
type Filter struct {
	// base is nil, or a filter whose fields belong to this one too. Many filters share it.
	base *Filter
	// shape contains the other fields, text is its text.
	shape Shape
	text  string
	// named has all fields, kept also those that identify and select an object.
	named, kept  *tree
	onlyMetadata bool
	// noise are the names of noise that are kept.
	noise []string
}

// NewFilter returns a filter for the fields of a shape.
func NewFilter(s Shape) *Filter {
	return &Filter{
		shape: s, text: s.String(), onlyMetadata: s.OnlyMetadata(), noise: s.noise(),
		named: treeOf(s.paths), kept: treeOf(slices.Concat(alwaysKept, s.paths)),
	}
}

// Missing returns the fields of other shapes that f does not keep.
func (f *Filter) Missing(others ...Shape) Shape {
	s := Union(others...)
	return Shape{slices.DeleteFunc(s.paths, f.Includes)}
}

// With returns a filter that keeps the fields of f and of another shape. The filters share
// memory: With needs memory for the other fields only.
func (f *Filter) With(s Shape) *Filter {
	return &Filter{
		base: f, shape: s, text: s.String(), onlyMetadata: f.onlyMetadata && s.OnlyMetadata(), noise: slices.Concat(f.noise, s.noise()),
		named: f.named.with(s.paths), kept: f.kept.with(s.paths),
	}
}

// String returns the texts of the paths, one in a line, which ParseShape accepts. Those that
// With added follow the others.
func (f *Filter) String() string {
	if f.base == nil || f.base.String() == "" {
		return f.text
	}
	return f.base.String() + "\n" + f.text
}

// Added returns the text of the fields that With added, or of all fields without With.
func (f *Filter) Added() string { return f.text }

// OnlyMetadata reports whether all fields are below metadata.
func (f *Filter) OnlyMetadata() bool { return f.onlyMetadata }

// Includes reports whether the shape contains every field at p.
func (f *Filter) Includes(p Path) bool { return f.named.includes(p) }

// Covers reports whether the shape contains all fields of another one.
func (f *Filter) Covers(s Shape) bool {
	return !slices.ContainsFunc(s.paths, func(p Path) bool { return !f.Includes(p) })
}

// CoversAdded reports whether the shape contains the fields that With added to another filter,
// or all of them without With.
func (f *Filter) CoversAdded(other *Filter) bool { return f.Covers(other.shape) }

// Project returns an object with only the fields of the shape, and those that identify and
// select the object. List entries keep the fields that identify them. It never contains
// managedFields and kubectl's copy of the object, and contains resourceVersion and generation
// only if the shape names them. It shares values with the object, so neither must be changed.
func (f *Filter) Project(object map[string]any) map[string]any {
	kept, _ := f.kept.project(withoutNoise(object, f.noise)).(map[string]any)
	return kept
}

// Digest returns a hash of the shape and of a projection.
func (f *Filter) Digest(projection map[string]any) ([16]byte, error) {
	text, err := json.Marshal(projection)
	hash := sha256.New()
	hash.Write([]byte(f.String() + "\x00"))
	hash.Write(text)
	return [16]byte(hash.Sum(nil)[:16]), err
}

// withoutNoise returns the object without the metadata that changes with each write, except for
// some names of noise.
func withoutNoise(object map[string]any, except []string) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	for _, name := range noise {
		if !slices.Contains(except, name) {
			delete(metadata, name)
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, lastApplied)
		metadata["annotations"] = annotations
	}
	object = maps.Clone(object)
	object["metadata"] = metadata
	return object
}

// project returns what is kept of a value, nil if that is nothing.
func (t *tree) project(value any) any {
	if t.all {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		return t.projectMap(v)
	case []any:
		if t.elements == nil {
			return nil
		}
		kept := make([]any, 0, len(v))
		for _, element := range v {
			kept = append(kept, t.elements.projectElement(element))
		}
		return kept
	}
	return nil
}

func (t *tree) projectMap(v map[string]any) any {
	kept := map[string]any{}
	for name, value := range v {
		if child := t.of(name); child != nil {
			if value = child.project(value); value != nil {
				kept[name] = value
			}
		}
	}
	return kept
}

// of returns what is kept of the field with a name; nil if nothing.
func (t *tree) of(name string) *tree {
	child := t.name(name)
	switch {
	case t.rest && !slices.Contains(notInRest, name):
		return &tree{all: true}
	case child == nil:
		return t.elements
	}
	return child
}

func (t *tree) projectElement(element any) any {
	kept := t.project(element)
	from, isMap := element.(map[string]any)
	to, keeps := kept.(map[string]any)
	if isMap && keeps && !t.all {
		for _, keys := range identities {
			for _, key := range keys {
				if value, ok := from[key]; ok && isScalar(value) {
					to[key] = value
				}
			}
		}
	}
	return kept
}

// Digest returns a hash of a projection. Equal projections have equal digests.
func Digest(projection map[string]any) ([16]byte, error) {
	text, err := json.Marshal(projection)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16]), err
}

// minCompressed is the size from which compression pays.
const minCompressed = 256

// MaxSize limits the size of a projection that Decode returns, as JSON. The API server accepts
// requests up to 3 MiB.
const MaxSize = 4 << 20

// ErrTooLarge reports that an object is larger than MaxSize.
var ErrTooLarge = fmt.Errorf("an object has more than %d bytes", MaxSize)

// Encode returns a projection as bytes: JSON, compressed if it is long. It fails with
// ErrTooLarge if Decode would.
func Encode(projection map[string]any) ([]byte, error) {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false) // each character would need six bytes
	err := encoder.Encode(projection)
	text := bytes.TrimSuffix(plain.Bytes(), []byte("\n"))
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxSize:
		return nil, ErrTooLarge
	case len(text) < minCompressed:
		return text, nil
	}
	var b bytes.Buffer
	b.WriteByte(0)
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&b)
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// compressors are writers to use again: each needs more memory than most objects.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// Decode is the inverse of Encode.
func Decode(data []byte) (map[string]any, error) {
	object, _, err := DecodeSized(data)
	return object, err
}

// DecodeSized is Decode, and returns the size of the object as JSON, in bytes. The time grows with
// it. It is the size of data if it cannot be decompressed.
func DecodeSized(data []byte) (object map[string]any, size int, err error) {
	if len(data) > 0 && data[0] == 0 {
		text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[1:])), MaxSize+1))
		if err != nil {
			return nil, len(data), fmt.Errorf("decompress an object: %w", err)
		}
		data = text
	}
	if len(data) > MaxSize {
		return nil, len(data), ErrTooLarge
	}
	err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	return object, len(data), err
}
