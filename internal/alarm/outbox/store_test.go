package outbox

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"
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
