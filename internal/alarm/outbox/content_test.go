package outbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// occurrence returns the entries of an occurrence for n receivers.
func occurrence(position, receivers int, payload []byte, member *Membership) []Entry {
	all := make([]Entry, 0, receivers)
	for r := range receivers {
		e := entries(fmt.Sprint("r", r), position, 1)[0]
		e.Payload, e.Tenant, e.Member = payload, "Alarm/shop/", member
		all = append(all, e)
	}
	return all
}

// integers returns the first row of a query.
func integers(t *testing.T, s *Store, query string, n int) []int64 {
	t.Helper()
	row := make([]int64, n)
	into := make([]any, n)
	for i := range row {
		into[i] = &row[i]
	}
	must(t, s.readers.QueryRowContext(context.Background(), query).Scan(into...))
	return row
}

func TestAPayloadIsStoredOnce(t *testing.T) {
	for name, member := range map[string]*Membership{
		"alone":    nil,
		"in group": {Group: "g", By: []byte("by"), Rule: group.Rule{Wait: 5 * time.Second}, Event: group.Event{At: day}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s := context.Background(), open(t, t.TempDir())
			large := bytes.Repeat([]byte("x"), 50_000)
			must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 2}, Entries: slices.Concat(occurrence(1, 16, large, member), occurrence(2, 16, large, member))}))
			must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 2}, Entries: occurrence(2, 17, large, member)})) // again, with one more receiver
			if diff := cmp.Diff([]int64{3, 33, 150_000}, integers(t, s, `SELECT count(*), sum(refs), sum(length(data)) FROM content`, 3)); diff != "" {
				t.Errorf("contents, their uses, bytes: %s", diff)
			}
			_, err := s.Release(ctx)
			must(t, err)
			if diff := cmp.Diff([]int64{3, 33, 150_000}, integers(t, s, `SELECT count(*), sum(refs), sum(length(data)) FROM content`, 3)); diff != "" {
				t.Errorf("after the messages of groups were made: %s", diff)
			}
		})
	}
}

// Whatever removes entries, the contents that no entry uses are removed with them, and no
// bytes stay charged.
func TestRemovedEntriesFreeTheirBytes(t *testing.T) {
	ctx := context.Background()
	grouped := &Membership{Group: "g", Rule: group.Rule{Wait: 5 * time.Second}, Event: group.Event{At: day}}
	for name, remove := range map[string]func(t *testing.T, s *Store, receiver string){
		"acknowledged": func(t *testing.T, s *Store, receiver string) {
			for s.Backlog(receiver).Entries > 0 {
				must(t, deliver(s, receiver))
			}
		},
		"receiver dropped": func(t *testing.T, s *Store, receiver string) {
			_, err := s.DropReceiver(ctx, receiver)
			must(t, err)
		},
		"expired": func(t *testing.T, s *Store, receiver string) {
			_, err := s.DropOlderThan(ctx, receiver, MainLane, day.Add(time.Hour))
			must(t, err)
		},
		"delivered by another leader": func(t *testing.T, s *Store, receiver string) {
			must(t, s.drop(ctx, offsets{"": {Behind: map[string]uint64{receiver: 9}}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 2}, Entries: slices.Concat(occurrence(1, 2, payload, nil), occurrence(2, 2, payload, grouped))}))
			_, err := s.Release(ctx) // the real clock is after the due time
			must(t, err)
			size := occurrence(1, 1, payload, nil)[0].Bytes() + occurrence(2, 1, payload, grouped)[0].Bytes()
			if used := s.used(ledger.Messages, "Alarm/shop/"); used != 2*size {
				t.Errorf("%d bytes are used, want %d", used, 2*size)
			}
			remove(t, s, "r0")
			if used := s.used(ledger.Messages, "Alarm/shop/"); used != size {
				t.Errorf("%d bytes are used by the other receiver, want %d", used, size)
			}
			remove(t, s, "r1")
			must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 3}}))
			assertNothingWaits(t, s)
		})
	}
}

func TestAFullOutboxStillSendsAndAcknowledges(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	const limit = 4 << 20
	s := open(t, dir, WithMaxBytes(limit))
	const victim = "AlarmReceiver/victim/works"
	commit(t, s, victim, 1, 3)
	for r := range 1_000_000 {
		position := int(s.State().Position) + 1
		err := s.Commit(ctx, Change{Events: &EventStep{Position: uint64(position)}, Entries: occurrence(position, 16, bytes.Repeat(payload, 10), nil)})
		if errors.Is(err, file.ErrFull) {
			break
		}
		must(t, err)
		if r == 999_999 {
			t.Fatal("the outbox is never full")
		}
	}
	if _, err := s.Release(ctx); err != nil {
		t.Errorf("nothing is due: %v", err)
	}
	for range 3 { // the bodies need space, too
		pending, err := s.Pending(ctx, Query{Receiver: victim, Lane: MainLane, Limit: 1})
		must(t, err)
		a, err := s.Prepare(ctx, victim, MainLane, []int64{pending[0].ID}, pending[0].Key, bytes.Repeat([]byte("b"), 60_000))
		must(t, err)
		for r := range 2 {
			_ = prepare(t, s, fmt.Sprint("r", r), 1)
			prepared, err := s.Prepared(ctx, fmt.Sprint("r", r), MainLane)
			must(t, err)
			_, err = s.Finish(ctx, prepared, Outcome{})
			must(t, err)
		}
		_, err = s.Finish(ctx, a, Outcome{})
		must(t, err)
	}
	must(t, s.Close())
	info, err := os.Stat(filepath.Join(dir, file.Name))
	must(t, err)
	if info.Size() > limit {
		t.Errorf("the file has %d bytes, want at most %d", info.Size(), limit)
	}
}

// assertNothingWaits fails if the outbox contains a message, or counts bytes of one.
func assertNothingWaits(t *testing.T, s *Store) {
	t.Helper()
	for _, table := range []string{"entry", "held", "content", "attempt"} {
		if n := integers(t, s, `SELECT count(*) FROM `+table, 1)[0]; n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if used := s.memory.space.Sum(ledger.Messages); used != 0 {
		t.Errorf("%d bytes are counted", used)
	}
}

func TestAFailedCommitUsesNoSpace(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	broken := Change{Events: &EventStep{Position: 1, Counts: []alarm.EventCount{{UID: "e", Position: math.MaxUint64}}}, Entries: occurrence(1, 2, payload, nil)}
	if err := s.Commit(ctx, broken); err == nil {
		t.Fatal("the batch was committed, want an error")
	}
	assertNothingWaits(t, s)
}

// All Events of a cluster have counts. A tenant can create many Events.
func TestCountsThatFillTheFileAreForgotten(t *testing.T) {
	skipIfShort(t)
	ctx, dir := context.Background(), t.TempDir()
	const limit = 4 << 20
	s := open(t, dir, WithMaxBytes(limit))
	for s.State().CountsKnown || s.State().Position == 0 {
		position := s.State().Position + 1
		must(t, s.Commit(ctx, Change{Events: &EventStep{Position: position, Counts: counts(5_000), CountsKnown: true}, Entries: entries("r", int(position), 1)}))
		if position > 1_000 {
			t.Fatal("the file is never full")
		}
	}
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 2_000, Counts: counts(1), CountsKnown: true}}))
	if s.State().CountsKnown {
		t.Error("the counts are incomplete, want them not to be known")
	}
	must(t, deliver(s, "r"))
	must(t, s.Close())
	s = open(t, dir, WithMaxBytes(limit))
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 2_001, Counts: counts(2), CountsKnown: true}}))
	if !s.State().CountsKnown {
		t.Error("a process that has read all counts cannot store that they are known")
	}
}

// Names of receivers have up to 253 characters, and are in several indexes.
func TestBytesAreNotUnderestimated(t *testing.T) {
	skipIfShort(t)
	ctx := context.Background()
	for _, length := range []int{10, 250} {
		for _, inGroups := range []bool{false, true} {
			t.Run(fmt.Sprintf("names of %d, groups %t", length, inGroups), func(t *testing.T) {
				s := open(t, t.TempDir(), WithMaxBytes(256<<20))
				before, err := s.Used(ctx)
				must(t, err)
				for position := range 300 {
					var member *Membership
					if inGroups {
						member = &Membership{Group: fmt.Sprintf("%032d", position), By: []byte("by"), Rule: group.Rule{Wait: time.Second}, Event: group.Event{At: day}}
					}
					all := occurrence(position+1, 16, []byte("payload"), member)
					for i := range all {
						all[i].Receiver = "AlarmReceiver/" + strings.Repeat("n", length) + "/" + strings.Repeat("r", length) + all[i].Receiver
						all[i].Alarm = "Alarm/" + strings.Repeat("n", length) + "/" + strings.Repeat("a", length)
						all[i].Key = fmt.Sprintf("%032d", position)
					}
					must(t, s.Commit(ctx, Change{Events: &EventStep{Position: uint64(position + 1)}, Entries: all}))
				}
				_, err = s.Release(ctx)
				must(t, err)
				used, err := s.Used(ctx)
				must(t, err)
				counted := s.memory.space.Sum(ledger.Messages)
				if used -= before; used > counted || used < counted/4 {
					t.Errorf("%d bytes of the file are used, and %d are counted", used, counted)
				}
			})
		}
	}
}

func TestBytesOfGroupsAndWindowsAreNotUnderestimated(t *testing.T) {
	skipIfShort(t)
	ctx, newest := context.Background(), day
	for name, tc := range map[string]struct{ length, reference, state, message int }{
		"short":                     {length: 10, state: 20},
		"long names":                {length: 250, state: 20},
		"a reference":               {length: 250, reference: 60, state: 500},
		"a long reference or state": {length: 60, reference: 1024, state: 4000},
		"a short message to repeat": {length: 10, state: 20, message: 600},
		"a message to repeat":       {length: 250, state: 20, message: 2100},
		"a long message to repeat":  {length: 60, state: 20, message: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, WithMaxBytes(256<<20))
			before, err := s.Used(ctx)
			must(t, err)
			alarm, tenant := "Alarm/"+strings.Repeat("n", 60)+"/"+strings.Repeat("a", tc.length), "Alarm/"+strings.Repeat("n", 60)+"/"
			for position := range 60 {
				batch := Change{Events: &EventStep{Position: uint64(position + 1)}, Entries: occurrence(position+1, 8, nil, nil)}
				id := fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(position))))[:32]
				newest = newest.Add(time.Minute)
				for i := range batch.Entries {
					e := &batch.Entries[i]
					e.Receiver = "AlarmReceiver/" + strings.Repeat("n", 60) + "/" + strings.Repeat("r", tc.length) + e.Receiver
					e.Alarm, e.Tenant, e.Member = alarm, tenant, &Membership{Group: id, Event: group.Event{Message: group.Sent, At: newest}}
				}
				batch.Windows = []Window{{ID: id, Alarm: alarm, Tenant: tenant, Until: newest, State: make([]byte, tc.state)}}
				must(t, s.Commit(ctx, batch))
				for i := range batch.Entries {
					receiver, state := batch.Entries[i].Receiver, GroupState{Group: id, Reference: strings.Repeat("m", tc.reference)}
					must(t, s.write(ctx, "store a reference", func(ctx context.Context, tx *tx) error { return tx.putReference(ctx, receiver, state) }))
					must(t, s.write(ctx, "store a message", func(ctx context.Context, tx *tx) error {
						return tx.remember(ctx, receiver, id, make([]byte, tc.message), day)
					}))
				}
			}
			used, err := s.Used(ctx)
			must(t, err)
			counted := s.used(ledger.Groups, tenant)
			if used -= before; used > counted || used < counted/4 {
				t.Errorf("%d bytes of the file are used, and %d are counted", used, counted)
			}
			must(t, s.Close())
			s = open(t, dir, WithMaxBytes(256<<20))
			if again := s.used(ledger.Groups, tenant); again != counted {
				t.Errorf("after a restart %d bytes are counted, want %d", again, counted)
			}
			must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 1_000, Oldest: newest.Add(2 * GroupLife)}}))
			must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 1_000, Oldest: newest.Add(2 * GroupLife)}}))
			if left := s.memory.space.Sum(ledger.Groups); left != 0 {
				t.Errorf("%d bytes are counted after all ended", left)
			}
		})
	}
}

func TestWhatIsNotAMessageHasSpaceOfItsOwn(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir(), WithMaxBytes(64<<20))
	for position := 1; ; position++ {
		e := entries("r", position, 1)
		e[0].Payload, e[0].Tenant = make([]byte, 50_000), fmt.Sprint("Alarm/", position, "/")
		space, err := s.Space(ctx)
		must(t, err)
		if !space.FitsMessage(e[0].Tenant, "r", e[0].Bytes()) {
			break
		}
		must(t, s.Commit(ctx, Change{Events: &EventStep{Position: uint64(position)}, Entries: e}))
	}
	if used, err := s.Used(ctx); err != nil || used > 45<<20 {
		t.Errorf("messages use %d bytes of 64 MiB, %v", used, err)
	}
}
