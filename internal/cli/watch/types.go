package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// ResourceType is a type of objects that can be watched.
type ResourceType struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// String returns a name like "pods" or "deployments.apps".
func (t ResourceType) String() string { return t.Resource.GroupResource().String() }

// Types finds the resource types of a server.
type Types struct {
	discovery discovery.CachedDiscoveryInterfaceWithContext
	mapper    meta.RESTMapperWithContext
}

// NewTypes returns the types of the client's server. It caches what it reads.
func NewTypes(client discovery.DiscoveryInterfaceWithContext) *Types {
	cached := memory.NewMemCacheClientWithContext(client)
	return &Types{
		discovery: cached,
		mapper: restmapper.NewShortcutExpanderWithContext(
			restmapper.NewDeferredDiscoveryRESTMapperWithContext(cached), cached, nil),
	}
}

// Find returns the type with a name that kubectl accepts: plural, singular, short name
// or kind, with or without version and group. It fails if the type cannot be watched.
func (t *Types) Find(ctx context.Context, name string) (ResourceType, error) {
	mapping, err := t.mapping(ctx, name)
	if meta.IsNoMatchError(err) {
		return ResourceType{}, fmt.Errorf("the server has no type %q: choose one that `kubectl api-resources` lists", name)
	} else if err != nil {
		return ResourceType{}, fmt.Errorf("read the server's types: %w", err)
	}
	found := ResourceType{
		Resource:   mapping.Resource,
		Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}
	return found, t.checkWatchable(ctx, mapping.Resource)
}

// mapping looks for a resource and then for a kind; each with version and group first.
func (t *Types) mapping(ctx context.Context, name string) (*meta.RESTMapping, error) {
	exact, resource := schema.ParseResourceArg(name)
	candidates := []schema.GroupVersionResource{resource.WithVersion("")}
	if exact != nil {
		candidates = slices.Insert(candidates, 0, *exact)
	}
	for _, candidate := range candidates {
		if kind, err := t.mapper.KindForWithContext(ctx, candidate); err == nil {
			return t.mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
		}
	}
	exactKind, kind := schema.ParseKindArg(name)
	if exactKind != nil {
		if mapping, err := t.mapper.RESTMappingWithContext(ctx, exactKind.GroupKind(), exactKind.Version); err == nil {
			return mapping, nil
		}
	}
	return t.mapper.RESTMappingWithContext(ctx, kind)
}

// errNotWatchable reports a type that exists, but has no verb list or watch.
var errNotWatchable = errors.New("cannot be watched")

func (t *Types) checkWatchable(ctx context.Context, wanted schema.GroupVersionResource) error {
	resources, err := t.discovery.ServerResourcesForGroupVersionWithContext(ctx, wanted.GroupVersion().String())
	if err != nil {
		return fmt.Errorf("read the server's types: %w", err)
	}
	for _, r := range resources.APIResources {
		if r.Name == wanted.Resource && !watchable(&r) {
			return fmt.Errorf("%s %w: the server allows only %s",
				wanted.GroupResource(), errNotWatchable, strings.Join(r.Verbs, ", "))
		}
	}
	return nil
}

func watchable(r *metav1.APIResource) bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// Names returns the sorted names of all types that can be watched.
func (t *Types) Names(ctx context.Context) ([]string, error) {
	lists, err := t.discovery.ServerPreferredResourcesWithContext(ctx)
	if len(lists) > 0 {
		err = nil // one unavailable API group does not hide the others
	}
	var names []string
	for _, l := range lists {
		version, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if watchable(&r) {
				names = append(names, schema.GroupResource{Group: version.Group, Resource: r.Name}.String())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
