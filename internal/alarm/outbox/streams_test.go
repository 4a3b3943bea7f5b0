package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// baselineOf returns the baseline of an object in a namespace.
func baselineOf(namespace, uid, data string) Baseline {
	return Baseline{UID: uid, Namespace: namespace, Shape: "spec.replicas", Digest: [16]byte{1, byte(len(data))}, Data: []byte(data)}
}

// changes returns entries of changes for a receiver, whose positions in the stream are from, from+1, ...
func changes(receiver string, from, n int) []Entry {
	all := entries(receiver, from, n)
	for i := range all {
		all[i].Key = "change " + all[i].Key
	}
	return all
}

func streamOf(t *testing.T, s *Store, name string) Stream {
	t.Helper()
	streams, err := s.Streams.All(t.Context())
	must(t, err)
	return streams[name]
}

func baselinesOf(t *testing.T, s *Store, name string) map[string]Baseline {
	t.Helper()
	found := map[string]Baseline{}
	var uids []string
	for b, err := range s.Streams.Baselines(t.Context(), name) {
		must(t, err)
		found[b.UID] = b
		uids = append(uids, b.UID)
	}
	all, err := s.Streams.BaselineData(t.Context(), name, append(uids, "unknown"))
	must(t, err)
	for uid, b := range all {
		if found[uid].Digest != b.Digest || found[uid].Shape != b.Shape {
			t.Errorf("%s: got %v and %v", uid, found[uid], b)
		}
	}
	if len(all) != len(found) {
		t.Errorf("got %d baselines and the data of %d", len(found), len(all))
	}
	return all
}

func TestABatchOfChangesIsReadBackAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := Stream{Name: "deployments.apps", Version: "v1", Shape: "spec", Position: 7, Time: day, Complete: true, Omitted: []string{}}
	uid := "11111111-2222-4333-8444-555555555555"
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: want, Put: []Baseline{baselineOf("shop", uid, "old"), baselineOf("shop", "gone", "x"), baselineOf("", "not a UUID", "node")}}}))
	next := baselineOf("shop", uid, "new data")
	next.Shape = "spec.image"
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: want, Put: []Baseline{next}, Delete: []string{"gone", "never there"}}, Entries: changes("r", 5, 2)}))
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods"}, Put: []Baseline{baselineOf("shop", uid, "other")}}}))
	must(t, s.Close())
	s = open(t, dir)
	if diff := cmp.Diff(want, streamOf(t, s, "deployments.apps")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]Baseline{uid: next, "not a UUID": baselineOf("", "not a UUID", "node")}, baselinesOf(t, s, "deployments.apps")); diff != "" {
		t.Error(diff)
	}
	if got := pending(t, s, "r"); len(got) != 2 {
		t.Errorf("got %d entries, want 2", len(got))
	}
}

func TestABatchOfChangesThatFailsChangesNothing(t *testing.T) {
	s := open(t, t.TempDir(), WithMaxBytes(200*file.PageSize))
	before := Stream{Name: "pods", Position: 1, Omitted: []string{}}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: before, Put: []Baseline{baselineOf("shop", "web", "old")}}}))
	after := before
	after.Position = 2
	batch := Change{Objects: &ObjectStep{Stream: after, Put: []Baseline{baselineOf("shop", "web", "new")}, Delete: []string{"web"}}, Entries: changes("r", 2, 5_000)}
	if err := s.Commit(t.Context(), batch); !errors.Is(err, file.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if diff := cmp.Diff(before, streamOf(t, s, "pods")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]Baseline{"web": baselineOf("shop", "web", "old")}, baselinesOf(t, s, "pods")); diff != "" {
		t.Error(diff)
	}
	if got := s.Backlog("r"); got.Entries != 0 {
		t.Errorf("%d entries are stored", got.Entries)
	}
}

// The positions of a stream and of Events are not comparable.
func TestChangesDoNotInfluenceThePositionsOfEvents(t *testing.T) {
	for name, position := range map[string]int{"below those of Events": 2, "above those of Events": 1_000} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 50}}))
			all := changes("r", position, 2)
			all[1].Member = &Membership{Group: "g", Event: group.Event{At: day}}
			must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 5_000}}, Entries: all}))
			for range 2 { // a restore of etcd changes only positions of Events
				if held := waitingEvents(t, s); len(held) > 0 {
					t.Errorf("waiting: %v", held)
				}
				counts, err := s.CountWaiting(t.Context())
				must(t, err)
				if diff := cmp.Diff(map[string]Waiting{"r": {Changes: 2}}, counts); diff != "" {
					t.Errorf("counts: %s", diff)
				}
				must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 10, History: "restored"}}))
			}
			got := integers(t, s, `SELECT entry.position, held.position FROM entry, held`, 2)
			if diff := cmp.Diff([]int64{int64(position), int64(position) + 1}, got); diff != "" {
				t.Errorf("positions in the stream: %s", diff)
			}
		})
	}
}

func TestADroppedStreamLeavesItsMessages(t *testing.T) {
	s := open(t, t.TempDir())
	var put []Baseline
	for i := range 2*chunk + 1 {
		put = append(put, baselineOf("shop", fmt.Sprint(i), "data"))
	}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 5, Complete: true}, Put: put}, Entries: changes("r", 1, 1)}))
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "nodes", Position: 5}, Put: put[:1]}}))
	must(t, s.Streams.Drop(t.Context(), "pods"))
	must(t, s.Streams.Drop(t.Context(), "pods"))
	streams, err := s.Streams.All(t.Context())
	must(t, err)
	if _, ok := streams["pods"]; ok || len(streams) != 1 || len(baselinesOf(t, s, "pods")) > 0 || len(baselinesOf(t, s, "nodes")) != 1 {
		t.Errorf("got %v, and %d baselines", streams, len(baselinesOf(t, s, "pods")))
	}
	if got := s.Backlog("r"); got.Entries != 1 {
		t.Errorf("%d entries, want 1", got.Entries)
	}
	if used := s.used(ledger.Objects, "shop"); used != baselineBytes(&put[0], true) {
		t.Errorf("%d bytes are counted", used)
	}
}

func offset(position uint64, waiting progress.Waiting) progress.Offsets {
	return progress.Offsets{Position: position, Waiting: waiting}
}

func waitingChanges(t *testing.T, s *Store, newest map[string]int) map[string]progress.Waiting {
	t.Helper()
	waiting, err := s.WaitingKeys(t.Context(), nil, newest)
	must(t, err)
	delete(waiting, "")
	return waiting
}

// Another leader delivered some changes, while this outbox was away.
func TestAReplayOfStreamsDropsWhatWasDelivered(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 900}, Entries: entries("r", 900, 1)}))
	pods := append(changes("r", 1, 4), changes("grouped", 1, 3)...)
	for i := range pods[4:] {
		pods[4+i].Member = &Membership{Group: "g", Event: group.Event{At: day}}
	}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 4}, Put: []Baseline{baselineOf("shop", "web", "x")}}, Entries: pods}))
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "nodes", Position: 9}}, Entries: changes("r", 9, 1)}))
	_, err := s.Release(t.Context())
	must(t, err)
	// Offsets of Events do not apply to changes.
	delivered := map[string]progress.Offsets{"": {Position: 899}, "pods": offset(3, progress.Waiting{"r": {"change 2": 2}, "grouped": {"change 3": 3}})}
	want := Stream{Name: "pods", Position: 2, Delivered: offset(3, nil), Omitted: []string{}}
	for range 2 { // a crash can repeat it
		must(t, s.Replay(t.Context(), Replay{Delivered: delivered, Streams: []Stream{{Name: "pods", Position: 2, Complete: true, Delivered: offset(3, nil)}}}))
	}
	wantWaiting := map[string]progress.Waiting{
		"pods": {"r": {"change 2": 2, "change 4": 4}, "grouped": {"change 3": 3}}, "nodes": {"r": {"change 9": 9}},
	}
	if diff := cmp.Diff(wantWaiting, waitingChanges(t, s, nil)); diff != "" {
		t.Errorf("what waits: %s", diff)
	}
	if got := s.Backlog("r").Entries; got != 4 {
		t.Errorf("%d entries remain, want the Event and three changes", got)
	}
	streams, err := s.Streams.All(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[string]Stream{"pods": want}, streams); diff != "" {
		t.Error(diff)
	}
	if all := s.memory.space.Sum(ledger.Objects); all != 0 || len(baselinesOf(t, s, "pods")) != 0 {
		t.Errorf("baselines remain, with %d bytes", all)
	}
}

func TestOffsetsEndWhenTheStreamHasPassedThem(t *testing.T) {
	s := open(t, t.TempDir())
	for position, want := range map[uint64]progress.Offsets{8: offset(9, nil), 9: {}} {
		must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: position, Delivered: offset(9, nil)}}}))
		if diff := cmp.Diff(want, streamOf(t, s, "pods").Delivered); diff != "" {
			t.Errorf("at %d: %s", position, diff)
		}
	}
}

func TestASourceCanBeginWhereNothingOrLittleIsLost(t *testing.T) {
	for name, tc := range map[string]struct {
		stream Stream
		want   []uint64
	}{
		"from now":          {Stream{}, nil},
		"nothing waits":     {Stream{Position: 9}, []uint64{9}},
		"nothing is behind": {Stream{Position: 9, Delivered: offset(7, nil)}, []uint64{9}},
		"some wait":         {Stream{Position: 4, Delivered: offset(9, progress.Waiting{"r": {"a": 5, "b": 7}, "s": {"c": 7, "d": 9, "e": 10}})}, []uint64{4, 6, 8, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.stream.Begins()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheNewestChangesOfSomeReceiversAreRead(t *testing.T) {
	s := open(t, t.TempDir())
	all := append(changes("few", 1, 2), changes("many", 1, 5)...)
	grouped := changes("many", 20, 5)
	for i := range grouped {
		grouped[i].Member = &Membership{Group: "g", Event: group.Event{At: day}}
	}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1}, Entries: entries("many", 1, 1)}))
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 30}}, Entries: append(all, grouped...)}))
	counts, err := s.CountWaiting(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[string]Waiting{"few": {Changes: 2}, "many": {Changes: 10}}, counts); diff != "" {
		t.Errorf("counts: %s", diff)
	}
	want := map[string]progress.Waiting{"pods": {
		"few": {"change 1": 1, "change 2": 2}, "many": {"change 23": 23, "change 24": 24},
	}}
	if diff := cmp.Diff(want, waitingChanges(t, s, map[string]int{"many": 2})); diff != "" {
		t.Error(diff)
	}
}

// Otherwise the first position of Events would leave the entry behind, and a failover would send
// all Events that still exist.
func TestAChangeBeforeTheFirstEventDoesNotLowerTheOffsetOfItsReceiver(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 7}}, Entries: changes("r", 7, 1)}))
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 5_000}}))
	if got := s.Backlog("r"); got.Lowest != 0 || got.Entries != 1 {
		t.Errorf("got %+v, want an entry in no order of positions", got)
	}
}

// A group can contain Events and changes, whose positions are not comparable.
func TestAMessageOfEventsAndChangesEndsWithTheLastOccurrence(t *testing.T) {
	for name, tc := range map[string]struct {
		event, change int
		count         int64 // of the change
	}{
		"change below":                {100, 5, 1},
		"change above":                {5, 100, 1},
		"change below, without count": {100, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			var resolved bool
			compose := func(g Group, parts []Entry, _ int64) ([]byte, error) {
				if len(parts) == 1 { // the begin
					return []byte("text"), nil
				}
				order, resolved = nil, g.Resolved
				for _, p := range parts {
					order = append(order, fmt.Sprint(p.Stream, " ", p.Position))
				}
				return []byte("text"), nil
			}
			s := open(t, t.TempDir(), WithComposer(compose), WithClock(testingclock.NewFakePassiveClock(day.Add(time.Minute))))
			begin := entries("r", 1, 1)
			begin[0].Member = &Membership{Group: "g", Event: group.Event{At: day.Add(-time.Minute)}}
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1}, Entries: begin}))
			_, err := s.Release(t.Context())
			must(t, err)
			event, change := entries("r", tc.event, 1), changes("r", tc.change, 1)
			event[0].Member = &Membership{Group: "g", Rule: group.Rule{Wait: 10 * time.Second}, Event: group.Event{At: day}}
			change[0].Member = &Membership{Group: "g", Rule: group.Rule{Wait: 10 * time.Second}, Event: group.Event{Kind: group.Resolution, At: day.Add(time.Second)}}
			change[0].Count = tc.count
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: uint64(tc.event)}, Entries: event}))
			must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: uint64(tc.change)}}, Entries: change}))
			_, err = s.Release(t.Context())
			must(t, err)
			if got := pending(t, s, "r"); len(got) != 2 || !resolved {
				t.Errorf("got messages at %d, resolved: %v", got, resolved)
			}
			if diff := cmp.Diff([]string{fmt.Sprint(" ", tc.event), fmt.Sprint("pods ", tc.change)}, order); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// fillNamespace stores objects of a namespace until they are omitted. It returns how many have
// data, and how many have none.
func fillNamespace(t *testing.T, s *Store, namespace string) (with, without int) {
	t.Helper()
	data := strings.Repeat("x", 300)
	for n := 0; !slices.Contains(streamOf(t, s, "pods").Omitted, namespace); n += 100 {
		var put []Baseline
		for i := range 100 {
			put = append(put, baselineOf(namespace, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, namespace, n+i)).String(), data))
		}
		must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 1}, Put: put}}))
	}
	row := integers(t, s, `SELECT count(*) FILTER (WHERE length(data) > 0), count(*) FILTER (WHERE length(data) = 0) FROM baseline WHERE namespace = '`+namespace+`'`, 2)
	return int(row[0]), int(row[1])
}

func TestBaselinesOfANamespaceLeaveSpaceForOthers(t *testing.T) {
	const maxBytes = 8 << 20
	dir := t.TempDir()
	s := open(t, dir, WithMaxBytes(maxBytes))
	with, without := fillNamespace(t, s, "tenant")
	if with < 400 || without < 100 {
		t.Errorf("%d objects have data, and %d have none", with, without)
	}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "nodes"}, Put: []Baseline{baselineOf("", "node", "data")}}}))
	if got := baselinesOf(t, s, "nodes")["node"]; string(got.Data) != "data" || len(streamOf(t, s, "nodes").Omitted) > 0 {
		t.Errorf("a cluster-scoped object: got %v", got)
	}
	for i := range 40 {
		fillNamespace(t, s, fmt.Sprint("tenant-", i))
	}
	var used int64
	all := s.memory.space.Sum(ledger.Objects)
	must(t, s.readers.QueryRow(`SELECT sum(pgsize) FROM dbstat WHERE name IN ('baseline', 'sqlite_autoindex_baseline_1')`).Scan(&used))
	if all > maxBytes/4 || used > all {
		t.Errorf("baselines use %d bytes, and count for %d", used, all)
	}
	must(t, s.Close())
	s = open(t, dir, WithMaxBytes(maxBytes))
	if again := s.memory.space.Sum(ledger.Objects); again != all {
		t.Errorf("%d bytes are counted after a restart, want %d", again, all)
	}
	// An object that is stored can always change.
	known := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, "tenant", 0)).String()
	large := baselineOf("tenant", known, strings.Repeat("y", 50_000))
	incomplete := map[string]bool{"from before": true}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 1}, Put: []Baseline{large, {UID: "unneeded", Namespace: "other"}}, Incomplete: incomplete}}))
	if diff := cmp.Diff(map[string]bool{"tenant": true}, incomplete); diff != "" {
		t.Errorf("namespaces of objects without data: %s", diff)
	}
	got, err := s.Streams.BaselineData(t.Context(), "pods", []string{known})
	must(t, err)
	if got[known].Digest != large.Digest || len(got[known].Data) > 0 {
		t.Errorf("got %v, want the digest alone", got[known].Digest)
	}
}

func TestWaitingMessagesLeaveLessSpaceForBaselines(t *testing.T) {
	s := open(t, t.TempDir(), WithMaxBytes(4<<20))
	for at := 1; s.memory.space.Sum(ledger.Messages) < 2_500_000; at += 10 {
		var all []Entry
		for i := range 10 {
			all = append(all, occurrence(at+i, 1, bytes.Repeat([]byte("x"), 5_000), nil)...)
		}
		if err := s.Commit(t.Context(), Change{Events: &EventStep{Position: uint64(at + 10)}, Entries: all}); err != nil {
			break
		}
	}
	fillNamespace(t, s, "tenant")
	empty := open(t, t.TempDir(), WithMaxBytes(4<<20))
	fillNamespace(t, empty, "tenant")
	more := empty.memory.space.Sum(ledger.Objects)
	if all := s.memory.space.Sum(ledger.Objects); all > 25_000 || more < 150_000 {
		t.Errorf("baselines use %d bytes of a file that messages fill, and %d of an empty one", all, more)
	}
}

func TestBytesOfBaselinesAreNotUnderestimated(t *testing.T) {
	for name, sizes := range map[string][]int{"small": {0}, "usual": {300}, "long": {1_400}, "longer than a page": {5_000}, "growing": {10, 400, 900}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			for _, size := range sizes {
				var put []Baseline
				for i := range 500 {
					put = append(put, baselineOf("shop", uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)).String(), strings.Repeat("x", size)))
				}
				must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods"}, Put: put}}))
			}
			var used int64
			all := s.memory.space.Sum(ledger.Objects)
			must(t, s.readers.QueryRow(`SELECT sum(pgsize) FROM dbstat WHERE name IN ('baseline', 'sqlite_autoindex_baseline_1')`).Scan(&used))
			if used > all+2*file.PageSize || all > 3*used {
				t.Errorf("they use %d bytes, and count for %d", used, all)
			}
		})
	}
}

func TestShapesThatNoObjectHasAreRemoved(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range 10 {
		b := baselineOf("shop", "web", "x")
		b.Shape = fmt.Sprint("spec.field", i)
		must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods"}, Put: []Baseline{b}}}))
	}
	if got := integers(t, s, `SELECT count(*) FROM shape`, 1)[0]; got > 2 {
		t.Errorf("%d shapes are stored", got)
	}
}

// A buggy API server can return such objects.
func TestAUIDThatIsNotUniqueBelongsToTheLastNamespace(t *testing.T) {
	s := open(t, t.TempDir())
	put := []Baseline{baselineOf("a", "same", "x"), baselineOf("b", "same", "y")}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods"}, Put: put}}))
	used, all := s.used(ledger.Objects, "b"), s.memory.space.Sum(ledger.Objects)
	if got := baselinesOf(t, s, "pods")["same"]; got.Namespace != "b" || used != all {
		t.Errorf("got %v, with %d of %d bytes", got, used, all)
	}
}

// killedAt opens a copy of an open outbox, whose WAL has only its first bytes.
func killedAt(t *testing.T, dir string, walBytes int64) *Store {
	t.Helper()
	killed := t.TempDir()
	must(t, os.CopyFS(killed, os.DirFS(dir)))
	must(t, os.Remove(filepath.Join(killed, file.Name+"-shm")))
	if walBytes >= 0 {
		must(t, os.Truncate(filepath.Join(killed, file.Name+"-wal"), walBytes))
	}
	return open(t, killed)
}

// A crash in between would repeat or lose changes.
func TestAfterAKillPositionBaselinesAndMessagesAreOfTheSameBatch(t *testing.T) {
	dir := t.TempDir()
	must(t, open(t, dir).Close())
	s := open(t, dir)
	const batches = 8
	for n := 1; n <= batches; n++ {
		b := baselineOf("shop", "web", fmt.Sprint(n))
		b.Digest[0] = byte(n)
		must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: uint64(n)}, Put: []Baseline{b}}, Entries: changes("r", n, 1)}))
	}
	wal, err := os.Stat(filepath.Join(dir, file.Name+"-wal"))
	must(t, err)
	seen := map[uint64]bool{}
	for at := int64(0); at <= wal.Size(); at += wal.Size() / 40 {
		killed := killedAt(t, dir, at)
		position := streamOf(t, killed, "pods").Position
		seen[position] = true
		b := baselinesOf(t, killed, "pods")["web"]
		if n := len(pending(t, killed, "r")); uint64(n) != position || uint64(b.Digest[0]) != position {
			t.Errorf("killed after %d bytes: position %d, %d messages, the baseline of %d", at, position, n, b.Digest[0])
		}
		must(t, killed.Close())
	}
	if len(seen) < batches/2 {
		t.Errorf("the kills were after %d different batches only", len(seen))
	}
}

func TestAStreamBeginsFromNowAfterAKillWhileItIsDropped(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var put []Baseline
	for i := range chunk + 1 {
		put = append(put, baselineOf("shop", fmt.Sprint(i), "data"))
	}
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 5, Complete: true}, Put: put}}))
	must(t, s.write(t.Context(), "drop a chunk", func(ctx context.Context, tx *tx) error {
		_, err := tx.dropStream(ctx, "pods")
		return err
	}))
	killed := killedAt(t, dir, -1)
	if got := streamOf(t, killed, "pods"); got.Complete || got.Position != 0 || len(baselinesOf(t, killed, "pods")) != 1 {
		t.Errorf("got %+v, with %d baselines", got, len(baselinesOf(t, killed, "pods")))
	}
	must(t, killed.Streams.Drop(t.Context(), "pods"))
	if all := killed.memory.space.Sum(ledger.Objects); all != 0 {
		t.Errorf("%d bytes are counted", all)
	}
}
