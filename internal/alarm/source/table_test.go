package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"github.com/google/uuid"
)

// numbered returns the n-th of a series of UUIDs that differ in a few bits only.
func numbered(n uint64) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

func contents(t *table) map[uuid.UUID]known { return maps.Collect(t.all()) }

// The table grows and shrinks several times, and contains long runs of full slots.
func TestTheTableIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		table, want, listed := newTable(), map[uuid.UUID]known{}, map[uuid.UUID]bool{}
		for _, phase := range []struct{ steps, set, remove int }{{20_000, 9, 1}, {60_000, 1, 9}, {20_000, 5, 5}} {
			for range phase.steps {
				id := numbered(random.Uint64N(15_000))
				if random.IntN(phase.set+phase.remove) < phase.set {
					k := known{position: random.Uint64(), count: 1 + random.Int32N(1<<31-1)}
					table.set(id, k)
					want[id], listed[id] = k, true
				} else {
					table.remove(id)
					delete(want, id)
				}
				got, ok := table.get(id)
				if k, remembered := want[id]; ok != remembered || got != k {
					t.Fatalf("seed %d: get = %v, %t, want %v, %t", seed, got, ok, k, remembered)
				}
			}
			if !maps.Equal(contents(table), want) || table.len() != len(want) {
				t.Fatalf("seed %d: the table has %d Events, and not the %d that it must have", seed, table.len(), len(want))
			}
			swept := 0
			if err := table.sweep(func(uuid.UUID) error { swept++; return nil }); err != nil {
				t.Fatal(err)
			}
			before := len(want)
			maps.DeleteFunc(want, func(id uuid.UUID, _ known) bool { return !listed[id] })
			if swept != before-len(want) {
				t.Errorf("seed %d: %d Events swept, want %d", seed, swept, before-len(want))
			}
			if !maps.Equal(contents(table), want) {
				t.Fatalf("seed %d: the sweep left %d Events, and not the %d of the list", seed, table.len(), len(want))
			}
			table.unmark()
			clear(listed)
		}
	}
}

func bytesOf(t *table) (n int) {
	for i := range t.parts {
		n += len(t.parts[i].slots) * int(unsafe.Sizeof(slot{}))
	}
	return n
}

// Two million Events need 72 MB, and no more while the table grows.
func TestALiveEventNeedsAFewBytes(t *testing.T) {
	table := newTable()
	most := 0.0
	for n := range uint64(200_000) {
		table.set(numbered(n), known{count: 1})
		if n > 20_000 && n%1000 == 0 {
			most = max(most, float64(bytesOf(table))/float64(n+1))
		}
	}
	if most > 40 {
		t.Errorf("up to %.1f bytes for an Event, want 40 at most", most)
	}
	for n := range uint64(199_000) {
		table.remove(numbered(n))
	}
	if got := bytesOf(table); got > 200_000 {
		t.Errorf("%d bytes for 1,000 Events after 199,000 were deleted, want 200,000 at most", got)
	}
}

// Otherwise, each of its bytes would cost one and a half, because Go then lets the heap grow.
func TestALargeTableIsNotOnTheHeap(t *testing.T) {
	before := heap()
	table := newTable()
	defer table.close()
	for n := range uint64(500_000) {
		table.set(numbered(n), known{count: 1})
	}
	if grown := int64(heap() - before); grown > int64(bytesOf(table)/10) {
		t.Errorf("the heap has grown by %d bytes for a table of %d bytes", grown, bytesOf(table))
	}
}

// Otherwise, each term of a leader would keep the memory of the one before.
func TestAClosedTableNeedsNoMemory(t *testing.T) {
	before := anonymous(t)
	size := 0
	for range 5 {
		table := newTable()
		for n := range uint64(500_000) {
			table.set(numbered(n), known{count: 1})
		}
		size += bytesOf(table)
		table.close()
	}
	if grown := anonymous(t) - before; grown > size/2 {
		t.Errorf("the process has grown by %d bytes for closed tables of %d bytes", grown, size)
	}
}

// anonymous returns the resident memory of this process without files, in bytes.
func anonymous(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("this system does not report the memory of a process: %v", err)
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	kilobytes := 0
	if _, err := fmt.Sscan(string(rest), &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// Otherwise, the list after a long time without a leader would need memory for every Event
// that was deleted meanwhile.
func TestASweepReportsEachEventAfterItsRemoval(t *testing.T) {
	c := newCounts()
	for n := range uint64(1000) {
		c.set(numbered(n).String(), known{count: 1})
	}
	c.set("other", known{count: 1})
	c.beginList()
	left, stop := c.len(), errors.New("stop")
	err := c.sweep(func(string) error {
		if left--; c.len() != left {
			t.Fatalf("%d Events are remembered, want %d", c.len(), left)
		}
		if left == 500 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || c.len() != 500 {
		t.Fatalf("error %v, %d Events left, want 500 after the error", err, c.len())
	}
	if err := c.sweep(func(string) error { return nil }); err != nil || c.len() != 0 {
		t.Errorf("error %v, %d Events left, want none", err, c.len())
	}
}

// The marks of a list that failed must not keep Events that the next list does not contain.
func TestMarksOfAnUnfinishedListAreForgotten(t *testing.T) {
	c := newCounts()
	for _, uid := range []string{someUUID, "other"} {
		c.set(uid, known{count: 1})
	}
	for range 300 {
		c.beginList()
		c.set(someUUID, known{count: 1})
		c.set("other", known{count: 1})
	}
	c.beginList()
	if err := c.sweep(func(string) error { return nil }); err != nil || c.len() != 0 {
		t.Errorf("error %v, %d Events left, want none", err, c.len())
	}
}
