package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const (
	// notReviewed is why it is unknown whether an object of spec.readObjects can be read.
	notReviewed alarm.Unread = "the API server has not answered whether the operator can read it"

	secretsUnread = "secrets cannot be read for Events: use names or note in spec.match"
	tooManyReads  = "too many resources are named in readObjects: 64 are possible. Resources of ClusterAlarms come first, then each namespace in turn gets one. Remove alarms that name other resources"

	// maxMetadata limits the response with the metadata of an object, in bytes.
	maxMetadata = 2 << 20
)

// errNotServed is not an answer about an object, so it must not be that of the API server.
var errNotServed = errors.New("the API server does not serve the resource in this version any more")

// reads knows which resources of spec.readObjects the operator can read. It asks the API server
// at intervals, so that Events cause no such requests.
type reads struct {
	access   authorization.SelfSubjectAccessReviewInterface
	metadata metadataclient.Interface
	// changed has a value after a change of needs.
	changed chan struct{}
	// outdated is set if a resource is not served as the catalog says.
	outdated atomic.Bool

	mu       sync.Mutex
	needs    Needs
	statuses map[alarm.Resource]Status
}

func newReads(cfg *rest.Config) (*reads, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.Timeout = discoveryTimeout
	cfg.Wrap(kube.LimitResponses(maxMetadata))
	reviews, err := authorization.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	objects, err := metadataclient.NewForConfig(cfg)
	return &reads{access: reviews.SelfSubjectAccessReviews(), metadata: objects, changed: make(chan struct{}, 1), statuses: map[alarm.Resource]Status{}}, err
}

// SetReads replaces the resources that alarms name in spec.readObjects.
func (s *Source) SetReads(needs Needs) {
	s.reads.mu.Lock()
	s.reads.needs = needs
	s.reads.mu.Unlock()
	notify(s.reads.changed)
}

// ReadStatus returns whether the operator can read objects of a resource for spec.readObjects. It
// can if Synced is true. The zero Status means that it was not reviewed yet.
func (s *Source) ReadStatus(r alarm.Resource) Status {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	return s.reads.statuses[r]
}

// Lookup returns how objects of a resource are read for spec.readObjects. It is zero if they
// cannot be read. unread says why that is unknown. Lookup makes no request.
func (s *Source) Lookup(r alarm.Resource) (served alarm.Served, unread alarm.Unread) {
	switch status := s.ReadStatus(r); {
	case status.Synced:
		return status.Served, ""
	case status.Reason == "" || status.Reason == Unavailable:
		return alarm.Served{}, notReviewed
	default:
		return alarm.Served{}, ""
	}
}

// Get reads the metadata of an object. The resource has the version of Lookup.
func (s *Source) Get(ctx context.Context, r alarm.Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	object, err := s.reads.metadata.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err) {
		s.reads.outdated.Store(true)
		return nil, errNotServed
	}
	return object, err
}

// followReads reviews the resources of spec.readObjects until ctx ends: new ones at once, and all
// of them at intervals.
func (s *Source) followReads(ctx context.Context) {
	next := s.clock.Now()
	for ctx.Err() == nil {
		all := !s.clock.Now().Before(next)
		if all {
			next = s.clock.Now().Add(reviewTime)
			if s.reads.outdated.Swap(false) {
				s.catalog.expire()
			}
		}
		s.reviewReads(ctx, all)
		timer := s.clock.NewTimer(next.Sub(s.clock.Now()))
		select {
		case <-ctx.Done():
		case <-s.reads.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// reviewReads reviews new resources, or all of them. It forgets those that no alarm names.
func (s *Source) reviewReads(ctx context.Context, all bool) {
	s.reads.mu.Lock()
	needs := s.reads.needs
	maps.DeleteFunc(s.reads.statuses, func(r alarm.Resource, _ Status) bool { return needs[r] == nil })
	s.reads.mu.Unlock()
	for i, r := range readOrder(needs) {
		before := s.ReadStatus(r)
		isNew := before == Status{} || before.Reason == TooMany
		switch {
		case ctx.Err() != nil:
			return
		case i >= maxResources:
			s.setReadStatus(r, before, refuse(TooMany, tooManyReads))
		case all || isNew:
			s.setReadStatus(r, before, s.reviewRead(ctx, r, before))
		}
	}
}

func (s *Source) setReadStatus(r alarm.Resource, before, after Status) {
	if before == after {
		return
	}
	s.reads.mu.Lock()
	s.reads.statuses[r] = after
	s.reads.mu.Unlock()
	s.notifyObservers(func(changed alarm.Resource, _ kube.Key, _ fields.Shape) bool { return changed == r })
}

// readOrder returns the resources in the order in which they get one of maxResources places.
func readOrder(needs Needs) (resources []alarm.Resource) {
	byName, groups := map[string]alarm.Resource{}, map[string]*Need{}
	for r, need := range needs {
		byName[r.Stream()], groups[r.Stream()] = r, need
	}
	for _, name := range order(groups) {
		resources = append(resources, byName[name])
	}
	return resources
}

// reviewRead asks the API server how a resource is served, and whether the operator can get its
// objects. Without an answer, the operator goes on as before.
func (s *Source) reviewRead(ctx context.Context, r alarm.Resource, before Status) Status {
	if isSecrets(r) {
		return refuse(Excluded, secretsUnread)
	}
	served, err := s.catalog.find(ctx, r, reading, s.missing)
	if p, ok := errors.AsType[*problemError](err); ok && p.reason != Unavailable {
		return refuse(p.reason, p.message)
	}
	if err == nil {
		var allowed bool
		if allowed, err = s.reads.allowed(ctx, r); err == nil {
			status := Status{Served: served, Synced: allowed}
			if !allowed {
				status.Reason, status.Message = Forbidden, ForbiddenMessage(r, reading.verbs...)
			}
			return status
		}
	}
	p := unavailable(r, err)
	before.Reason, before.Message = p.reason, p.message
	return before
}

// allowed reports whether the operator can get objects of a resource in all namespaces.
func (x *reads) allowed(ctx context.Context, r alarm.Resource) (bool, error) {
	review, err := x.access.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: r.Group, Resource: r.Resource, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the access to %s: %w", r.Stream(), err)
	}
	return review.Status.Allowed, nil
}
