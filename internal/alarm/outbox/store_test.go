package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

var day = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// payload has the size of a usual message.
var payload = bytes.Repeat([]byte("0123456789abcdef"), 50)

func open(t testing.TB, dir string, opts ...Option) *Store {
	t.Helper()
	l, err := Open(context.Background(), dir, opts...)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// entries returns n entries of a receiver, at one position after another.
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

// commit commits n entries of a receiver that end at the batch's position.
func commit(t testing.TB, l *Store, receiver string, from, n int) {
	t.Helper()
	batch := Batch{Position: uint64(from + n - 1), Entries: entries(receiver, from, n)}
	must(t, l.Commit(context.Background(), batch))
}

// freeze freezes the oldest n pending entries of a receiver.
func freeze(t testing.TB, l *Store, receiver string, n int) *Attempt {
	t.Helper()
	pending, err := l.Pending(context.Background(), receiver, 0, n)
	must(t, err)
	a, err := l.Prepare(context.Background(), receiver, pending[len(pending)-1].ID, "key", []byte("body"))
	must(t, err)
	return a
}

// pending returns the positions of what is pending for a receiver.
func pending(t testing.TB, l *Store, receiver string) []uint64 {
	t.Helper()
	entries, err := l.Pending(context.Background(), receiver, 0, 10_000)
	must(t, err)
	positions := []uint64{}
	for _, e := range entries {
		positions = append(positions, e.Position)
	}
	return positions
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data?dir=%23#")
	commit(t, open(t, dir), "r", 1, 1)
	want := map[string]fs.FileMode{
		".": fs.ModeDir | 0o700, "lock": 0o600, FileName: 0o600, FileName + "-wal": 0o600, FileName + "-shm": 0o600,
	}
	got := map[string]fs.FileMode{}
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		name, err := filepath.Rel(dir, path)
		got[name] = info.Mode()
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecondLedgerOnADirectoryIsRefused(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	first := open(t, dir)
	if _, err := Open(ctx, dir); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	commit(t, first, "r", 1, 1)
	must(t, first.Close())
	open(t, dir)
}

func TestClosedLedgerSaysSo(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Close())
	calls := map[string]func() error{
		"write":        func() error { return l.Commit(ctx, Batch{}) },
		"read":         func() error { return second(l.Pending(ctx, "r", 0, 1)) },
		"read one":     func() error { return second(l.Prepared(ctx, "r")) },
		"read counts":  func() error { return l.EachCount(ctx, nil) },
		"drop":         func() error { return second(l.DropReceiver(ctx, "r")) },
		"lazily write": func() error { return second(l.Prepare(ctx, "r", 1, "", nil)) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := call(); !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
}

const (
	// victimEnv holds the data directory of a process that is to be killed.
	victimEnv = "LEDGER_TEST_VICTIM"
	// killed is how many processes are.
	killed = 20
	// stretch is how many entries a victim commits at a time: a digest of two
	// of them is settled in more than one transaction.
	stretch = 700
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		fmt.Fprintln(os.Stderr, victim(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim commits and delivers until it is killed, and says what was acknowledged.
func victim(dir string) error {
	ctx := context.Background()
	l, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error {
		for {
			from := int(l.State().Position) + 1
			end := from + stretch - 1
			batch := Batch{
				Position: uint64(end), Entries: entries("r", from, stretch),
				Counts: []EventCount{{UID: plainUID, Count: int64(end)}},
			}
			if err := l.Commit(ctx, batch); err != nil {
				return err
			}
			fmt.Println("committed", end)
		}
	})
	both.Go(func() error {
		for {
			if err := victimDelivers(ctx, l); err != nil {
				return err
			}
		}
	})
	return both.Wait()
}

func victimDelivers(ctx context.Context, l *Store) error {
	a, err := l.Prepared(ctx, "r")
	if a == nil && err == nil {
		last := int64(l.State().Position) // IDs equal positions: nothing was ever refused
		a, err = l.Prepare(ctx, "r", last, fmt.Sprint("up to ", last), []byte("body"))
	}
	if errors.Is(err, ErrNothingPending) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("frozen", a.Last)
	if _, err := l.Acknowledge(ctx, a); err != nil {
		return err
	}
	fmt.Println("settled", a.Last)
	return nil
}

func TestWhatWasAcknowledgedSurvivesSIGKILL(t *testing.T) {
	dir, acknowledged := t.TempDir(), map[string]uint64{}
	for range killed {
		killVictim(t, dir, acknowledged)
		l := open(t, dir)
		checkSurvivor(t, l, acknowledged)
		must(t, l.Close())
	}
	t.Logf("killed %d times; acknowledged in the end: %v", killed, acknowledged)
}

// killVictim starts a victim, kills it at a random moment after its first
// acknowledgement, whatever it is doing then, and notes the last of each sort.
func killVictim(t *testing.T, dir string, acknowledged map[string]uint64) {
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
		acknowledged[what] = position
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Fatalf("the victim ended by itself: %v", err)
	}
}

// checkSurvivor checks that what is there is what was acknowledged or more, and
// that of no transaction a part is missing.
func checkSurvivor(t *testing.T, l *Store, acknowledged map[string]uint64) {
	t.Helper()
	if recovered := l.Recovered(); recovered != nil {
		t.Fatalf("the file was damaged: %v", recovered.Cause)
	}
	position := l.State().Position
	if position < acknowledged["committed"] || position%stretch != 0 {
		t.Fatalf("position: got %d, want at least %d and whole batches", position, acknowledged["committed"])
	}
	if got := allCounts(t, l)[plainUID]; got != int64(position) {
		t.Errorf("count: got %d, want that of the position, %d", got, position)
	}
	settled := position - uint64(l.Backlog("r").Entries)
	if settled < acknowledged["settled"] || settled%stretch != 0 {
		t.Fatalf("settled: got up to %d, want at least %d and whole messages", settled, acknowledged["settled"])
	}
	first := settled + 1
	if a, err := l.Prepared(context.Background(), "r"); err != nil || (a == nil && acknowledged["frozen"] > settled) {
		t.Fatalf("frozen: got %v, %v, want one up to %d", a, err, acknowledged["frozen"])
	} else if a != nil {
		if a.Key != fmt.Sprint("up to ", a.Last) || string(a.Body) != "body" || uint64(a.Entries) != uint64(a.Last)-settled {
			t.Errorf("frozen: got %+v after %d", a, settled)
		}
		first = uint64(a.Last) + 1
	}
	for i, got := range pending(t, l, "r") {
		if want := first + uint64(i); got != want {
			t.Fatalf("pending: got position %d, want %d", got, want)
		}
	}
}
