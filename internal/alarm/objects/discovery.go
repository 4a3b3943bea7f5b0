package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/spelling"
)

// use is what alarms need a resource for.
type use struct {
	verbs []string
	// refused begins the message for users if the API server does not support the verbs.
	refused string
}

var (
	watching = use{[]string{"list", "watch"}, "cannot be watched for changes"}
	reading  = use{[]string{"get"}, "cannot be read for Events"}
)

const (
	// catalogAge is how long a discovery is used for resources that it contains.
	catalogAge = 10 * time.Minute
	// discoveryTimeout limits each request of a discovery.
	discoveryTimeout = 30 * time.Second
)

// catalog caches which resources the API server serves.
type catalog struct {
	client *discovery.DiscoveryClient
	clock  clock.Clock

	// asking has a value during a discovery. A slow one must not delay what is known.
	asking   chan struct{}
	failedAt time.Time // the last failed discovery

	mu     sync.Mutex
	served *served
	at     time.Time
}

func newCatalog(cfg *rest.Config, clk clock.Clock) (*catalog, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.Timeout = discoveryTimeout
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	return &catalog{client: client, clock: clk, asking: make(chan struct{}, 1)}, err
}

// expire makes the next find ask the API server.
func (c *catalog) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}

// find returns how a resource is served. If it is missing, the API server is asked again if the
// last answer is older than age. The error is a *problemError.
func (c *catalog) find(ctx context.Context, r alarm.Resource, u use, age time.Duration) (alarm.Served, error) {
	answer, err := c.answer(ctx, age, 0, func(s *served) bool {
		_, missing := s.find(r, u)
		return missing == nil
	})
	if answer != nil {
		if k, findErr := answer.find(r, u); findErr == nil || err == nil {
			return k, findErr
		}
	}
	return alarm.Served{}, &problemError{Unavailable, "the API server does not answer which resources it serves: the operator retries"}
}

// kinds returns what is served. It asks the API server if a kind is missing, at most once in age.
func (c *catalog) kinds(ctx context.Context, kinds []string, age time.Duration) Served {
	answer, err := c.answer(ctx, age, age, func(s *served) bool {
		known, _ := Served{s}.kinds()
		return !slices.ContainsFunc(kinds, func(kind string) bool { return !known.Has(kind) })
	})
	if err != nil {
		return Served{}
	}
	return Served{answer}
}

var errUnanswered = errors.New("the last discovery failed")

// answer returns the last answer of the API server. It is asked again if that does not suit and is
// older than age, or is older than catalogAge. It is not asked for some time after a failure. With
// an error, answer returns the last answer too.
func (c *catalog) answer(ctx context.Context, age, afterFailure time.Duration, suits func(*served) bool) (*served, error) {
	if s := c.cached(age, suits); s != nil {
		return s, nil
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done(): // another discovery is slow
		return c.last(), ctx.Err()
	}
	if s := c.cached(age, suits); s != nil {
		return s, nil
	}
	if c.clock.Since(c.failedAt) < afterFailure {
		return c.last(), errUnanswered
	}
	answer, err := c.discover(ctx)
	if err != nil {
		c.failedAt = c.clock.Now()
		return c.last(), err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served, c.at = answer, c.clock.Now()
	return answer, nil
}

// cached is the answer without asking the API server, nil if it must be asked.
func (c *catalog) cached(age time.Duration, suits func(*served) bool) *served {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.clock.Since(c.at)
	if c.served == nil || since >= catalogAge || since >= age && !suits(c.served) {
		return nil
	}
	return c.served
}

// last returns the last answer, nil if there was none.
func (c *catalog) last() *served {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served
}

func (c *catalog) discover(ctx context.Context) (*served, error) {
	groups, lists, err := c.client.ServerGroupsAndResourcesWithContext(ctx)
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		return nil, err
	}
	return newServed(groups, lists, failed), nil
}

// Served are the resources that an API server serves. The zero value knows none.
type Served struct{ served *served }

// IsKnown reports whether s is not the zero value.
func (s Served) IsKnown() bool { return s.served != nil }

// NewServed returns what a discovery answered. failed are the groups and versions whose resources
// are unknown.
func NewServed(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error) Served {
	return Served{newServed(groups, lists, failed)}
}

// Status returns the problem that an alarm has if it names the resource, as Source.Status does.
// The result contains none that only the operator can have.
func (s Served) Status(r alarm.Resource) Status {
	if reason, no := excluded[r.Stream()]; no {
		return refuse(Excluded, r.Stream()+" cannot be watched for changes: "+reason)
	}
	return s.status(r, watching)
}

// ReadStatus is Status for a resource in spec.readObjects, see Source.ReadStatus.
func (s Served) ReadStatus(r alarm.Resource) Status {
	if isSecrets(r) {
		return refuse(Excluded, secretsUnread)
	}
	return s.status(r, reading)
}

func (s Served) status(r alarm.Resource, u use) Status {
	k, err := s.served.find(r, u)
	if err != nil {
		p := problemOf(r, err)
		return refuse(p.reason, p.message)
	}
	return Status{Served: k}
}

// ClusterScoped implements match.Kinds.
func (s Served) ClusterScoped(kind string) bool { return s.IsKnown() && s.served.clusterScoped(kind) }

// Meant implements match.Kinds. The result is empty too if some kinds are unknown.
func (s Served) Meant(kind string) string {
	if !s.IsKnown() {
		return ""
	}
	known, complete := s.kinds()
	if !complete || known.Has(kind) {
		return ""
	}
	return spelling.Similar(kind, sets.List(known))
}

// kinds returns all kinds. complete is false if some are unknown.
func (s Served) kinds() (kinds sets.Set[string], complete bool) {
	kinds = sets.Set[string]{}
	for _, resources := range s.served.resources {
		for i := range resources {
			kinds.Insert(resources[i].Kind)
		}
	}
	return kinds, len(s.served.failed) == 0
}

// served are the resources that the API server serves.
type served struct {
	// versions are by group, the preferred one first.
	versions map[string][]string
	// failed are the groups with a version whose resources are unknown.
	failed map[string]bool
	// resources are by group and version, without subresources.
	resources map[schema.GroupVersion][]metav1.APIResource
}

func newServed(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error) *served {
	s := &served{versions: map[string][]string{}, failed: map[string]bool{}, resources: map[schema.GroupVersion][]metav1.APIResource{}}
	for _, g := range groups {
		versions := []string{g.PreferredVersion.Version}
		for _, v := range g.Versions {
			if v.Version != versions[0] {
				versions = append(versions, v.Version)
			}
		}
		s.versions[g.Name] = versions
	}
	for gv := range failed {
		s.failed[gv.Group] = true
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				s.resources[gv] = append(s.resources[gv], slim(r))
			}
		}
	}
	return s
}

// slim returns what the catalog needs of a resource.
func slim(r metav1.APIResource) metav1.APIResource {
	return metav1.APIResource{Name: r.Name, SingularName: r.SingularName, Kind: r.Kind, ShortNames: r.ShortNames, Namespaced: r.Namespaced, Verbs: r.Verbs}
}

// clusterScoped reports whether the API server serves a kind, and in no group with a namespace.
func (s *served) clusterScoped(kind string) bool {
	exists := false
	for _, resources := range s.resources {
		for i := range resources {
			if resources[i].Kind != kind {
				continue
			}
			if resources[i].Namespaced {
				return false
			}
			exists = true
		}
	}
	return exists && len(s.failed) == 0
}

// find returns how a resource is served.
func (s *served) find(r alarm.Resource, u use) (alarm.Served, error) {
	for _, version := range s.candidates(r) {
		for _, found := range s.resources[schema.GroupVersion{Group: r.Group, Version: version}] {
			if found.Name != r.Resource {
				continue
			}
			if slices.ContainsFunc(u.verbs, func(verb string) bool { return !slices.Contains(found.Verbs, verb) }) {
				return alarm.Served{}, &problemError{Excluded, fmt.Sprintf("%s %s: the API server does not support %s for it", r.Stream(), u.refused, strings.Join(u.verbs, " and "))}
			}
			return alarm.Served{Version: version, Kind: found.Kind, Namespaced: found.Namespaced}, nil
		}
	}
	if s.failed[r.Group] {
		return alarm.Served{}, &problemError{Unavailable, fmt.Sprintf("the API server does not answer which resources it serves in group %q: check its APIService", r.Group)}
	}
	return alarm.Served{}, &problemError{KindNotFound, s.missing(r)}
}

// candidates returns the versions in which a resource can be read, the best one first.
func (s *served) candidates(r alarm.Resource) []string {
	if r.Version != "" {
		return []string{r.Version}
	}
	return s.versions[r.Group]
}

// missing explains that a resource is not served.
func (s *served) missing(r alarm.Resource) string {
	what := fmt.Sprintf("the API server serves no resource %q in apiGroup %q", r.Resource, r.Group)
	if r.Version != "" {
		what += fmt.Sprintf(" and version %q", r.Version)
	}
	if similar := s.similar(r); similar != "" {
		return what + ": did you mean " + similar + "?"
	}
	return what + ": check the name, which is the lowercase plural, or install its CustomResourceDefinition"
}

// similar returns the resource that is probably meant, or an empty string. A resource with this
// name comes first: of the same group, then of the first group by name. A misspelt one of the same
// group comes last.
func (s *served) similar(r alarm.Resource) string {
	groups := []string{r.Group}
	for group := range s.versions {
		groups = append(groups, group)
	}
	slices.Sort(groups[1:])
	for _, group := range groups {
		for _, version := range s.versions[group] {
			for _, found := range s.resources[schema.GroupVersion{Group: group, Version: version}] {
				if named(&found, r.Resource) {
					return describe(found.Name, group, version, r)
				}
			}
		}
	}
	var names []string
	for _, version := range s.candidates(r) {
		for _, found := range s.resources[schema.GroupVersion{Group: r.Group, Version: version}] {
			names = append(names, found.Name)
		}
	}
	return spelling.Similar(r.Resource, names)
}

// named reports whether a name that users use in kubectl names the resource.
func named(r *metav1.APIResource, name string) bool {
	for _, known := range append([]string{r.Name, r.SingularName, r.Kind}, r.ShortNames...) {
		if known != "" && strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}

func describe(name, group, version string, asked alarm.Resource) string {
	switch {
	case group != asked.Group:
		return fmt.Sprintf("%s in apiGroup %q", name, group)
	case name == asked.Resource:
		return fmt.Sprintf("%s in version %s", name, version)
	default:
		return name
	}
}
