package enrich

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// WithResources lets Named read the resources that alarms name.
func (e *Enricher) WithResources(r Resources) *Enricher {
	e.named = r
	return e
}

// Named is like Context, and reads the object if it belongs to one of the resources that an alarm
// names. of is this resource. ok is false if it belongs to none, or if its kind is read for every
// alarm: the result is then that of Context.
//
// Only alarms that name the resource may see the result. The admission policy in
// config/admission/alarms.yaml requires that their authors can get its objects.
func (e *Enricher) Named(ctx context.Context, event *alarm.Event, resources []alarm.Resource) (known alarm.Context, of alarm.Resource, ok bool) {
	ref := event.Regarding
	ref.FieldPath = ""
	of, served, unread := e.resourceOf(ref, resources)
	if served.Kind == "" && unread == "" || !trusted(event) {
		return alarm.Context{}, alarm.Resource{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	if unread != "" {
		return e.context(ctx, event, alarm.Object{}, unreadError(unread)), of, true
	}
	object, err := e.namedObject(ctx, ref, alarm.Resource{Group: of.Group, Version: served.Version, Resource: of.Resource})
	return e.context(ctx, event, object, err), of, true
}

// resourceOf returns the resource to which the object of a reference belongs, and how it is served.
// The API server says the version: a tenant can invent the one in an Event. Without such a
// resource, it returns one whose kind is unknown, and why.
func (e *Enricher) resourceOf(ref alarm.Reference, resources []alarm.Resource) (of alarm.Resource, served alarm.Served, unread alarm.Unread) {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || e.named == nil || len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return alarm.Resource{}, alarm.Served{}, ""
	}
	if _, always := readable[group.WithKind(ref.Kind).GroupKind()]; always {
		return alarm.Resource{}, alarm.Served{}, ""
	}
	for _, r := range resources {
		if r.Group != group.Group {
			continue
		}
		found, why := e.named.Lookup(r)
		switch {
		case why != "":
			of, unread = r, why
		case found.Kind == ref.Kind && found.Namespaced == (ref.Namespace != ""):
			return r, found, ""
		}
	}
	return of, alarm.Served{}, unread
}

// namedObject returns an object of a resource that an alarm names. The resource has its version.
func (e *Enricher) namedObject(ctx context.Context, ref alarm.Reference, of alarm.Resource) (alarm.Object, error) {
	return e.read(ctx, cacheKey{Reference: ref, named: of.Stream()}, func(*cacheKey) (alarm.Object, error) {
		found, err := e.named.Get(ctx, of, ref.Namespace, ref.Name)
		switch {
		case err != nil:
			return alarm.Object{}, err
		case !isSame(ref, found):
			return alarm.Object{}, errNoObject
		}
		return objectOf(ref, found), nil
	})
}
