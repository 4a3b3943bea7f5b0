package outbox

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestCommitThatFailsChangesNothing(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	commit(t, s, "r", 1, 3)
	before := s.Snapshot()

	broken := Change{Events: &EventStep{Position: 9, Counts: []alarm.EventCount{{UID: "e"}}}, Entries: entries("r", 4, 2)}
	broken.Entries[1].Position = math.MaxUint64 // larger than SQLite can store
	if err := s.Commit(ctx, broken); err == nil {
		t.Fatal("the batch was committed, want an error")
	}
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{}, allCounts(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestCommitRefusesToGoBackwards(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 7}}))
	if err := s.Commit(ctx, Change{Events: &EventStep{Position: 6}, Entries: entries("r", 6, 1)}); !errors.Is(err, ErrBackwards) {
		t.Errorf("got %v, want ErrBackwards", err)
	}
	if got := s.Snapshot(); got.Position != 7 || len(got.Backlogs) != 0 {
		t.Errorf("got %+v, want position 7 and no backlog", got)
	}
	must(t, s.Replay(ctx, Replay{Position: 3}))
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 6}}))
}

const plainUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

func allCounts(t testing.TB, s *Store) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for c, err := range s.EventCounts(context.Background()) {
		must(t, err)
		all[c.UID] = c.Count
	}
	return all
}

func TestCountsAreReadBackUnchanged(t *testing.T) {
	uids := map[string]string{
		"a UUID":                plainUID,
		"upper case":            "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
		"in braces":             "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
		"a URN":                 "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"16 bytes that are not": "0123456789abcdef",
		"empty":                 "",
		"no UTF-8":              "\xff\xfe",
	}
	for name, uid := range uids {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			want := alarm.EventCount{UID: uid, Count: 3, Position: 7}
			must(t, s.Commit(context.Background(), Change{Events: &EventStep{Counts: []alarm.EventCount{{UID: uid, Count: 1}, want}}}))
			var got []alarm.EventCount
			for c, err := range s.EventCounts(context.Background()) {
				must(t, err)
				got = append(got, c)
			}
			if diff := cmp.Diff([]alarm.EventCount{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUUIDsAreStoredAs16Bytes(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Commit(ctx, Change{Events: &EventStep{Counts: []alarm.EventCount{{UID: plainUID}}}}))
	var size int
	must(t, s.readers.QueryRowContext(ctx, `SELECT length(uid) FROM event_count WHERE typeof(uid) = 'blob'`).Scan(&size))
	if size != 16 {
		t.Errorf("got %d bytes, want 16", size)
	}
}

func TestForgottenCountsAreRemoved(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Commit(ctx, Change{Events: &EventStep{Counts: []alarm.EventCount{{UID: plainUID, Count: 1}, {UID: "b", Count: 1}, {UID: "c", Count: 1}}}}))
	must(t, s.Commit(ctx, Change{Events: &EventStep{Forget: []string{plainUID, "b", "unknown"}}}))
	if diff := cmp.Diff(map[string]int64{"c": 1}, allCounts(t, s)); diff != "" {
		t.Error(diff)
	}
}

// window returns the state of a window as text.
func window(t *testing.T, s *Store, id string) string {
	t.Helper()
	state, err := s.Window(context.Background(), id)
	must(t, err)
	return string(state)
}

func windowAt(id, state string, until time.Time) Window {
	return Window{ID: id, Alarm: "a", Until: until, State: []byte(state)}
}

func TestAWindowIsKeptUntilOccurrencesAreAfterItsEnd(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 1}, Windows: []Window{windowAt("w", "old", day), windowAt("v", "other", day.Add(time.Hour))}}))
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 2, Oldest: day.Add(time.Minute)}, Windows: []Window{windowAt("w", "new", day.Add(time.Minute))}}))
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 3}}))
	must(t, s.Close())
	s = open(t, dir)
	if got := window(t, s, "w"); got != "new" {
		t.Errorf("got %q, want what was committed last", got)
	}
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 4, Oldest: day.Add(time.Minute + time.Microsecond)}}))
	if got := window(t, s, "w"); got != "" {
		t.Errorf("got %q after its end", got)
	}
	if got := window(t, s, "v"); got != "other" {
		t.Errorf("of the other window: got %q", got)
	}
}

func TestAFailedCommitStoresNoWindow(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	broken := Change{Events: &EventStep{Position: 9, Counts: []alarm.EventCount{{UID: "e", Position: math.MaxUint64}}}, Windows: []Window{windowAt("w", "half", day)}}
	if err := s.Commit(ctx, broken); err == nil {
		t.Fatal("the batch was committed, want an error")
	}
	if got := window(t, s, "w"); got != "" {
		t.Errorf("got %q of a batch that was refused", got)
	}
}

func TestAReplayFromAnotherPositionRemovesWindows(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 9}, Windows: []Window{windowAt("w", "state", day)}}))
	must(t, s.Replay(ctx, Replay{Position: 9}))
	if got := window(t, s, "w"); got != "state" {
		t.Errorf("got %q where nothing is read again", got)
	}
	must(t, s.Replay(ctx, Replay{Position: 3}))
	if got := window(t, s, "w"); got != "" {
		t.Errorf("got %q: what is read again would count twice", got)
	}
}
