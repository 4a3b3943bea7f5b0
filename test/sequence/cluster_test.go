package sequence

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// cluster is an API server with the Events and the checkpoint of the operator. It keeps its
// whole history, and answers like one that has compacted a part of it.
type cluster struct {
	mu      sync.Mutex
	version uint64
	// compacted is the oldest version from which a watch can begin.
	compacted uint64
	log       []change
	// down: every request fails.
	down bool
	// changed is closed and replaced at each change.
	changed chan struct{}
	// broken is closed and replaced when all watches break.
	broken chan struct{}
	// created is the number of Events so far.
	created int

	checkpoint *corev1.ConfigMap
	writes     int
	// written is called with the mutex locked, after the checkpoint was written.
	written func()
}

// change is one write of an Event.
type change struct {
	kind  watch.EventType
	event *eventsv1.Event
}

// snapshot is the state of the cluster's etcd at a version.
type snapshot struct {
	version    uint64
	checkpoint *corev1.ConfigMap
}

// bump is how far a restore raises the version, as etcdutl's --bump-revision does.
const bump = 1000

// snapshot returns the present state. The caller holds the mutex.
func (c *cluster) snapshot() snapshot {
	return snapshot{c.version, c.checkpoint.DeepCopy()}
}

// restore goes back to a snapshot at a higher version, with an empty history. The caller holds the
// mutex.
func (c *cluster) restore(s snapshot) {
	c.log = slices.DeleteFunc(c.log, func(ch change) bool { return versionOf(ch.event) > s.version })
	c.version += bump
	c.compacted = c.version
	c.checkpoint = s.checkpoint.DeepCopy()
	c.breakWatches()
}

func newCluster() *cluster {
	return &cluster{version: 10, changed: make(chan struct{}), broken: make(chan struct{}), written: func() {}}
}

// config returns the configuration of a client of the API server.
func (c *cluster) config() *rest.Config { return eventstream.Local(c.list, c.watch) }

func (c *cluster) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// write stores an Event at the next version, and returns that. The caller holds the mutex.
func (c *cluster) write(kind watch.EventType, e *eventsv1.Event) uint64 {
	c.version++
	e.ResourceVersion = strconv.FormatUint(c.version, 10)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	if kind != watch.Deleted {
		e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate, Time: &now}}
	}
	c.log = append(c.log, change{kind, e.DeepCopy()})
	close(c.changed)
	c.changed = make(chan struct{})
	return c.version
}

// at returns the Events as of a version, by name. The caller holds the mutex.
func (c *cluster) at(version uint64) []eventsv1.Event {
	events := map[types.UID]*eventsv1.Event{}
	for _, ch := range c.log {
		if versionOf(ch.event) > version {
			break
		}
		events[ch.event.UID] = ch.event
		if ch.kind == watch.Deleted {
			delete(events, ch.event.UID)
		}
	}
	var list []eventsv1.Event
	for _, e := range events {
		list = append(list, *e.DeepCopy())
	}
	slices.SortFunc(list, func(a, b eventsv1.Event) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func versionOf(e *eventsv1.Event) uint64 { return parse(e.ResourceVersion) }

func parse(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return n
}

func unavailable() *apierrors.StatusError {
	return apierrors.NewServiceUnavailable("the API server is down")
}

func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("too old resource version")
}

// list implements eventstream.Lister.
func (c *cluster) list(query url.Values) (*eventsv1.EventList, *apierrors.StatusError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return nil, unavailable()
	}
	version := c.version
	if query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		if version = parse(query.Get("resourceVersion")); version < c.compacted {
			return nil, expired()
		}
	}
	items := c.at(version)
	if query.Get("limit") == "1" {
		items = items[:min(len(items), 1)]
	}
	return &eventsv1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}, Items: items}, nil
}

// watch implements eventstream.Watcher.
func (c *cluster) watch(query url.Values, s *eventstream.Stream) {
	var position uint64
	c.mu.Lock()
	down, broken := c.down, c.broken
	var initial []eventsv1.Event
	if query.Get("sendInitialEvents") == "" {
		position = parse(query.Get("resourceVersion"))
	} else {
		position, initial = c.version, c.at(c.version)
	}
	tooOld := position < c.compacted
	c.mu.Unlock()
	switch {
	case down:
		s.Fail(unavailable())
		return
	case tooOld:
		s.Send(watch.Error, &expired().ErrStatus)
		return
	case query.Get("sendInitialEvents") != "":
		for i := range initial {
			s.Send(watch.Added, &initial[i])
		}
		s.Send(watch.Bookmark, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.FormatUint(position, 10), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	s.Write(nil)
	c.follow(position, s, broken)
}

// follow sends the changes after a position until the watch breaks.
func (c *cluster) follow(position uint64, s *eventstream.Stream, broken <-chan struct{}) {
	for {
		c.mu.Lock()
		changed := c.changed
		var next []change
		for _, ch := range c.log {
			if versionOf(ch.event) > position {
				next = append(next, ch)
			}
		}
		c.mu.Unlock()
		for _, ch := range next {
			select {
			case <-broken:
				s.Abort()
			default:
			}
			position = versionOf(ch.event)
			s.Send(ch.kind, ch.event)
		}
		select {
		case <-changed:
		case <-broken:
			s.Abort()
		case <-s.Done():
			return
		}
	}
}

// breakWatches ends all watches. The caller holds the mutex.
func (c *cluster) breakWatches() {
	close(c.broken)
	c.broken = make(chan struct{})
}

// newEvent returns an Event as one of several recorders makes it.
func (c *cluster) newEvent(object int) *eventsv1.Event {
	n := c.created
	c.created++
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(object), Name: fmt.Sprintf("%s.%d", nameOf(object), n), UID: eventstream.UID(n), CreationTimestamp: now,
		},
		Type: corev1.EventTypeWarning, Reason: "BackOff", ReportingController: "kubelet", ReportingInstance: "node-1",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespaceOf(object), Name: nameOf(object), UID: eventstream.UID(1<<20 + object)},
	}
	switch n % 3 {
	case 0: // a kubelet
		e.DeprecatedFirstTimestamp, e.DeprecatedLastTimestamp, e.DeprecatedCount = now, now, 1
	case 1: // a recorder of events.k8s.io, whose other times are null
		e.EventTime = metav1.NewMicroTime(now.Time)
	}
	return e
}

func objectOf(e *eventsv1.Event) int {
	object, err := strconv.Atoi(strings.TrimPrefix(e.Regarding.Name, "web-"))
	if err != nil {
		panic(err) // a mistake in the test
	}
	return object
}

// setCount changes the count in the way of the Event's recorder.
func setCount(e *eventsv1.Event, count int32) {
	now := time.Now()
	if e.EventTime.IsZero() {
		e.DeprecatedCount, e.DeprecatedLastTimestamp = count, metav1.NewTime(now.Truncate(time.Second))
		return
	}
	e.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(now)}
}

func countOf(e *eventsv1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.DeprecatedCount, 1)
}

// Objects are numbered. Those with an even number belong to one tenant.
func namespaceOf(object int) string { return [...]string{"shop", "bank"}[object%2] }

func nameOf(object int) string { return fmt.Sprint("web-", object) }

// writer is the operator's client of the API server for the checkpoint, for one process.
type writer struct {
	client.Client // panics for whatever the operator does not do here

	*cluster
	process *process
}

// latency is the time of a request to the API server and to a receiver, before it has an
// effect and after that.
const latency = 10 * time.Millisecond

// do makes a request with an effect.
func (w *writer) do(ctx context.Context, effect func() error) error {
	if err := pause(ctx, latency); err != nil {
		return err
	}
	if w.process.dead.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	w.mu.Lock()
	err := error(unavailable())
	if !w.down {
		err = effect()
	}
	w.mu.Unlock()
	if pauseErr := pause(ctx, latency); pauseErr != nil {
		return pauseErr
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var configMaps = corev1.Resource("configmaps")

// decoded returns the checkpoint. The caller holds the mutex.
func (c *cluster) decoded() (last checkpoint.Checkpoint) {
	if c.checkpoint == nil {
		return last
	}
	for _, data := range c.checkpoint.Data {
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			panic(err)
		}
	}
	return last
}

// needed returns the position after which another leader must read. The caller holds the
// mutex.
func (c *cluster) needed() uint64 {
	last := c.decoded()
	needed := last.Position
	for _, position := range last.Behind {
		needed = min(needed, position)
	}
	for _, waiting := range last.Waiting {
		for _, position := range waiting {
			needed = min(needed, position-1)
		}
	}
	return needed
}

// Get implements client.Reader.
func (w *writer) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return w.do(ctx, func() error {
		if w.checkpoint == nil {
			return apierrors.NewNotFound(configMaps, key.Name)
		}
		w.checkpoint.DeepCopyInto(object.(*corev1.ConfigMap))
		return nil
	})
}

// Scheme implements client.Client.
func (w *writer) Scheme() *runtime.Scheme { return scheme.Scheme }

// Create implements client.Writer.
func (w *writer) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	cm, ok := object.(*corev1.ConfigMap)
	if !ok {
		return nil // an Event about the operator
	}
	return w.do(ctx, func() error {
		if w.checkpoint != nil {
			return apierrors.NewAlreadyExists(configMaps, cm.Name)
		}
		return w.store(cm)
	})
}

// Update implements client.Writer.
func (w *writer) Update(ctx context.Context, object client.Object, _ ...client.UpdateOption) error {
	cm := object.(*corev1.ConfigMap)
	return w.do(ctx, func() error {
		if w.checkpoint == nil {
			return apierrors.NewNotFound(configMaps, cm.Name)
		}
		if w.checkpoint.ResourceVersion != cm.ResourceVersion {
			return apierrors.NewConflict(configMaps, cm.Name, nil)
		}
		return w.store(cm)
	})
}

func (w *writer) store(cm *corev1.ConfigMap) error {
	w.writes++
	cm.ResourceVersion = strconv.Itoa(w.writes)
	w.checkpoint = cm.DeepCopy()
	w.checkpoint.Data = maps.Clone(cm.Data)
	w.written()
	return nil
}
