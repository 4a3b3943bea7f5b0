package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

var day = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// payload has the size of a usual message.
var payload = bytes.Repeat([]byte("0123456789abcdef"), 50)

func open(t testing.TB, dir string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir, append([]Option{WithComposer(describe)}, opts...)...)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// entries returns n entries of a receiver at consecutive positions.
func entries(receiver string, from, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		position := from + i
		entries[i] = Entry{
			Receiver: receiver, Alarm: "Alarm/shop/rollouts", Key: strconv.Itoa(position),
			Position: uint64(position), Count: 1, CreatedAt: day, Payload: payload,
		}
	}
	return entries
}

// commit commits n entries of a receiver. The last of them is at the position of the
// batch.
func commit(t testing.TB, s *Store, receiver string, from, n int) {
	t.Helper()
	batch := Change{Events: &EventStep{Position: uint64(from + n - 1)}, Entries: entries(receiver, from, n)}
	must(t, s.Commit(context.Background(), batch))
}

// prepare prepares a message of the oldest n pending entries of a receiver.
func prepare(t testing.TB, s *Store, receiver string, n int) *Attempt {
	t.Helper()
	pending, err := s.Pending(context.Background(), Query{Receiver: receiver, Lane: MainLane, Limit: n})
	must(t, err)
	a, err := s.Prepare(context.Background(), receiver, MainLane, idsOf(pending), "key", []byte("body"))
	must(t, err)
	return a
}

func idsOf(entries []Entry) (ids []int64) {
	for i := range entries {
		ids = append(ids, entries[i].ID)
	}
	return ids
}

// used returns the space that a tenant uses.
func (s *Store) used(c ledger.Class, tenant string) int64 { return s.memory.space.Used(c, tenant) }

// Waiting returns the number of entries of a receiver plus its occurrences in groups and
// in messages of groups.
func (s *Store) Waiting(receiver string) int64 {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.backlogs[receiver].Entries + s.memory.held[receiver]
}

// pending returns the positions of the pending entries of a receiver.
func pending(t testing.TB, s *Store, receiver string) []uint64 {
	t.Helper()
	entries, err := s.Pending(context.Background(), Query{Receiver: receiver, Lane: MainLane, Limit: 10_000})
	must(t, err)
	positions := []uint64{}
	for _, e := range entries {
		positions = append(positions, e.Position)
	}
	return positions
}

// skipIfShort skips a test that needs SQLite for many seconds, and minutes under the race
// detector. Others have the same concurrency.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: it runs without -short")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCallsOfAClosedStoreFail(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Close())
	calls := map[string]func() error{
		"write":    func() error { return s.Commit(ctx, Change{Events: &EventStep{}}) },
		"read":     func() error { return second(s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: 1})) },
		"read one": func() error { return second(s.Prepared(ctx, "r", MainLane)) },
		"read counts": func() (err error) {
			for _, err := range s.EventCounts(ctx) {
				return err
			}
			return nil
		},
		"drop":         func() error { return second(s.DropReceiver(ctx, "r")) },
		"lazily write": func() error { return second(s.Prepare(ctx, "r", MainLane, []int64{1}, "", nil)) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := call(); !errors.Is(err, file.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
}

func TestADamagedOutboxBeginsEmpty(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 500)
	must(t, s.Close())
	path := filepath.Join(dir, file.Name)
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, data[:len(data)/2], 0o600))

	s = open(t, dir)
	if recovered := s.Recovered(); recovered == nil || !errors.Is(recovered.Cause, file.ErrCorrupt) {
		t.Fatalf("recovered: got %v, want ErrCorrupt as the cause", recovered)
	}
	if diff := cmp.Diff(Snapshot{Backlogs: map[string]Backlog{}}, s.Snapshot()); diff != "" {
		t.Error(diff)
	}
	commit(t, s, "r", 1, 10)
	must(t, deliver(s, "r"))
}

func TestConcurrentWritersDeliverEverything(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	var all sync.WaitGroup
	for _, receiver := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for range 20 {
				err := s.Commit(ctx, Change{Events: &EventStep{}, Entries: entries(receiver, 1, 2)})
				if err = errors.Join(err, deliver(s, receiver)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := s.Snapshot().Backlogs; len(got) != 0 {
		t.Errorf("got %v, want everything delivered", got)
	}
}

const (
	// victimEnv contains the data directory of the process to kill.
	victimEnv = "OUTBOX_TEST_VICTIM"
	// killed is the number of processes to kill.
	killed = 20
	// stretch is the number of entries in a commit of the victim. Acknowledging a digest
	// of two commits takes more than one transaction.
	stretch = 700
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		fmt.Fprintln(os.Stderr, victim(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim commits and delivers until it is killed. It prints each call that returned.
func victim(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error {
		for {
			from := int(s.State().Position) + 1
			end := from + stretch - 1
			batch := Change{Events: &EventStep{Position: uint64(end), Counts: []alarm.EventCount{{UID: plainUID, Count: int64(end)}}}, Entries: entries("r", from, stretch)}
			if err := s.Commit(ctx, batch); err != nil {
				return err
			}
			fmt.Println("committed", end)
		}
	})
	both.Go(func() error {
		for {
			if err := victimDelivers(ctx, s); err != nil {
				return err
			}
		}
	})
	return both.Wait()
}

func victimDelivers(ctx context.Context, s *Store) error {
	a, err := s.Prepared(ctx, "r", MainLane)
	if a == nil && err == nil {
		var pending []Entry
		if pending, err = s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: MaxEntries / stretch * stretch}); err != nil || len(pending) == 0 {
			return err
		}
		last := pending[len(pending)-1].Position // IDs equal positions, because no entry was ignored
		a, err = s.Prepare(ctx, "r", MainLane, idsOf(pending), fmt.Sprint("up to ", last), []byte("body"))
	}
	if errors.Is(err, ErrNothingPending) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("prepared", lastOf(a))
	if _, err := s.Finish(ctx, a, Outcome{}); err != nil {
		return err
	}
	fmt.Println("acknowledged", lastOf(a))
	return nil
}

func lastOf(a *Attempt) int64 { return a.Entries[len(a.Entries)-1] }

func TestReturnedWritesSurviveSIGKILL(t *testing.T) {
	dir, returned := t.TempDir(), map[string]uint64{}
	for range killed {
		killVictim(t, dir, returned)
		s := open(t, dir)
		checkSurvivor(t, s, returned)
		must(t, s.Close())
	}
	t.Logf("killed %d times; last calls that returned: %v", killed, returned)
}

// killVictim starts a victim and kills it at a random moment after its first line. It
// records the last position of each kind.
func killVictim(t *testing.T, dir string, returned map[string]uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	for first := true; ; first = false {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if first {
			time.AfterFunc(rand.N(300*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
		var what string
		var position uint64
		if _, err := fmt.Sscanln(line, &what, &position); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		returned[what] = position
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Fatalf("the victim ended by itself: %v", err)
	}
}

// checkSurvivor checks that the file contains at least what the calls that returned
// wrote, and no transaction in part.
func checkSurvivor(t *testing.T, s *Store, returned map[string]uint64) {
	t.Helper()
	if recovered := s.Recovered(); recovered != nil {
		t.Fatalf("the file was damaged: %v", recovered.Cause)
	}
	position := s.State().Position
	if position < returned["committed"] || position%stretch != 0 {
		t.Fatalf("position: got %d, want at least %d and whole batches", position, returned["committed"])
	}
	if got := allCounts(t, s)[plainUID]; got != int64(position) {
		t.Errorf("count: got %d, want that of the position, %d", got, position)
	}
	acknowledgedUpTo := position - uint64(s.Backlog("r").Entries)
	if acknowledgedUpTo < returned["acknowledged"] || acknowledgedUpTo%stretch != 0 {
		t.Fatalf("acknowledged: got up to %d, want at least %d and whole messages", acknowledgedUpTo, returned["acknowledged"])
	}
	first := acknowledgedUpTo + 1
	if a, err := s.Prepared(context.Background(), "r", MainLane); err != nil || (a == nil && returned["prepared"] > acknowledgedUpTo) {
		t.Fatalf("prepared: got %v, %v, want one up to %d", a, err, returned["prepared"])
	} else if a != nil {
		if a.Key != fmt.Sprint("up to ", lastOf(a)) || string(a.Body) != "body" || len(a.Entries) != int(lastOf(a))-int(acknowledgedUpTo) {
			t.Errorf("prepared: got %+v after %d", a, acknowledgedUpTo)
		}
		first = uint64(lastOf(a)) + 1
	}
	for i, got := range pending(t, s, "r") {
		if want := first + uint64(i); got != want {
			t.Fatalf("pending: got position %d, want %d", got, want)
		}
	}
}
