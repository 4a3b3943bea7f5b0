package outbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// released are hashes of the migrations that files out there were made with. An edited
// one would leave such a file without what was added.
var released = []string{"09c07a98e012", "65f27bff69e3", "9d0ad5b1d6ca", "3d1f4d72c050"}

func TestAMigrationIsNeverEdited(t *testing.T) {
	var got []string
	for _, script := range migrations {
		got = append(got, fmt.Sprintf("%x", sha256.Sum256([]byte(script)))[:12])
	}
	if diff := cmp.Diff(released, got); diff != "" {
		t.Errorf("a change of the schema is a migration of its own, whose hash is added here: %s", diff)
	}
}

func TestAFileOfEachFormerVersionIsGoneOnWith(t *testing.T) {
	known := migrations
	t.Cleanup(func() { migrations = known })
	for version := 1; version < len(known); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			dir := t.TempDir()
			migrations = known[:version]
			makeFile(t, filepath.Join(dir, FileName))
			migrations = known

			ctx, l := context.Background(), open(t, dir)
			settle := func() {
				t.Helper()
				if _, err := l.Acknowledge(ctx, freeze(t, l, "r", 1)); err != nil {
					t.Error(err)
				}
			}
			settle() // what waited in it
			e := entries("r", 2, 1)[0]
			e.Member = &Membership{Group: "g", At: day, Interval: time.Minute}
			must(t, l.Commit(ctx, Batch{
				Position: 2, Entries: []Entry{e}, Windows: []Window{{ID: "w", Alarm: e.Alarm, Until: day, State: []byte{1}}}, Oldest: day,
			}))
			_, err := l.Release(ctx, func(Group, []Entry, int64) (string, []byte, error) { return "key", payload, nil })
			must(t, err)
			settle()
		})
	}
}

// makeFile makes a file with an entry in it.
func makeFile(t *testing.T, path string) {
	t.Helper()
	must(t, create(path))
	w, err := openWriter(context.Background(), path, 1<<20, &memory{})
	must(t, err)
	_, err = w.conn.ExecContext(context.Background(), `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, payload) VALUES ('r', 'Alarm/a/b', 'k', 1, 1, 0, x'')`)
	must(t, err)
	must(t, w.conn.Close())
	must(t, w.db.Close())
}
