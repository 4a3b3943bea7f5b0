package source

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// apiServer is a real API server.
type apiServer struct {
	*localcluster.Cluster
	tb     testing.TB
	client kubernetes.Interface
}

func startAPIServer(t *testing.T, ttl time.Duration) *apiServer {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the control plane")
	}
	t.Attr("rerun", "allowed")
	c, err := localcluster.Start(t.Context(), localcluster.Config{Dir: t.TempDir(), EventTTL: ttl, UnsafeNoFsync: true, GCPercent: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	cfg := c.RESTConfig()
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &apiServer{Cluster: c, tb: t, client: client}
}

// source returns a source for the server.
func (s *apiServer) source() *Source {
	s.tb.Helper()
	return quick(s.tb, s.RESTConfig())
}

// begin commits a first position to m, and all counts, which can take several batches.
func (s *apiServer) begin(m *memory) {
	s.tb.Helper()
	stop := run(s.tb, s.source(), Start{}, m.commit)
	eventually(s.tb, m.countsKnown).Should(gomega.BeTrue())
	stop()
}

func (s *apiServer) create(name string, count int32) *eventsv1.Event {
	s.tb.Helper()
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, EventTime: metav1.NowMicro(),
		Type: "Normal", Reason: "Tested", Action: "Test", Note: "as it was created",
		ReportingController: "bongsu.io/test", ReportingInstance: "test-0",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p"},
	}
	if count > 1 {
		e.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NowMicro()}
	}
	e, err := s.client.EventsV1().Events("default").Create(context.Background(), e, metav1.CreateOptions{})
	if err != nil {
		s.tb.Fatal(err)
	}
	return e
}

// count sets the count of an Event with a patch.
func (s *apiServer) count(name string, count int32) *eventsv1.Event {
	s.tb.Helper()
	patch := fmt.Appendf(nil, `{"series":{"count":%d,"lastObservedTime":%q}}`, count, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
	e, err := s.client.EventsV1().Events("default").Patch(context.Background(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.tb.Fatal(err)
	}
	return e
}

func (s *apiServer) delete(name string) {
	s.tb.Helper()
	if err := s.client.EventsV1().Events("default").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		s.tb.Fatal(err)
	}
}

// ours removes the Events of the API server itself.
func ours(sums map[string]int64) map[string]int64 {
	maps.DeleteFunc(sums, func(name string, _ int64) bool { return len(name) < 6 || name[:6] != "event-" })
	return sums
}

func (m *memory) ours() map[string]int64 { return ours(m.increases()) }

func TestRealAPIServer(t *testing.T) {
	s := startAPIServer(t, time.Hour)
	t.Run("stamps each update with its own time", s.in(testStampsEachUpdate))
	t.Run("resumes without loss or repetition", s.in(testResumes))
	t.Run("compacted beyond the position lists again", s.in(testCompacted))
	t.Run("gives the counts as they stood at the position", s.in(testCountsAtPosition))
	t.Run("an old Event is one occurrence after a failover", s.in(testFailover))
	t.Run("compacted during the first list continues it", s.in(testCompactedDuringTheFirstList))
	t.Run("ends a watch, which shows that all Events are read", s.in(testSilence))
	t.Run("behind a proxy that falls silent loses nothing", s.in(testSilentProxy))
	t.Run("killed and restarted loses nothing", s.in(testKilled))
	t.Run("restored from an older snapshot is a reset", s.in(testRestored))
	t.Run("restored at a higher resourceVersion is a reset", s.in(testRestoredHigher))
}

func (s *apiServer) in(test func(*testing.T, *apiServer)) func(*testing.T) {
	return func(t *testing.T) {
		test(t, &apiServer{Cluster: s.Cluster, tb: t, client: s.client})
	}
}

// testStampsEachUpdate verifies the assumption of observedAt: the same manager repeats
// the same change, by PATCH and by PUT.
func testStampsEachUpdate(t *testing.T, s *apiServer) {
	last := observedAt(s.create("stamped", 1))
	for i := range int32(2) {
		s.awaitNextSecond(last)
		e := s.count("stamped", 2+2*i)
		if !observedAt(e).After(last) {
			t.Errorf("PATCH %d: observed at %v, as before", i, last)
		}
		last = observedAt(e)
		s.awaitNextSecond(last)
		e.Series.Count++
		e, err := s.client.EventsV1().Events("default").Update(t.Context(), e, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !observedAt(e).After(last) {
			t.Errorf("PUT %d: observed at %v, as before", i, last)
		}
		last = observedAt(e)
	}
	if age := time.Since(last); age > time.Minute || age < -time.Minute {
		t.Errorf("observed %v ago", age)
	}
}

// awaitNextSecond waits until a time of the API server, in whole seconds, differs from t.
func (s *apiServer) awaitNextSecond(t time.Time) {
	eventually(s.tb, time.Now).Should(gomega.BeTemporally(">=", t.Add(time.Second)))
}

func testResumes(t *testing.T, s *apiServer) {
	m, want := newMemory(), map[string]int64{}
	s.begin(m)
	const rounds, events = 10, 100
	for round := range rounds {
		stop := run(t, s.source(), m.start(), m.commit)
		for i := range events {
			name := fmt.Sprintf("event-resume-%d-%d", round, i)
			s.create(name, int32(1+i%3))
			want[name] = int64(1 + i%3)
			if old := fmt.Sprintf("event-resume-%d-%d", round-1, i); round > 0 && i%2 == 0 {
				s.count(old, int32(want[old])+4)
				want[old] += 4
			}
			if i == events/2 {
				stop() // during the flood
			}
		}
	}
	stop := run(t, s.source(), m.start(), m.commit)
	eventually(t, m.ours).Should(gomega.Equal(want))
	stop()
	if m.start().Position == 0 || len(m.resets) != 0 {
		t.Errorf("position %d, resets %v", m.position, m.resets)
	}
}

func testCompacted(t *testing.T, s *apiServer) {
	m := newMemory()
	s.create("event-compacted-gone", 2)
	s.create("event-compacted-old", 2)
	s.create("event-compacted-same", 2)
	s.begin(m)
	s.count("event-compacted-old", 5)
	s.create("event-compacted-new", 3)
	s.delete("event-compacted-gone")
	s.create("event-compacted-unread", 2) // no client has seen it
	s.delete("event-compacted-unread")
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := len(m.counts)
	source := s.source()
	run(t, source, m.start(), m.commit)
	want := map[string]int64{"event-compacted-old": 3, "event-compacted-new": 3}
	eventually(t, func() int { return len(m.start().asMap()) }).Should(gomega.Equal(live)) // one was created, one deleted
	eventually(t, m.ours).Should(gomega.Equal(want))
	if got := source.State().Relists; got != 1 {
		t.Errorf("%d relists, want 1", got)
	}
	s.count("event-compacted-new", 4)
	want["event-compacted-new"]++
	eventually(t, m.ours).Should(gomega.Equal(want))
}

// asMap collects the counts.
func (s Start) asMap() map[string]int64 {
	all := map[string]int64{}
	for c, err := range s.Counts {
		if err != nil {
			panic(err) // the counts come from a map
		}
		all[c.UID] = c.Count
	}
	return all
}

func testCountsAtPosition(t *testing.T, s *apiServer) {
	s.create("event-then-old", 6)
	m := newMemory()
	s.begin(m)
	s.count("event-then-old", 7)
	s.create("event-then-new", 2)
	lost := newMemory()
	source := s.source()
	run(t, source, Start{Position: m.at()}, lost.commit)
	eventually(t, lost.ours).Should(gomega.Equal(map[string]int64{"event-then-old": 1, "event-then-new": 2}))
	if got := source.State().Relists; got != 0 {
		t.Errorf("%d relists, want the counts as they stood at the position", got)
	}
}

// testFailover loses the counts of a position that is compacted. The replay's end is
// compacted in one of two cases.
func testFailover(t *testing.T, s *apiServer) {
	s.create("event-failover-old", 500)
	m := newMemory()
	s.begin(m)
	start := Start{Position: m.at(), Time: m.start().Time}
	s.awaitNextSecond(start.Time)
	s.count("event-failover-old", 503)
	s.create("event-failover-young", 40)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.create("event-failover-end", 1)
	end := newMemory()
	s.begin(end)
	start.Until, start.UntilTime = end.at(), end.start().Time
	s.awaitNextSecond(start.UntilTime)
	s.count("event-failover-old", 504)
	s.count("event-failover-young", 42)
	s.create("event-failover-new", 3)

	lost := newMemory()
	stop := run(t, s.source(), start, lost.commit)
	eventually(t, lost.ours).Should(gomega.Equal(map[string]int64{
		"event-failover-old": 1 + 1, "event-failover-young": 40 + 2, "event-failover-end": 1, "event-failover-new": 3,
	}))
	stop()

	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost = newMemory()
	run(t, s.source(), start, lost.commit)
	eventually(t, lost.ours).Should(gomega.Equal(map[string]int64{
		"event-failover-old": 1, "event-failover-young": 1, "event-failover-end": 1, "event-failover-new": 3,
	}))
}

func testCompactedDuringTheFirstList(t *testing.T, s *apiServer) {
	last := s.create("event-during-changed", 2).CreationTimestamp.Time
	s.awaitNextSecond(last)
	last = s.create("event-during-same", 2).CreationTimestamp.Time
	var pages atomic.Int64
	compact := sync.OnceFunc(func() {
		s.awaitNextSecond(last)
		s.count("event-during-changed", 9)
		s.create("event-during-new", 3)
		if err := s.Compact(t.Context()); err != nil {
			t.Error(err)
		}
	})
	cfg := s.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if query := r.URL.Query(); query.Get("limit") == "2" && query.Get("continue") == "" {
				pages.Add(1)
			} else if query.Get("continue") != "" {
				compact()
			}
			return next.RoundTrip(r)
		})
	})
	source := quick(t, cfg)
	source.client.PageSize = 2
	m := newMemory()
	run(t, source, Start{}, m.commit)
	eventually(t, m.ours).Should(gomega.Equal(map[string]int64{"event-during-changed": 1, "event-during-new": 3}))
	if got := pages.Load(); got != 1 {
		t.Errorf("the list began %d times, want once", got)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func testKilled(t *testing.T, s *apiServer) {
	m := newMemory()
	s.begin(m)
	source := s.source()
	run(t, source, m.start(), m.commit)
	want := map[string]int64{}
	for round := range 3 {
		for i := range 20 {
			name := fmt.Sprintf("event-killed-%d-%d", round, i)
			s.create(name, 2)
			want[name] = 2
		}
		if err := s.Restart(t.Context(), localcluster.APIServer); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, m.ours).Should(gomega.Equal(want))
	eventually(t, source.Healthy).Should(gomega.Succeed())
}

func testRestored(t *testing.T, s *apiServer) {
	m := newMemory()
	s.create("event-restored-expired", 2)
	s.create("event-restored-old", 2)
	s.begin(m)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if err := s.SnapshotSave(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	source := s.source()
	run(t, source, m.start(), m.commit)
	s.count("event-restored-old", 9)
	s.delete("event-restored-expired")
	for i := range 50 {
		s.create(fmt.Sprintf("event-undone-%d", i), 1)
	}
	eventually(t, func() int { return len(m.ours()) }).Should(gomega.Equal(51))
	s.awaitNextSecond(m.start().Time) // otherwise, old and new Events would have the same time
	s.create("event-undone-last", 1)
	eventually(t, func() int { return len(m.ours()) }).Should(gomega.Equal(52))
	before := m.at()
	if err := s.SnapshotRestore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() int64 { return source.State().Resets }).Should(gomega.Equal(int64(1)))
	eventually(t, func() error {
		_, err := s.client.EventsV1().Events("default").Get(t.Context(), "event-restored-old", metav1.GetOptions{})
		return err
	}).Should(gomega.Succeed())
	s.count("event-restored-old", 10)
	s.create("event-restored-new", 3)
	eventually(t, m.ours).Should(gomega.And( // a list has another order
		gomega.HaveKeyWithValue("event-restored-new", int64(3)),
		gomega.HaveKeyWithValue("event-restored-old", gomega.BeNumerically(">", 7)),
	))
	sums := m.ours()
	if _, again := sums["event-restored-expired"]; again || len(sums) != 53 {
		t.Errorf("%d Events reported, want none repeated: %v", len(sums), sums)
	}
	// The count rose from 2 to 9 in the former history, then from 2 to 10. The list
	// contains either the 2 or the 10.
	if got := sums["event-restored-old"]; got != 7+8 && got != 7+1 {
		t.Errorf("increase of the Event that was set back: %d", got)
	}
	if len(m.resets) != 1 || m.at() >= before {
		t.Errorf("resets %v, position %d, before %d", m.resets, m.at(), before)
	}
}

// testRestoredHigher restores as etcd recommends for Kubernetes: the resourceVersion never
// falls, and former ones are compacted.
func testRestoredHigher(t *testing.T, s *apiServer) {
	s.create("event-higher-old", 2)
	m := newMemory()
	s.begin(m)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if err := s.SnapshotSave(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	source := s.source()
	run(t, source, m.start(), m.commit)
	s.count("event-higher-old", 9)
	eventually(t, m.ours).Should(gomega.HaveKeyWithValue("event-higher-old", int64(7)))
	before := m.at()
	if err := s.SnapshotRestore(t.Context(), snapshot, "--bump-revision=1000000", "--mark-compacted"); err != nil {
		t.Fatal(err)
	}
	eventually(t, m.at).Should(gomega.BeNumerically(">", before))
	s.count("event-higher-old", 5)
	eventually(t, m.ours).Should(gomega.HaveKeyWithValue("event-higher-old", int64(7+3)))
	if got := source.State().Resets; got != 1 || len(m.resets) != 1 {
		t.Errorf("%d resets, reported %q, want one", got, m.resets)
	}
}

func TestAnExpiredEventIsForgotten(t *testing.T) {
	s := startAPIServer(t, 5*time.Second)
	m := newMemory()
	s.begin(m)
	source := s.source()
	run(t, source, m.start(), m.commit)
	uid := string(s.create("event-short-lived", 2).UID)
	// On a busy machine it can be gone already.
	eventually(t, m.ours).Should(gomega.HaveKeyWithValue("event-short-lived", int64(2)))
	eventually(t, func() bool {
		_, err := s.client.EventsV1().Events("default").Get(t.Context(), "event-short-lived", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(gomega.BeTrue())
	eventually(t, func() map[string]int64 { return m.start().asMap() }).ShouldNot(gomega.HaveKey(uid))
	if got := source.State().Relists; got != 0 {
		t.Errorf("%d relists, want the deletion from the watch", got)
	}
}
