package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	kjson "sigs.k8s.io/json"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

// write is one write of the fake API server.
type write struct {
	position uint64
	kind     string // ADDED, MODIFIED or DELETED
	object   map[string]any
}

// api is an API server that serves one resource, with a history.
type api struct {
	mu sync.Mutex
	// resource has the version that is served.
	resource alarm.Resource
	kind     string
	scoped   bool
	position uint64
	history  []write
	// compacted is the oldest position that can be read.
	compacted uint64
	uids      int
	// managers are further entries of managedFields.
	managers []any
	// missing and forbidden, broken: the API server does not serve the resource, refuses it, or
	// does not answer a discovery.
	missing, forbidden, broken bool
	// hang delays the resources of the group of an aggregated API that is down. Without it, an
	// error is the answer.
	hang chan struct{}
	// lists counts the lists that are not one object long, accepted are the Accept headers.
	lists   int
	watches int
	// muted is the number of the last watch that brings nothing.
	muted    int
	accepted []string
	// answer answers a request instead, unless it returns false. It is called without the lock.
	answer func(w http.ResponseWriter, r *http.Request) bool
	// beforePage is called before each page of a list, without the lock.
	beforePage func(query url.Values)
	// pageTime is how long a page of a list takes, listing the sum for all pages.
	pageTime, listing time.Duration
	// wrote is closed after each write, and cut to end all watches.
	wrote, cut chan struct{}
	// closedEarly is true after a watch that ended early without an entry.
	closedEarly bool
}

func newAPI() *api {
	return &api{
		resource: alarm.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, kind: "Deployment", scoped: true,
		position: 100, compacted: 0, wrote: make(chan struct{}), cut: make(chan struct{}),
	}
}

func (a *api) config() *rest.Config {
	return &rest.Config{Host: "http://api.example", Transport: eventstream.Transport(a), ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// clone copies a JSON value.
func clone(object map[string]any) map[string]any {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var copied map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &copied); err != nil {
		panic(err)
	}
	return copied
}

// commit adds a write.
func (a *api) commit(kind string, object map[string]any) {
	a.position += 3
	object = clone(object)
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.FormatUint(a.position, 10)
	a.history = append(a.history, write{a.position, kind, object})
	close(a.wrote)
	a.wrote = make(chan struct{})
}

// at returns the objects as of a position by name.
func (a *api) at(position uint64) map[string]map[string]any {
	objects := map[string]map[string]any{}
	for _, w := range a.history {
		name := w.object["metadata"].(map[string]any)["name"].(string)
		switch {
		case w.position > position:
		case w.kind == "DELETED":
			delete(objects, name)
		default:
			objects[name] = w.object
		}
	}
	return objects
}

// set creates or updates an object: path=value pairs of its spec.
func (a *api) set(name string, spec map[string]any) {
	a.change(name, func(object map[string]any) { object["spec"] = spec })
}

// touch changes what no alarm names.
func (a *api) touch(name string) {
	a.change(name, func(object map[string]any) { object["status"] = map[string]any{"at": a.position} })
}

func (a *api) change(name string, change func(map[string]any)) {
	a.changeAt(name, time.Now().UTC().Format(time.RFC3339), change)
}

// changeAt is change with the time of managedFields.
func (a *api) changeAt(name, written string, change func(map[string]any)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind, object := "MODIFIED", a.at(a.position)[name]
	if object == nil {
		a.uids++
		kind, object = "ADDED", map[string]any{
			"apiVersion": a.resource.Group + "/" + a.resource.Version, "kind": a.kind,
			"metadata": map[string]any{"name": name, "namespace": namespaceOf(name), "uid": fmt.Sprintf("%08x-5bd1-4e3a-9c64-0123456789ab", a.uids)},
		}
	}
	object = clone(object)
	change(object)
	object["metadata"].(map[string]any)["managedFields"] = append([]any{
		map[string]any{"manager": "old", "time": "1999-01-01T00:00:00Z", "fieldsV1": map[string]any{"f:spec": map[string]any{}}},
		map[string]any{"manager": "kubectl", "time": written, "fieldsV1": ownedBy(object)},
	}, a.managers...)
	a.commit(kind, object)
}

// ownedBy returns a fieldsV1 with the top-level fields of an object.
func ownedBy(object map[string]any) map[string]any {
	owned := map[string]any{}
	for key := range object {
		owned["f:"+key] = map[string]any{}
	}
	return owned
}

// namespaceOf returns the namespace of an object: the text before a dot in its name, or "team".
func namespaceOf(name string) string {
	if namespace, _, ok := strings.Cut(name, "."); ok {
		return namespace
	}
	return "team"
}

func (a *api) delete(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if object := a.at(a.position)[name]; object != nil {
		a.commit("DELETED", object)
	}
}

// compact removes the history.
func (a *api) compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.position++
	a.compacted = a.position
}

// disconnect ends all watches.
func (a *api) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.cut)
	a.cut = make(chan struct{})
}

func (a *api) with(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := "/apis/" + a.resource.Group + "/" + a.resource.Version
	if a.resource.Group == "" {
		path = "/api/" + a.resource.Version
	}
	query := r.URL.Query()
	var answer func(http.ResponseWriter, *http.Request) bool
	a.with(func() { answer = a.answer })
	switch {
	case answer != nil && answer(w, r):
	case !strings.HasPrefix(r.URL.Path, path+"/"):
		a.discover(w, r.URL.Path, path)
	case a.refuses(w):
	case query.Get("watch") != "":
		a.watch(w, r)
	default:
		if a.beforePage != nil && query.Get("limit") != "1" {
			a.beforePage(query)
		}
		if query.Get("limit") != "1" {
			a.delay(r)
		}
		a.list(w, r)
	}
}

// delay waits for pageTime, or until the client ends the request.
func (a *api) delay(r *http.Request) {
	began := time.Now()
	var done <-chan time.Time
	a.with(func() { done = time.After(a.pageTime) })
	select {
	case <-done:
	case <-r.Context().Done():
	}
	a.with(func() { a.listing += time.Since(began) })
}

func (a *api) discover(w http.ResponseWriter, path, own string) {
	if a.hang != nil && strings.HasPrefix(path, "/apis/down") {
		<-a.hang
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	version := metav1.GroupVersionForDiscovery{GroupVersion: a.resource.Group + "/" + a.resource.Version, Version: a.resource.Version}
	switch {
	case a.broken:
		reply(w, http.StatusServiceUnavailable, &apierrors.NewServiceUnavailable("down").ErrStatus)
	case path == "/api":
		reply(w, http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	case path == "/apis":
		down := metav1.GroupVersionForDiscovery{GroupVersion: "down.example.com/v1", Version: "v1"}
		groups := metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "down.example.com", Versions: []metav1.GroupVersionForDiscovery{down}, PreferredVersion: down}}}
		if a.resource.Group != "" && !a.missing {
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: a.resource.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
		reply(w, http.StatusOK, groups)
	case path == own && !a.missing:
		reply(w, http.StatusOK, metav1.APIResourceList{GroupVersion: strings.TrimPrefix(version.GroupVersion, "/"), APIResources: []metav1.APIResource{
			{Name: a.resource.Resource, SingularName: strings.ToLower(a.kind), Kind: a.kind, Namespaced: a.scoped, Verbs: []string{"get", "list", "watch"}},
			{Name: a.resource.Resource + "/scale", Kind: "Scale"},
		}})
	case path == "/apis/down.example.com/v1":
		reply(w, http.StatusServiceUnavailable, &apierrors.NewServiceUnavailable("down").ErrStatus)
	case path == "/api/v1":
		reply(w, http.StatusOK, metav1.APIResourceList{GroupVersion: "v1"})
	default:
		reply(w, http.StatusNotFound, &apierrors.NewNotFound(schema.GroupResource{}, "").ErrStatus)
	}
}

// refuses answers with an error if the resource cannot be read.
func (a *api) refuses(w http.ResponseWriter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.missing:
		reply(w, http.StatusNotFound, &apierrors.NewNotFound(schema.GroupResource{}, "").ErrStatus)
	case a.forbidden:
		reply(w, http.StatusForbidden, &apierrors.NewForbidden(schema.GroupResource{}, "", nil).ErrStatus)
	}
	return a.missing || a.forbidden
}

func reply(w http.ResponseWriter, code int, object any) {
	if status, ok := object.(*metav1.Status); ok {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // an error means that the client has disconnected
}

var gone = &apierrors.NewResourceExpired("too old resource version").ErrStatus

func tooLarge() *metav1.Status {
	large := apierrors.NewTimeoutError("Too large resource version", 1)
	large.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return &large.ErrStatus
}

// list answers one page. The token is POSITION/OFFSET.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	position, offset := a.position, 0
	if text := query.Get("resourceVersion"); text != "" {
		position, _ = strconv.ParseUint(text, 10, 64)
	}
	if token := query.Get("continue"); token != "" {
		_, _ = fmt.Sscanf(token, "%d/%d", &position, &offset)
	}
	if limit != 1 {
		a.accepted = append(a.accepted, r.Header.Get("Accept"))
		if offset == 0 {
			a.lists++
		}
	}
	if position < a.compacted {
		expired := *gone
		if offset > 0 {
			expired.Continue = fmt.Sprintf("%d/%d", a.position, offset)
		}
		reply(w, http.StatusGone, &expired)
		return
	}
	if position > a.position {
		reply(w, http.StatusGatewayTimeout, tooLarge())
		return
	}
	objects := a.at(position)
	meta := map[string]any{"resourceVersion": strconv.FormatUint(position, 10)}
	items := []any{}
	for i, name := range slices.Sorted(maps.Keys(objects)) {
		if i >= offset && i < offset+limit {
			item := maps.Clone(objects[name])
			delete(item, "kind") // as in lists of built-in kinds
			items = append(items, item)
		}
	}
	if offset+limit < len(objects) {
		meta["continue"] = fmt.Sprintf("%d/%d", position, offset+limit)
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "kind": a.kind + "List", "metadata": meta})
}

// watch answers a watch.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	a.mu.Lock()
	cut, expired := a.cut, from < a.compacted
	a.watches++
	muted := a.watches <= a.muted
	a.accepted = append(a.accepted, r.Header.Get("Accept"))
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	began, sent := time.Now(), false
	end := func() {
		early := !sent && time.Since(began) < apiwatch.EarlyClose
		a.with(func() { a.closedEarly = a.closedEarly || early })
	}
	send := func(kind string, object any) {
		sent = true
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	if expired {
		send("ERROR", gone)
		return
	}
	_, _ = w.Write(nil)
	if muted {
		<-r.Context().Done()
	}
	for r.Context().Err() == nil {
		a.mu.Lock()
		wrote := a.wrote
		var next []write
		for _, h := range a.history {
			if h.position > from {
				next, from = append(next, h), h.position
			}
		}
		a.mu.Unlock()
		for _, h := range next {
			select {
			case <-cut: // a connection can end anywhere
				end()
				return
			default:
				send(h.kind, h.object)
			}
		}
		select {
		case <-wrote:
		case <-time.After(time.Minute):
			send("BOOKMARK", map[string]any{"kind": a.kind, "metadata": map[string]any{"resourceVersion": strconv.FormatUint(from, 10)}})
		case <-cut:
			end()
			return
		case <-r.Context().Done():
			return
		}
	}
}

// store is an outbox in memory.
type store struct {
	mu        sync.Mutex
	streams   map[string]outbox.Stream
	baselines map[string]map[string]outbox.Baseline
	changes   []alarm.Occurrence
	batches   []Batch
	// fail is an error that commit and reads return.
	fail error
}

func newStore() *store {
	return &store{streams: map[string]outbox.Stream{}, baselines: map[string]map[string]outbox.Baseline{}}
}

func (s *store) All(context.Context) (map[string]outbox.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.streams), s.fail
}

func (s *store) Baselines(_ context.Context, stream string) iter.Seq2[outbox.Baseline, error] {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.baselines[stream]))
	s.mu.Unlock()
	return func(yield func(outbox.Baseline, error) bool) {
		for _, b := range all {
			if b.Data, b.Namespace = nil, ""; !yield(b, nil) {
				return
			}
		}
	}
}

// lost reports whether a batch said, with this text, that changes can be lost.
func (s *store) lost(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.batches, func(b Batch) bool { return strings.Contains(b.Lost, text) })
}

// commits returns the number of batches so far.
func (s *store) commits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

func (s *store) BaselineData(_ context.Context, stream string, uids []string) (map[string]outbox.Baseline, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]outbox.Baseline{}
	for _, uid := range uids {
		if b, ok := s.baselines[stream][uid]; ok {
			found[uid] = b
		}
	}
	return found, s.fail
}

func (s *store) Drop(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, name)
	delete(s.baselines, name)
	return s.fail
}

func (s *store) commit(_ context.Context, b Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	name := b.Stream.Name
	s.streams[name] = b.Stream
	if s.baselines[name] == nil {
		s.baselines[name] = map[string]outbox.Baseline{}
	}
	for _, base := range b.Put {
		s.baselines[name][base.UID] = base
	}
	for _, uid := range b.Delete {
		delete(s.baselines[name], uid)
	}
	s.changes = append(s.changes, b.Changes...)
	s.batches = append(s.batches, b)
	return nil
}

// texts returns the changes so far, each as "Update web 1 -> 2": the values of spec.value.
func (s *store) texts() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.changes {
		all = append(all, text(&s.changes[i]))
	}
	return all
}

func text(o *alarm.Occurrence) string {
	c := o.Change
	if c.Operation == alarm.Update {
		return fmt.Sprintf("Update %s %v -> %v", o.Event.Name, value(c.Old), value(c.Object))
	}
	return fmt.Sprintf("%s %s %v", c.Operation, o.Event.Name, value(c.Object))
}

func value(object map[string]any) any {
	spec, _ := object["spec"].(map[string]any)
	return spec["value"]
}

func (s *store) stream() outbox.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams["deployments.apps"]
}

func (s *store) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

var deployments = alarm.Resource{Group: "apps", Resource: "deployments"}

// shape returns a shape with these paths.
func shape(tb testing.TB, paths ...string) fields.Shape {
	tb.Helper()
	var parsed []fields.Path
	for _, text := range paths {
		p, err := fields.Parse(text)
		if err != nil {
			tb.Fatal(err)
		}
		parsed = append(parsed, p)
	}
	return fields.NewShape(parsed...)
}

// everywhere is a ClusterAlarm.
var everywhere = kube.Key{Kind: alarm.KindClusterAlarm, Name: "all"}

func need(tb testing.TB, r alarm.Resource, paths ...string) Needs {
	tb.Helper()
	needs := Needs{}
	needs.Add(r, shape(tb, paths...), everywhere)
	return needs
}

// run runs a source in a synctest bubble until stop is called.
func run(t *testing.T, a *api, s *store, handle Handler, needs Needs) (source *Source, stop func()) {
	t.Helper()
	source, err := New(a.config(), s, clock.RealClock{}, testr.NewWithOptions(t, testr.Options{Verbosity: 4}))
	if err != nil {
		t.Fatal(err)
	}
	source.pageSize = 2
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := source.Run(ctx, handle); err != nil {
			t.Error(err)
		}
	})
	source.SetNeeds(needs)
	return source, func() {
		cancel()
		running.Wait()
	}
}

// settle waits until everything is read and committed.
func settle() {
	time.Sleep(90 * time.Second)
	synctest.Wait()
}
