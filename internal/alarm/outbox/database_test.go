package outbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

func TestOlderFileIsMigratedAndNewerOneLeftAlone(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 2)
	must(t, l.Close())

	known := migrations
	t.Cleanup(func() { migrations = known })
	migrations = append(slices.Clone(known), `ALTER TABLE entry ADD COLUMN note TEXT NOT NULL DEFAULT 'new'`)
	l = open(t, dir)
	var note string
	must(t, l.readers.QueryRow(`SELECT note FROM entry WHERE id = 1`).Scan(&note))
	if note != "new" || l.Backlog("r").Entries != 2 {
		t.Errorf("migrated: got note %q and %+v, want the new column and both entries", note, l.Backlog("r"))
	}
	must(t, l.Close())

	migrations = known
	if _, err := Open(context.Background(), dir); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("newer: got %v, want ErrNewerSchema", err)
	}
	if got := asides(t, dir); len(got) != 0 {
		t.Errorf("newer: it was set aside as %v", got)
	}
}

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

// asides lists what was set aside in dir.
func asides(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, FileName+setAsideInfix+"*"))
	must(t, err)
	return names
}

func TestDamagedFileIsSetAside(t *testing.T) {
	tests := map[string]func(file []byte) []byte{
		"garbage":             func(file []byte) []byte { return bytes.Repeat([]byte("garbage!"), len(file)/8) },
		"short garbage":       func([]byte) []byte { return []byte("garbage") },
		"header overwritten":  func(file []byte) []byte { return append(make([]byte, 100), file[100:]...) },
		"truncated":           func(file []byte) []byte { return file[:len(file)/2] },
		"truncated in a page": func(file []byte) []byte { return file[:len(file)-1000] },
		"page flipped": func(file []byte) []byte {
			for i := len(file) / 8192 * 4096; i < len(file)/8192*4096+4096; i++ {
				file[i] ^= 0xff
			}
			return file
		},
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			commit(t, l, "r", 1, 500)
			must(t, l.Close())
			path := filepath.Join(dir, FileName)
			file, err := os.ReadFile(path)
			must(t, err)
			damaged := damage(file)
			must(t, os.WriteFile(path, damaged, 0o600))

			l = open(t, dir)
			recovered := l.Recovered()
			if recovered == nil || !errors.Is(recovered.Cause, ErrCorrupt) {
				t.Fatalf("recovered: got %v, want ErrCorrupt as the cause", recovered)
			}
			if got, err := os.ReadFile(recovered.Path); err != nil || !bytes.Equal(damaged, got) {
				t.Errorf("the file set aside is not the damaged one (%v)", err)
			}
			if diff := cmp.Diff(Snapshot{Backlogs: map[string]Backlog{}}, l.Snapshot()); diff != "" {
				t.Error(diff)
			}
			commit(t, l, "r", 1, 10)
			if err := deliver(l, "r"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSoundFileIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		l := open(t, dir)
		commit(t, l, "r", 1, 10)
		if got := l.Recovered(); got != nil {
			t.Errorf("recovered: got %v, want nil", got)
		}
		must(t, l.Close())
	}
}

func TestWALIsSetAsideWithItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	must(t, os.WriteFile(path, []byte("garbage"), 0o600))
	must(t, os.WriteFile(path+"-wal", []byte("its WAL"), 0o600))
	recovered := open(t, dir).Recovered()
	if got, err := os.ReadFile(recovered.Path + "-wal"); string(got) != "its WAL" {
		t.Errorf("got %q, %v, want the WAL beside %s", got, err, recovered.Path)
	}
}

func TestOnlyTheNewestDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	clock := testingclock.NewFakePassiveClock(day)
	var want []string
	for range maxSetAside + 2 {
		must(t, os.WriteFile(filepath.Join(dir, FileName), []byte("garbage"), 0o600))
		l, err := Open(context.Background(), dir, WithClock(clock))
		must(t, err)
		want = append(want, l.Recovered().Path)
		must(t, l.Close())
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if diff := cmp.Diff(want[2:], asides(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// fill commits until there is no space, and checks that what failed left no trace.
func fill(t *testing.T, l *Store) {
	t.Helper()
	for {
		before := l.Snapshot()
		from := int(before.Position) + 1
		err := l.Commit(context.Background(), Batch{Position: before.Position + 10, Entries: entries("r", from, 10)})
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		if diff := cmp.Diff(before, l.Snapshot()); diff != "" {
			t.Error(diff)
		}
		if got := pending(t, l, "r"); int64(len(got)) != before.Backlogs["r"].Entries {
			t.Errorf("got %d pending, want %d", len(got), before.Backlogs["r"].Entries)
		}
		return
	}
}

func TestFullLedgerLosesNothingAndWorksAgain(t *testing.T) {
	l := open(t, t.TempDir(), WithMaxPages(100))
	fill(t, l)
	_, err := l.Acknowledge(context.Background(), freeze(t, l, "r", 20))
	must(t, err)
	commit(t, l, "r", int(l.State().Position)+1, 10)
}

// What is only to be looked up must not keep what is to be sent from being stored.
func TestWhatIsKeptOfDigestsGivesWay(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, WithMaxPages(200))
	fill(t, l)
	n := len(pending(t, l, "r"))
	_, err := l.Acknowledge(context.Background(), freeze(t, l, "r", n))
	must(t, err)
	kept := len(lookAt(t, dir, "r", 0).Digested)
	for range n / 10 {
		commit(t, l, "r", int(l.State().Position)+1, 10)
	}
	if left := len(lookAt(t, dir, "r", 0).Digested); kept == 0 || left >= kept {
		t.Errorf("%d of %d are kept in a full file", left, kept)
	}
}

func TestFullDiskLosesNothingAndWorksAgain(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	ballast := filepath.Join(mount, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 512<<10), 0o600))

	l := open(t, filepath.Join(mount, "data"))
	fill(t, l)
	must(t, os.Remove(ballast))
	want := l.State().Position + 10
	commit(t, l, "r", int(want)-9, 10)
	must(t, l.Close())
	l = open(t, filepath.Join(mount, "data"))
	if got := l.State().Position; got != want || l.Recovered() != nil {
		t.Errorf("after opening again: got position %d, recovered %v, want %d", got, l.Recovered(), want)
	}
	must(t, l.Close())
}

func TestFileGivesPagesBack(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 10*chunk)
	must(t, l.Close())
	large := size(t, dir)

	l = open(t, dir)
	_, err := l.DropReceiver(ctx, "r")
	must(t, err)
	must(t, l.Close())
	if small := size(t, dir); small > large/2 {
		t.Errorf("got %d bytes of %d before, want less than half", small, large)
	}
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, FileName))
	must(t, err)
	return info.Size()
}

// TestNoQueryReadsMoreThanItReturns holds the cost of an operation to what it
// touches, however much else is in the ledger: every query finds a receiver's
// entries through an index, in the order that it wants them.
func TestNoQueryReadsMoreThanItReturns(t *testing.T) {
	const inOrderOfAge = "SEARCH entry USING COVERING INDEX entry_by_age (receiver=? AND id"
	tests := map[string]struct {
		query string
		want  string
	}{
		"pending":        {selectPending, "SEARCH entry USING INDEX entry_by_age (receiver=? AND id>?)"},
		"old":            {selectOld, inOrderOfAge},
		"freezable":      {selectPreparable, inOrderOfAge},
		"nth by id":      {byID.nth(), inOrderOfAge},
		"nth unfrozen":   {unprepared.nth(), inOrderOfAge},
		"nth position":   {byPosition.nth(), "SEARCH entry USING COVERING INDEX entry_by_position (receiver=? AND position<?)"},
		"by id":          {deleteEntries(byID), "SEARCH entry USING INDEX entry_by_age (receiver=? AND id<?)"},
		"unfrozen":       {deleteEntries(unprepared), "SEARCH entry USING COVERING INDEX entry_by_age (receiver=? AND id>? AND id<?)"},
		"by position":    {deleteEntries(byPosition), "SEARCH entry USING INDEX entry_by_position (receiver=? AND position<?)"},
		"tally":          {selectAlarmCounts(byID), "SEARCH entry USING INDEX entry_by_age (receiver=? AND id<?)"},
		"lowest":         {selectLowest, "SEARCH entry USING COVERING INDEX entry_by_position (receiver=?)"},
		"attempt":        {selectAttempt, "SEARCH attempt USING INDEX sqlite_autoindex_attempt_1 (receiver=?)"},
		"count of Event": {deleteCount, "SEARCH event_count USING PRIMARY KEY (uid=?)"},
		"group":          {selectGroup, "SEARCH grp USING PRIMARY KEY (receiver=? AND id=?)"},
		"old groups":     {selectOldGroups, "SEARCH held USING INDEX held_by_group (receiver=? AND grp=?"},
		"next due":       {selectNextDue, "SEARCH held USING INDEX held_by_due (due>?)"},
		"parts":          {selectParts, "SEARCH held USING INDEX held_by_group (receiver=? AND grp=?"},
		"parts released": {updateParts, "SEARCH held USING INDEX held_by_group (receiver=? AND grp=? AND due=?)"},
		"known":          {selectGroupExists, "SEARCH grp USING COVERING INDEX grp_by_id (id=?)"},
		"reference":      {selectReference, "SEARCH grp USING PRIMARY KEY (receiver=? AND id=?)"},
		"parts by id":    {deleteParts(byID), "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"window":         {selectWindow, "SEARCH window USING PRIMARY KEY (id=?)"},
		"digest's floor": {selectDigestedFloor, inOrderOfAge},
		"digest's":       {selectDigestedEntries, "SEARCH entry USING INDEX entry_by_age (receiver=? AND id>? AND id<?)"},
		"digested":       {deleteDigestedOf, "SEARCH digested USING COVERING INDEX digested_by_receiver (receiver=? AND id<?)"},
		"old windows":    {deleteOldWindows, "SEARCH window USING COVERING INDEX window_by_end (until<?)"},
	}
	l := open(t, t.TempDir())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := explain(t, l, tc.query)
			if !strings.Contains(plan, tc.want) {
				t.Errorf("got\n%s\nwant %s", plan, tc.want)
			}
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "ORDER BY") {
				t.Errorf("it scans or sorts:\n%s", plan)
			}
		})
	}
}

func explain(t *testing.T, l *Store, query string) string {
	t.Helper()
	var plan strings.Builder
	parameters := make([]any, 1+strings.Count(query, "?2")+strings.Count(query, "?3")+strings.Count(query, "?4"))
	rows, err := l.readers.QueryContext(context.Background(), `EXPLAIN QUERY PLAN `+query, parameters...)
	must(t, each(rows, err, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan.WriteString(detail + "\n")
		return err
	}))
	return plan.String()
}
