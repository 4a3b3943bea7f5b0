package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

// asides lists the damaged files in dir.
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
			s := open(t, dir)
			commit(t, s, "r", 1, 500)
			must(t, s.Close())
			path := filepath.Join(dir, FileName)
			file, err := os.ReadFile(path)
			must(t, err)
			damaged := damage(file)
			must(t, os.WriteFile(path, damaged, 0o600))

			s = open(t, dir)
			recovered := s.Recovered()
			if recovered == nil || !errors.Is(recovered.Cause, ErrCorrupt) {
				t.Fatalf("recovered: got %v, want ErrCorrupt as the cause", recovered)
			}
			if got, err := os.ReadFile(recovered.Path); err != nil || !bytes.Equal(damaged, got) {
				t.Errorf("the file set aside is not the damaged one (%v)", err)
			}
			if diff := cmp.Diff(Snapshot{Backlogs: map[string]Backlog{}}, s.Snapshot()); diff != "" {
				t.Error(diff)
			}
			commit(t, s, "r", 1, 10)
			if err := deliver(s, "r"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSoundFileIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s := open(t, dir)
		commit(t, s, "r", 1, 10)
		if got := s.Recovered(); got != nil {
			t.Errorf("recovered: got %v, want nil", got)
		}
		must(t, s.Close())
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
		s, err := Open(context.Background(), dir, WithClock(clock))
		must(t, err)
		want = append(want, s.Recovered().Path)
		must(t, s.Close())
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if diff := cmp.Diff(want[2:], asides(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// fill commits until there is no space. It checks that the failed commit changed nothing.
func fill(t *testing.T, s *Store) {
	t.Helper()
	for {
		before := s.Snapshot()
		from := int(before.Position) + 1
		err := s.Commit(context.Background(), Change{Events: &EventStep{Position: before.Position + 10}, Entries: entries("r", from, 10)})
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
			t.Error(diff)
		}
		if got := pending(t, s, "r"); int64(len(got)) != before.Backlogs["r"].Entries {
			t.Errorf("got %d pending, want %d", len(got), before.Backlogs["r"].Entries)
		}
		return
	}
}

func TestAFullFileLosesNothingAndWorksAgain(t *testing.T) {
	s := open(t, t.TempDir(), WithMaxBytes(100*pageSize))
	fill(t, s)
	_, err := s.Finish(context.Background(), prepare(t, s, "r", 20), Outcome{})
	must(t, err)
	commit(t, s, "r", int(s.State().Position)+1, 10)
}

// Entries of past digests must not take the space of entries that wait.
func TestAFullFileDropsPastDigestsFirst(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, WithMaxBytes(210*pageSize))
	fill(t, s)
	n := len(pending(t, s, "r"))
	_, err := s.Finish(context.Background(), prepare(t, s, "r", min(n/2, MaxEntries)), Outcome{KeepEntries: true})
	must(t, err)
	kept := len(inspectReceiver(t, dir, "r", 0).Digested)
	for range n / 25 {
		commit(t, s, "r", int(s.State().Position)+1, 10)
	}
	if left := len(inspectReceiver(t, dir, "r", 0).Digested); kept == 0 || left >= kept {
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

	s := open(t, filepath.Join(mount, "data"))
	fill(t, s)
	must(t, os.Remove(ballast))
	want := s.State().Position + 10
	commit(t, s, "r", int(want)-9, 10)
	must(t, s.Close())
	s = open(t, filepath.Join(mount, "data"))
	if got := s.State().Position; got != want || s.Recovered() != nil {
		t.Errorf("after opening again: got position %d, recovered %v, want %d", got, s.Recovered(), want)
	}
	must(t, s.Close())
}

func TestTheFileShrinksAfterRemovals(t *testing.T) {
	skipIfShort(t)
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 10*chunk)
	must(t, s.Close())
	large := size(t, dir)

	s = open(t, dir)
	_, err := s.DropReceiver(ctx, "r")
	must(t, err)
	must(t, s.Close())
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

// The cost of an operation must not depend on how much else the outbox contains. Every
// query uses an index that returns the entries of a receiver in the wanted order.
func TestNoQueryReadsMoreThanItReturns(t *testing.T) {
	const inOrderOfAge = "SEARCH entry USING COVERING INDEX entry_by_age (receiver=? AND id"
	const byID = "SEARCH entry USING INTEGER PRIMARY KEY (rowid=?)"
	tests := map[string]struct {
		query string
		want  string
	}{
		"pending":        {selectPending(MainLane), "SEARCH entry USING INDEX entry_by_age (receiver=? AND id>?)"},
		"pending aside":  {selectPending(5), "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=? AND id>?)"},
		"unprepared":     {selectUnprepared(MainLane), "SEARCH entry USING INDEX entry_by_age (receiver=?)"},
		"old aside":      {selectUnprepared(5), "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=?"},
		"head":           {selectHead(MainLane), "SEARCH entry USING INDEX entry_by_age (receiver=?)"},
		"head aside":     {selectHead(5), "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=?"},
		"preparable":     {selectPreparable(MainLane), byID},
		"by ID":          {selectByID, byID},
		"delete":         {deleteEntries, byID},
		"broken":         {`DELETE FROM attempt WHERE ` + deleteBroken, "SEARCH attempt USING INDEX sqlite_autoindex_attempt_1 (receiver=?)"},
		"delivered":      {selectDelivered, "SEARCH entry USING COVERING INDEX entry_by_position (receiver=? AND position>? AND position<?)"},
		"of a receiver":  {selectOfReceiver, "SEARCH entry USING COVERING INDEX entry_by_key (receiver=?)"},
		"lowest":         {selectLowest, "SEARCH entry USING COVERING INDEX entry_by_position (receiver=?)"},
		"attempt":        {selectAttempt, "SEARCH attempt USING INDEX sqlite_autoindex_attempt_1 (receiver=? AND lane=?)"},
		"lanes":          {selectSideLanes, "SEARCH entry USING COVERING INDEX entry_aside (receiver=?)"},
		"behind":         {selectBehind, inOrderOfAge},
		"set aside":      {updateAside + `(` + misplaced + `)`, "SEARCH entry USING INTEGER PRIMARY KEY (rowid=?)"},
		"misplaced":      {misplaced, "SEARCH entry USING COVERING INDEX entry_by_age (receiver=?)"},
		"of a lane":      {misplaced, "SEARCH other EXISTS USING COVERING INDEX entry_aside (receiver=? AND subject=?)"},
		"rejoin":         {updateRejoin, "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=?)"},
		"event count":    {deleteCount, "SEARCH event_count USING PRIMARY KEY (uid=?)"},
		"group":          {selectGroup, "SEARCH open_group USING PRIMARY KEY (receiver=? AND id=?)"},
		"old groups":     {selectOldGroups, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=?"},
		"with a thread":  {selectOldGroups, "SEARCH held USING INDEX held_of_message (receiver=? AND group_id=?)"},
		"threads":        {selectThreads, "SEARCH open_group USING PRIMARY KEY (receiver=?)"},
		"due":            {selectDue, "SEARCH parked USING COVERING INDEX parked_by_tenant (tenant=?)"},
		"next due":       {selectNextDue, "SEARCH held USING INDEX held_by_due (release_at>?)"},
		"parts":          {selectParts, "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"has changes":    {selectChange, "SEARCH held USING INDEX held_change_by_entry (entry=?)"},
		"lowest held":    {`SELECT min(position) FROM held WHERE receiver = ?1 AND stream = ''`, "SEARCH held USING COVERING INDEX held_by_position (receiver=?)"},
		"some changes":   {selectNewest("awaited"), "SEARCH awaited USING COVERING INDEX awaited_of_stream (receiver=?)"},
		"baseline data":  {selectBaselineData, "SEARCH baseline USING INDEX sqlite_autoindex_baseline_1 (stream=? AND uid=?)"},
		"baseline bytes": {selectBaselineBytes, "SEARCH baseline USING INDEX sqlite_autoindex_baseline_1 (stream=? AND uid=?)"},
		"of a stream":    {deleteBaselines, "SEARCH baseline USING COVERING INDEX sqlite_autoindex_baseline_1 (stream=?)"},
		"group of parts": {selectGroupOf, "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"due parts":      {selectDueParts, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due>? AND due<?)"},
		"due groups":     {selectDue, "SEARCH held USING INDEX held_by_due (release_at<?)"},
		"due slots":      {selectDueSlots, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due<?)"},
		"held back":      {updateHoldBack, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due<?)"},
		"hastened":       {updateHastened, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due>?)"},
		"parts released": {updateParts, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due>? AND due<?)"},
		"group exists":   {selectOpenGroup, "SEARCH open_group USING INDEX group_by_id (id=?)"},
		"repeated":       {selectRepeated, "SEARCH repeated USING INDEX repeated_by_time (receiver=? AND sent>? AND sent<?)"},
		"ahead":          {selectAhead, "SEARCH repeated USING COVERING INDEX repeated_by_time (receiver=? AND sent>?)"},
		"reference":      {selectReference, "SEARCH open_group USING PRIMARY KEY (receiver=? AND id=?)"},
		"parts by id":    {`DELETE FROM held WHERE ` + partsOf, "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"window":         {selectWindow, "SEARCH window USING PRIMARY KEY (id=?)"},
		"of a digest":    {selectDigestedEntries, byID},
		"digested":       {deleteDigestedOf, "SEARCH digested USING COVERING INDEX digested_by_receiver (receiver=? AND id<?)"},
		"old windows":    {deleteOldWindows, "SEARCH window USING COVERING INDEX window_by_end (until<?)"},
	}
	s := open(t, t.TempDir())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := strings.ReplaceAll(explain(t, s, tc.query), "SCAN json_each", "the list")
			if !strings.Contains(plan, tc.want) {
				t.Errorf("got\n%s\nwant %s", plan, tc.want)
			}
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "ORDER BY") {
				t.Errorf("it scans or sorts:\n%s", plan)
			}
		})
	}
}

func explain(t *testing.T, s *Store, query string) string {
	t.Helper()
	var plan strings.Builder
	parameters := make([]any, 1+strings.Count(query, "?2")+strings.Count(query, "?3")+strings.Count(query, "?4")+strings.Count(query, "?5"))
	rows, err := s.readers.QueryContext(context.Background(), `EXPLAIN QUERY PLAN `+query, parameters...)
	must(t, each(rows, err, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan.WriteString(detail + "\n")
		return err
	}))
	return plan.String()
}
