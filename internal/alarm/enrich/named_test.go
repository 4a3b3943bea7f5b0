package enrich_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/enrich"
)

// named are resources that alarms name. Each object exists, and has the label team and the UID u.
type named struct {
	served map[alarm.Resource]alarm.Served
	unread map[alarm.Resource]alarm.Unread
	err    error
	mu     sync.Mutex
	reads  []alarm.Resource
	// hold delays reads until it is closed. Optional.
	hold chan struct{}
}

func (n *named) Lookup(r alarm.Resource) (alarm.Served, alarm.Unread) {
	return n.served[r], n.unread[r]
}

func (n *named) Get(_ context.Context, r alarm.Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	n.mu.Lock()
	n.reads = append(n.reads, r)
	n.mu.Unlock()
	if n.hold != nil {
		<-n.hold
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("u"), Labels: map[string]string{"team": "shop"},
	}}, n.err
}

var (
	widgets  = alarm.Resource{Group: "example.com", Resource: "widgets"}
	gadgets  = alarm.Resource{Group: "example.com", Resource: "gadgets"}
	jobs     = alarm.Resource{Group: "batch.example.com", Resource: "jobs"}
	machines = alarm.Resource{Group: "example.com", Resource: "machines"}
)

// newNamed returns an Enricher that fails each read of another kind.
func newNamed() (*enrich.Enricher, *named, *failingReader) {
	n := &named{
		served: map[alarm.Resource]alarm.Served{
			widgets:  {Version: "v2", Kind: "Widget", Namespaced: true},
			jobs:     {Version: "v1", Kind: "Job", Namespaced: true},
			machines: {Version: "v1", Kind: "Machine"},
		},
		unread: map[alarm.Resource]alarm.Unread{},
	}
	live := &failingReader{err: apierrors.NewServiceUnavailable("not now")}
	return enrich.New("test", live, live).WithResources(n), n, live
}

func about(apiVersion, kind, namespace string) *alarm.Event {
	of := namespace
	if namespace == metav1.NamespaceDefault {
		of = ""
	}
	return event(namespace, alarm.Reference{APIVersion: apiVersion, Kind: kind, Namespace: of, Name: "gear", UID: "u", FieldPath: "spec"})
}

// The Events about an object often come at the same time.
func TestAnObjectIsReadOnceForAllEventsOfTheSameTime(t *testing.T) {
	e, n, _ := newNamed()
	e, n.hold = e.WithLongTimeout(), make(chan struct{})
	var begun, ended sync.WaitGroup
	for range 10 {
		begun.Add(1)
		ended.Go(func() {
			begun.Done()
			if got, _, _ := e.Named(t.Context(), about("example.com/v2", "Widget", "shop"), []alarm.Resource{widgets}); got.Object.Metadata.Labels["team"] != "shop" {
				t.Errorf("got %+v", got)
			}
		})
	}
	begun.Wait()
	close(n.hold)
	ended.Wait()
	if len(n.reads) != 1 {
		t.Errorf("%d reads", len(n.reads))
	}
}

// Tenants write Events. They choose the kind, its version, and the object.
func TestOnlyObjectsOfANamedResourceAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		event *alarm.Event
		named []alarm.Resource
		want  []alarm.Resource // that are read
	}{
		"an object of the resource":                 {about("example.com/v2", "Widget", "shop"), []alarm.Resource{gadgets, widgets}, []alarm.Resource{{Group: "example.com", Version: "v2", Resource: "widgets"}}},
		"a version that a tenant invents":           {about("example.com/v9", "Widget", "shop"), []alarm.Resource{widgets}, []alarm.Resource{{Group: "example.com", Version: "v2", Resource: "widgets"}}},
		"an object without a namespace":             {about("example.com/v1", "Machine", "default"), []alarm.Resource{machines}, []alarm.Resource{{Group: "example.com", Version: "v1", Resource: "machines"}}},
		"a kind of another group with a known name": {about("batch.example.com/v1", "Job", "shop"), []alarm.Resource{jobs}, []alarm.Resource{{Group: "batch.example.com", Version: "v1", Resource: "jobs"}}},
		"no resource is named":                      {event: about("example.com/v2", "Widget", "shop")},
		"another resource is named":                 {event: about("example.com/v2", "Widget", "shop"), named: []alarm.Resource{jobs, machines}},
		"a kind that a tenant invents":              {event: about("example.com/v2", "Wadget", "shop"), named: []alarm.Resource{widgets}},
		"a group that a tenant invents":             {event: about("example.org/v2", "Widget", "shop"), named: []alarm.Resource{widgets}},
		"a resource that must not be read":          {event: about("example.com/v2", "Gadget", "shop"), named: []alarm.Resource{gadgets}},
		"a kind that is read for every alarm":       {event: about("batch/v1", "Job", "shop"), named: []alarm.Resource{{Group: "batch", Resource: "jobs"}}},
		"a namespace of an object that has none":    {event: about("example.com/v1", "Machine", "shop"), named: []alarm.Resource{machines}},
		"no namespace of an object that has one":    {event: about("example.com/v2", "Widget", "default"), named: []alarm.Resource{widgets}},
		"an object of another namespace":            {event: event("bank", about("example.com/v2", "Widget", "shop").Regarding), named: []alarm.Resource{widgets}},
		"an object of the cluster, by a tenant":     {event: event("bank", about("example.com/v1", "Machine", "default").Regarding), named: []alarm.Resource{machines}},
		"an API version that none can have":         {event: about("a/b/c", "Widget", "shop"), named: []alarm.Resource{widgets}},
		"a name that none can have":                 {event: event("shop", alarm.Reference{APIVersion: "example.com/v2", Kind: "Widget", Namespace: "shop", Name: "../x"}), named: []alarm.Resource{widgets}},
	} {
		t.Run(name, func(t *testing.T) {
			e, n, live := newNamed()
			got, of, ok := e.Named(t.Context(), tc.event, tc.named)
			if diff := cmp.Diff(tc.want, n.reads); diff != "" || live.reads > 0 {
				t.Errorf("%d other reads, and these (-want +got):\n%s", live.reads, diff)
			}
			if read := len(tc.want) > 0; got.Resolved != read || ok != read || read && (of.Resource != tc.want[0].Resource || of.Version != "") {
				t.Errorf("got %+v of %v, %v", got, of, ok)
			}
			if always := e.Context(t.Context(), tc.event); always.Resolved || len(n.reads) > len(tc.want) {
				t.Errorf("every alarm gets %+v", always)
			}
		})
	}
}

func TestANamedObjectIsReadOnceForAWhile(t *testing.T) {
	e, n, _ := newNamed()
	for range 3 {
		got, _, _ := e.Named(t.Context(), about("example.com/v2", "Widget", "shop"), []alarm.Resource{widgets})
		want := alarm.Object{APIVersion: "example.com/v2", Kind: "Widget", Metadata: alarm.ObjectMeta{
			Namespace: "shop", Name: "gear", UID: "u", Labels: map[string]string{"team": "shop"},
		}}
		if diff := cmp.Diff(want, got.Object); diff != "" || !got.Resolved || got.Cluster.Name != "test" || got.Cluster.Nodes != 3 {
			t.Errorf("%+v, object (-want +got):\n%s", got, diff)
		}
	}
	if len(n.reads) != 1 {
		t.Errorf("%d reads for three Events, want one", len(n.reads))
	}
}

func TestANamedObjectThatCannotBeReadIsUnreadOrGone(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		unread alarm.Unread // of the resource
		uid    string
		reads  int // for two Events
		waits  bool
	}{
		"it is not found":                  {err: apierrors.NewNotFound(corev1.Resource("widgets"), "gear"), reads: 2},
		"another object has its name":      {uid: "other", reads: 2},
		"a former object has its name":     {uid: "3e0c4d6a-4b1c-4f0e-8f3e-000000000000", reads: 1},
		"the API server limits requests":   {err: apierrors.NewTooManyRequestsError("slow down"), reads: 1, waits: true},
		"the role was just removed":        {err: apierrors.NewForbidden(corev1.Resource("widgets"), "gear", nil), reads: 1, waits: true},
		"the resource is not reviewed yet": {unread: "not yet", waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			e, n, _ := newNamed()
			n.err = tc.err
			if tc.unread != "" {
				n.unread[widgets] = tc.unread
			}
			about := about("example.com/v2", "Widget", "shop")
			if tc.uid != "" {
				about.Regarding.UID = tc.uid
			}
			for range 2 {
				got, of, ok := e.Named(t.Context(), about, []alarm.Resource{widgets})
				if !ok || of != widgets || got.Resolved || (got.ObjectUnread != "") != tc.waits || got.Object.Metadata.Labels != nil {
					t.Errorf("got %+v of %v, %v", got, of, ok)
				}
			}
			if len(n.reads) != tc.reads {
				t.Errorf("%d reads for two Events, want %d", len(n.reads), tc.reads)
			}
		})
	}
}

// The API of a custom resource can fail while that of Pods works.
func TestANamedResourceThatFailsDoesNotDelayOthers(t *testing.T) {
	e, n, live := newNamed()
	n.err = apierrors.NewInternalError(context.DeadlineExceeded)
	live.readable = []string{"web-0"}
	if got, _, _ := e.Named(t.Context(), about("example.com/v2", "Widget", "shop"), []alarm.Resource{widgets}); got.ObjectUnread == "" {
		t.Errorf("got %+v", got)
	}
	other := about("example.com/v2", "Widget", "shop")
	other.Regarding.Name = "other"
	if got, _, _ := e.Named(t.Context(), other, []alarm.Resource{widgets}); got.ObjectUnread == "" || len(n.reads) != 1 {
		t.Errorf("got %+v after %d reads, want one", got, len(n.reads))
	}
	n.err = nil
	if got, _, _ := e.Named(t.Context(), about("batch.example.com/v1", "Job", "shop"), []alarm.Resource{jobs}); !got.Resolved {
		t.Errorf("another resource: %+v", got)
	}
	if got := e.Context(t.Context(), podNamed("web-0")); !got.Resolved {
		t.Errorf("a Pod: %+v", got)
	}
}

// BenchmarkNamed measures an occurrence of an object that an alarm names, from the cache.
func BenchmarkNamed(b *testing.B) {
	n := &named{served: map[alarm.Resource]alarm.Served{widgets: {Version: "v2", Kind: "Widget", Namespaced: true}}}
	e := enrich.New("here", nodesInCache(b, 10), &podReader{}).WithResources(n)
	about, resources := about("example.com/v2", "Widget", "shop"), []alarm.Resource{gadgets, widgets}
	for b.Loop() {
		if c, _, _ := e.Named(b.Context(), about, resources); !c.Resolved {
			b.Fatal(c)
		}
	}
	if each := b.Elapsed() / time.Duration(b.N); b.N > 1000 && each > candidateLimit {
		b.Errorf("%v for an occurrence, the limit is %v", each, candidateLimit)
	}
}
