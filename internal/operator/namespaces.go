package operator

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
	"github.com/bongsu-io/bongsu/internal/expiring"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const (
	// namespaceTimeout limits a read of a namespace that the cache does not have.
	namespaceTimeout = 2 * time.Second
	// namespaceTTL is how long the result of such a read is used, so that many Events of
	// a new namespace cost one read. It also limits retries while reads fail.
	namespaceTTL = 5 * time.Second
	// maxNewNamespaces limits how many results are kept.
	maxNewNamespaces = 1024
	// namespacePause is how long no namespace is read after a failed read. Thus, Events of
	// many new namespaces do not wait for one read each.
	namespacePause = time.Second
)

// namespaces reads the metadata of namespaces. The cache can be late: it has a new namespace
// only after its first Events, and at the start it has none. A namespace that is not in the
// cache is therefore read from the API server.
type namespaces struct {
	cache, live client.Reader
	recent      *expiring.Cache[string, liveNamespace]
	// failing has the error of the last read under an empty name, if it failed.
	failing *expiring.Cache[string, error]
}

// liveNamespace is the result of a read from the API server.
type liveNamespace struct {
	metadata *metav1.PartialObjectMetadata
	err      error
}

func newNamespaces(cache, live client.Reader) namespaces {
	return namespaces{
		cache: cache, live: live,
		recent:  expiring.New[string, liveNamespace](maxNewNamespaces, namespaceTTL, clock.RealClock{}),
		failing: expiring.New[string, error](1, namespacePause, clock.RealClock{}),
	}
}

// Labels implements match.Namespaces.
func (n namespaces) Labels(name string) (map[string]string, bool, alarm.Unread) {
	ns, err := n.get(name)
	if err != nil {
		return nil, false, enrich.Classify(err)
	}
	return ns.Labels, true, ""
}

func (n namespaces) get(name string) (*metav1.PartialObjectMetadata, error) {
	// The cache is in memory, so the read needs no deadline.
	if ns, err := kube.NamespaceMetadata(context.Background(), n.cache, name, client.UnsafeDisableDeepCopy); err == nil {
		return ns, nil
	}
	if found, ok := n.recent.Get(name); ok {
		return found.metadata, found.err
	}
	if err, ok := n.failing.Get(""); ok {
		return nil, err
	}
	return n.readLive(name)
}

func (n namespaces) readLive(name string) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	ns, err := kube.NamespaceMetadata(ctx, n.live, name)
	n.recent.Add(name, liveNamespace{ns, err})
	if enrich.Classify(err) != "" {
		n.failing.Add("", err)
	}
	return ns, err
}
