package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// clusterReader reads the objects that Events regard, with the permissions of the user.
type clusterReader struct {
	client client.Client

	// reading is held while a namespace is read, so that each is read once.
	reading sync.Mutex
	// labels contains the labels of the namespaces that were read. They are nil if the
	// namespace does not exist.
	labels map[string]map[string]string

	mu sync.Mutex
	// forbidden are the resources that the user may not read.
	forbidden []string
	// other are further notes.
	other []string
}

func newClusterReader(c client.Client) *clusterReader {
	return &clusterReader{client: c, labels: map[string]map[string]string{}}
}

// enricher returns an Enricher like that of the operator.
func (r *clusterReader) enricher(ctx context.Context, e *Environment) *enrich.Enricher {
	live := notingReader{r.client, r.note}
	return enrich.New(r.clusterName(ctx, e), &nodeCache{Reader: live}, live).WithResources(r).WithRoots(r.client.Scheme(), r.client.RESTMapper())
}

// servedAs returns how the API server serves a resource.
func servedAs(mapper meta.RESTMapper, resource alarm.Resource) (served schema.GroupVersionKind, namespaced bool, err error) {
	kind, err := mapper.KindFor(schema.GroupVersionResource{Group: resource.Group, Resource: resource.Resource})
	if err != nil {
		return schema.GroupVersionKind{}, false, err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return kind, err == nil && mapping.Scope.Name() != meta.RESTScopeNameRoot, err
}

// Lookup implements enrich.Resources. It can make requests. A resource that is not served is a
// problem of the alarm, which the report contains.
func (r *clusterReader) Lookup(resource alarm.Resource) (alarm.Served, alarm.Unread) {
	kind, namespaced, err := servedAs(r.client.RESTMapper(), resource)
	if err != nil {
		return alarm.Served{}, ""
	}
	return alarm.Served{Version: kind.Version, Kind: kind.Kind, Namespaced: namespaced}, ""
}

// Get implements enrich.Resources.
func (r *clusterReader) Get(ctx context.Context, resource alarm.Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	kind, _, err := servedAs(r.client.RESTMapper(), resource)
	if err != nil {
		return nil, err
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object, r.note(r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// clusterName returns the name that the operator uses. If it is not known, the name is derived
// from the cluster's UID, which is the default of the operator.
func (r *clusterReader) clusterName(ctx context.Context, e *Environment) string {
	if e.ClusterName != "" {
		return e.ClusterName
	}
	position := metadataOf("ConfigMap")
	err := r.client.Get(ctx, client.ObjectKey{Namespace: e.OperatorNamespace, Name: checkpoint.Name}, position)
	if name := position.Annotations[checkpoint.ClusterNameAnnotation]; name != "" {
		return name
	}
	if apierrors.IsForbidden(err) {
		r.other = append(r.other, "the name of the cluster in messages can differ: you may not read the operator's: set --cluster-name")
	}
	system := metadataOf("Namespace")
	if r.note(r.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)) != nil {
		return ""
	}
	return enrich.ClusterName(string(system.UID))
}

// Labels implements match.Namespaces. A namespace that cannot be read counts as deleted.
// Several Events are matched at once, so it can be called concurrently.
func (r *clusterReader) Labels(name string) (map[string]string, bool, alarm.Unread) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if _, known := r.labels[name]; !known {
		namespace := metadataOf("Namespace")
		r.labels[name] = nil
		// The method of the interface has no context.
		if r.note(r.client.Get(context.Background(), client.ObjectKey{Name: name}, namespace)) == nil {
			r.labels[name] = namespace.Labels
			if namespace.Labels == nil {
				r.labels[name] = map[string]string{}
			}
		}
	}
	return r.labels[name], r.labels[name] != nil, ""
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

// note notes the resource if the error says that it is forbidden, and returns the error.
func (r *clusterReader) note(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsForbidden(err) && status.ErrStatus.Details != nil {
		details := status.ErrStatus.Details
		resource := schema.GroupResource{Group: details.Group, Resource: details.Kind}.String()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.Contains(r.forbidden, resource) {
			r.forbidden = append(r.forbidden, resource)
		}
	}
	return err
}

// notes returns a note for each resource that the user may not read.
func (r *clusterReader) notes() []string {
	var notes []string
	slices.Sort(r.forbidden)
	for _, resource := range r.forbidden {
		notes = append(notes, fmt.Sprintf("you may not read %s: the test treats their fields as unknown; the operator may read them", resource))
	}
	return append(notes, r.other...)
}

// notingReader is a client.Reader that notes the resources that it may not read.
type notingReader struct {
	client.Reader
	note func(error) error
}

// Get reads an object.
func (r notingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.note(r.Reader.Get(ctx, key, o, opts...))
}

// List reads a list.
func (r notingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.note(r.Reader.List(ctx, list, opts...))
}

// nodeCache replaces the operator's cache of Nodes. It lists them once.
type nodeCache struct {
	client.Reader

	once  sync.Once
	nodes corev1.NodeList
	err   error
}

func (c *nodeCache) load(ctx context.Context) error {
	c.once.Do(func() {
		// Other callers wait for the same list, so the deadline of the first does not apply.
		c.err = c.Reader.List(context.WithoutCancel(ctx), &c.nodes)
	})
	return c.err
}

// Get returns a Node.
func (c *nodeCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	for i := range c.nodes.Items {
		if c.nodes.Items[i].Name == key.Name {
			c.nodes.Items[i].DeepCopyInto(o.(*corev1.Node))
			return nil
		}
	}
	return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
}

// Count returns the number of Nodes.
func (c *nodeCache) Count(ctx context.Context) (int64, error) {
	err := c.load(ctx)
	return int64(len(c.nodes.Items)), err
}
