package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// surroundings are what is known of a cluster besides its Events, as far as whoever asks
// may read it.
type clusterReader struct {
	client client.Client
	// labels of the namespaces that were asked about; nil of one that there is not.
	labels map[string]map[string]string

	mu sync.Mutex
	// forbidden are the resources that could not be read for want of a right.
	forbidden []string
}

func newClusterReader(c client.Client) *clusterReader {
	return &clusterReader{client: c, labels: map[string]map[string]string{}}
}

// enricher is the operator's.
func (s *clusterReader) enricher(ctx context.Context, clusterName string) *enrich.Enricher {
	if clusterName == "" {
		system := metadataOf("Namespace")
		if s.noting(s.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)) == nil {
			clusterName = enrich.ClusterName(string(system.UID))
		}
	}
	live := looking{s.client, s.noting}
	return enrich.New(clusterName, &nodeCache{Reader: live}, live)
}

// Labels implements alarm.Namespaces.
func (s *clusterReader) Labels(name string) (map[string]string, bool) {
	if _, asked := s.labels[name]; !asked {
		namespace := metadataOf("Namespace")
		s.labels[name] = nil
		// It is asked for by the one who matches, who has no context to give.
		if s.noting(s.client.Get(context.Background(), client.ObjectKey{Name: name}, namespace)) == nil {
			s.labels[name] = namespace.Labels
			if namespace.Labels == nil {
				s.labels[name] = map[string]string{}
			}
		}
	}
	return s.labels[name], s.labels[name] != nil
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

// noting remembers that a right is missing, and passes the error on.
func (s *clusterReader) noting(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsForbidden(err) && status.ErrStatus.Details != nil {
		details := status.ErrStatus.Details
		resource := schema.GroupResource{Group: details.Group, Resource: details.Kind}.String()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.forbidden, resource) {
			s.forbidden = append(s.forbidden, resource)
		}
	}
	return err
}

// notes say what is missing in the test for want of rights.
func (s *clusterReader) notes() []string {
	var notes []string
	slices.Sort(s.forbidden)
	for _, resource := range s.forbidden {
		notes = append(notes, fmt.Sprintf("you may not read %s: what an alarm asks about these is unknown here; the operator may read it", resource))
	}
	return notes
}

// looking is a client that notes what it may not read.
type looking struct {
	client.Reader
	noting func(error) error
}

// Get reads an object.
func (r looking) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.noting(r.Reader.Get(ctx, key, o, opts...))
}

// List reads a list.
func (r looking) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.noting(r.Reader.List(ctx, list, opts...))
}

// nodeCache stands for the operator's cache of Nodes: it asks once.
type nodeCache struct {
	client.Reader

	once  sync.Once
	nodes corev1.NodeList
	err   error
}

func (c *nodeCache) load(ctx context.Context) error {
	c.once.Do(func() {
		// Not the first caller's deadline: all others wait for the same answer.
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

// List returns all Nodes.
func (c *nodeCache) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	c.nodes.DeepCopyInto(list.(*corev1.NodeList))
	return nil
}
