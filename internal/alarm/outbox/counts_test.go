package outbox

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const plainUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

func allCounts(t testing.TB, l *Store) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	must(t, l.EachCount(context.Background(), func(c EventCount) error {
		all[c.UID] = c.Count
		return nil
	}))
	return all
}

func TestCountsReturnAsTheyWere(t *testing.T) {
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
			l := open(t, t.TempDir())
			want := EventCount{UID: uid, Count: 3, Position: 7}
			must(t, l.Commit(context.Background(), Batch{Counts: []EventCount{{UID: uid, Count: 1}, want}}))
			var got []EventCount
			must(t, l.EachCount(context.Background(), func(c EventCount) error {
				got = append(got, c)
				return nil
			}))
			if diff := cmp.Diff([]EventCount{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUUIDsAreStoredAs16Bytes(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Commit(ctx, Batch{Counts: []EventCount{{UID: plainUID}}}))
	var size int
	must(t, l.readers.QueryRowContext(ctx, `SELECT length(uid) FROM event_count WHERE typeof(uid) = 'blob'`).Scan(&size))
	if size != 16 {
		t.Errorf("got %d bytes, want 16", size)
	}
}

func TestCountsAreForgotten(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Commit(ctx, Batch{Counts: []EventCount{{UID: plainUID, Count: 1}, {UID: "b", Count: 1}, {UID: "c", Count: 1}}}))
	must(t, l.Commit(ctx, Batch{Forget: []string{plainUID, "b", "unknown"}}))
	if diff := cmp.Diff(map[string]int64{"c": 1}, allCounts(t, l)); diff != "" {
		t.Error(diff)
	}
}
