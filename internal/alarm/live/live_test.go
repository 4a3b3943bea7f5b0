package live

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someUUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

// numbered returns one of many UIDs. One in ten is not a UUID.
func numbered(n uint64) string {
	if n%10 == 0 {
		return fmt.Sprint("node-", n)
	}
	return fmt.Sprintf("00000000-0000-0000-0000-%012d", n)
}

// The set grows and shrinks several times.
func TestASetIsAMapWithLists(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		set, want, listed := &Set[uint64]{}, map[string]uint64{}, map[string]bool{}
		for _, phase := range []struct{ steps, set, remove int }{{20_000, 9, 1}, {60_000, 1, 9}, {20_000, 5, 5}} {
			for range phase.steps {
				uid := numbered(random.Uint64N(15_000))
				if random.IntN(phase.set+phase.remove) < phase.set {
					want[uid], listed[uid] = random.Uint64(), true
					set.Set(uid, want[uid])
				} else {
					set.Remove(uid)
					delete(want, uid)
				}
				got, ok := set.Get(uid)
				if value, remembered := want[uid]; ok != remembered || got != value {
					t.Fatalf("seed %d: got %d, %t, want %d, %t", seed, got, ok, value, remembered)
				}
			}
			if got := maps.Collect(set.All()); !maps.Equal(got, want) || set.Len() != len(want) {
				t.Fatalf("seed %d: %d objects of %d, want %d", seed, len(got), set.Len(), len(want))
			}
			unlisted := 0
			for uid := range set.Unlisted() {
				set.Remove(uid)
				unlisted++
			}
			before := len(want)
			maps.DeleteFunc(want, func(uid string, _ uint64) bool { return !listed[uid] })
			if got := maps.Collect(set.All()); unlisted != before-len(want) || !maps.Equal(got, want) {
				t.Fatalf("seed %d: %d were unlisted and %d are left, want %d and %d", seed, unlisted, len(got), before-len(want), len(want))
			}
			set.BeginList()
			clear(listed)
		}
	}
}

// The marks of a list that failed must not keep objects that the next list does not contain.
func TestAnUnfinishedListIsForgotten(t *testing.T) {
	set := &Set[int]{}
	for _, uid := range []string{someUUID, "other"} {
		set.Set(uid, 1)
	}
	for range 300 {
		set.BeginList()
		set.List(someUUID)
		set.Set("other", 2)
	}
	if got := slices.Collect(set.Unlisted()); len(got) > 0 {
		t.Errorf("%v are unlisted, want none", got)
	}
	set.BeginList()
	set.List("unknown")
	if diff := cmp.Diff([]string{someUUID, "other"}, slices.Collect(set.Unlisted())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{someUUID: 1, "other": 2}, maps.Collect(set.All())); diff != "" {
		t.Error(diff)
	}
}

func TestValuesAreReplacedAndStayListed(t *testing.T) {
	set := &Set[int]{}
	for i, uid := range []string{someUUID, "other", strings.ToUpper(someUUID)} {
		set.Set(uid, i)
	}
	set.BeginList()
	set.List("other")
	set.Replace(func(value int) int { return value + 10 })
	if diff := cmp.Diff(map[string]int{someUUID: 10, "other": 11, strings.ToUpper(someUUID): 12}, maps.Collect(set.All())); diff != "" {
		t.Error(diff)
	}
	if got := slices.Collect(set.Unlisted()); len(got) != 2 || slices.Contains(got, "other") {
		t.Errorf("%v are unlisted, want all but the listed one", got)
	}
}

// A loop over a set can end early.
func TestALoopEnds(t *testing.T) {
	set := &Set[int]{}
	for n := range uint64(100) {
		set.Set(numbered(n), 1)
	}
	set.BeginList()
	for limit := range 100 {
		all, unlisted := 0, 0
		for range set.All() {
			if all++; all > limit {
				break
			}
		}
		for range set.Unlisted() {
			if unlisted++; unlisted > limit {
				break
			}
		}
		if all != limit+1 || unlisted != limit+1 {
			t.Fatalf("%d and %d steps, want %d", all, unlisted, limit+1)
		}
	}
}

// Otherwise, a cluster that once had many objects would need their memory until the next start.
func TestASetThatBecomesSmallNeedsLittleMemory(t *testing.T) {
	const most, left = 200_000, 1000
	before := heap()
	set := &Set[[12]byte]{}
	for n := range uint64(most) {
		set.Set(numbered(10*n+1), [12]byte{})
	}
	if grown := heap() - before; grown > most*100 {
		t.Errorf("%d bytes for %d objects, want 100 for each at most", grown, most)
	}
	for n := range uint64(most - left) {
		set.Remove(numbered(10*n + 1))
	}
	if grown := heap() - before; grown > 400*left {
		t.Errorf("%d bytes for the last %d objects, want 400 for each at most", grown, left)
	}
	runtime.KeepAlive(set)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func FuzzUUIDIsPrintedAsItWasParsed(f *testing.F) {
	f.Add(someUUID)
	f.Add("00000000-0000-0000-0000-00000000000\xff")
	f.Fuzz(func(t *testing.T, uid string) {
		if id, ok := parse(uid); ok && id.String() != uid {
			t.Errorf("%q comes back as %q", uid, id)
		}
	})
}
