package explain

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// snapshot is a client.Reader that lists each type once, and then answers from memory. An
// overview therefore needs one list for each type, however many objects it explains.
type snapshot struct {
	live apiClient
	// namespace is the listed namespace, or empty for all.
	namespace string
	lists     map[schema.GroupVersionKind]*listed
	// others are snapshots of other namespaces, in which the root of a problem can be.
	others map[string]*snapshot
}

// listed are the objects of a type, or the error of reading them.
type listed struct {
	objects map[string][]client.Object // by namespace
	byKey   map[client.ObjectKey]client.Object
	// truncated is true if there are more objects than were read.
	truncated bool
	err       error
}

func newSnapshot(live apiClient, namespace string) *snapshot {
	return &snapshot{live: live, namespace: namespace, lists: map[schema.GroupVersionKind]*listed{}, others: map[string]*snapshot{}}
}

// Get implements client.Reader. It asks the API server for objects that are not in the
// list. They may be newer, or the user may get them but not list them.
func (s *snapshot) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	kind, err := s.live.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	l := s.read(ctx, kind)
	if l.err != nil && !apierrors.IsForbidden(l.err) {
		return l.err
	}
	found, ok := l.byKey[key]
	if !ok {
		return s.live.Get(ctx, key, o, opts...)
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(found)
		u.SetGroupVersionKind(kind)
		return err
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

// List implements client.Reader. It applies the namespace and the selectors.
func (s *snapshot) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := s.live.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	options := (&client.ListOptions{}).ApplyOptions(opts)
	l := s.of(options.Namespace, kind).read(ctx, kind)
	if l.err != nil {
		return l.err
	}
	all := l.objects[options.Namespace]
	if options.Namespace == "" {
		all = slices.Concat(slices.Collect(maps.Values(l.objects))...)
		slices.SortFunc(all, func(a, b client.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
	}
	var selected []runtime.Object
	for _, o := range all {
		if matches(o, options) {
			selected = append(selected, o)
		}
	}
	return meta.SetList(list, selected)
}

// of returns the snapshot that contains the objects of a type in a namespace, or in all.
func (s *snapshot) of(namespace string, kind schema.GroupVersionKind) *snapshot {
	mapping, err := s.live.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if s.namespace == "" || s.namespace == namespace || err != nil || mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return s
	}
	other := s.others[namespace]
	if other == nil {
		other = newSnapshot(s.live, namespace)
		s.others[namespace] = other
	}
	return other
}

func matches(o client.Object, options *client.ListOptions) bool {
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if options.FieldSelector == nil {
		return true
	}
	switch o := o.(type) { // the types that an overview selects by fields
	case *corev1.Event:
		return options.FieldSelector.Matches(fields.Set{"involvedObject.kind": o.InvolvedObject.Kind, "involvedObject.name": o.InvolvedObject.Name})
	case *corev1.Pod:
		return options.FieldSelector.Matches(fields.Set{"spec.nodeName": o.Spec.NodeName})
	}
	return false
}

// read returns the objects of a type. It lists them on the first call.
func (s *snapshot) read(ctx context.Context, kind schema.GroupVersionKind) *listed {
	l, ok := s.lists[kind]
	if !ok {
		l = &listed{objects: map[string][]client.Object{}, byKey: map[client.ObjectKey]client.Object{}}
		l.err = s.list(ctx, kind, l)
		s.lists[kind] = l
	}
	return l
}

func (s *snapshot) list(ctx context.Context, kind schema.GroupVersionKind, l *listed) error {
	namespace := s.namespace
	if namespaced, err := s.live.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return err
	} else if namespaced.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	next := ""
	for range maxPages {
		page, err := s.page(ctx, kind, namespace, next)
		if err != nil {
			return err
		}
		if err := meta.EachListItem(page, func(item runtime.Object) error { l.add(item); return nil }); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	l.truncated = true
	return nil
}

func (s *snapshot) page(ctx context.Context, kind schema.GroupVersionKind, namespace, next string) (client.ObjectList, error) {
	page, err := newList(s.live.Scheme(), kind)
	if err != nil {
		return nil, err
	}
	return page, s.live.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
}

// newList returns an empty list of a type: a typed one if the scheme has the type.
func newList(scheme *runtime.Scheme, kind schema.GroupVersionKind) (client.ObjectList, error) {
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	if !scheme.Recognizes(kind) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(listKind)
		return list, nil
	}
	empty, err := scheme.New(listKind)
	if err != nil {
		return nil, err
	}
	empty.GetObjectKind().SetGroupVersionKind(listKind)
	return empty.(client.ObjectList), nil //nolint:forcetypeassert // every list of the scheme is one
}

// add keeps an object, unless it is an Event that the diagnosis does not use.
func (l *listed) add(item runtime.Object) {
	o := item.(client.Object) //nolint:forcetypeassert // every item of the scheme is one
	if e, ok := o.(*corev1.Event); ok && !diagnosis.IsRelevant(e.Type, e.Reason) {
		return
	}
	times := o.GetManagedFields()
	for i := range times {
		times[i].FieldsV1 = nil // most of the object's memory
	}
	o.SetManagedFields(times)
	l.objects[o.GetNamespace()] = append(l.objects[o.GetNamespace()], o)
	l.byKey[client.ObjectKeyFromObject(o)] = o
}

// truncatedKinds returns the kinds with objects that were not read.
func (s *snapshot) truncatedKinds() []string {
	var kinds []string
	for kind, l := range s.lists {
		if l.truncated {
			kinds = append(kinds, kind.Kind)
		}
	}
	for _, other := range s.others {
		kinds = append(kinds, other.truncatedKinds()...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
