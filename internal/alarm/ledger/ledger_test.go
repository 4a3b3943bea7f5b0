package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// send adds messages of 20 KiB to each of some receivers until none has space, or the limit is reached.
// It returns how many were stored for each receiver.
func send(l *Ledger, limit int, tenant string, receivers ...string) map[string]int {
	const size = 20 << 10
	stored := map[string]int{}
	for range limit {
		refused := 0
		for _, receiver := range receivers {
			if !l.FitsMessage(tenant, receiver, size) {
				refused++
				continue
			}
			l.AddMessage(tenant, receiver, size)
			stored[receiver]++
		}
		if refused == len(receivers) {
			break
		}
	}
	return stored
}

func TestAReceiverThatAcceptsNothingLeavesSpaceForTheOthersOfItsTenant(t *testing.T) {
	l := New(512 << 20)
	dead := send(l, 100_000, "Alarm/shop/", "dead")["dead"]
	if dead < 300 {
		t.Errorf("only %d messages of 20 KiB wait for one receiver", dead)
	}
	if got := send(l, dead/3, "Alarm/shop/", "dead", "works"); got["dead"] > 0 || got["works"] != dead/3 {
		t.Errorf("%v were stored besides %d for the dead receiver", got, dead)
	}
}

func TestManyFullTenantsLeaveSpaceForAnother(t *testing.T) {
	l := New(512 << 20)
	for i := range 40 {
		for r := range 16 {
			send(l, 100_000, fmt.Sprintf("Alarm/tenant-%d/", i), fmt.Sprint("dead-", r))
		}
	}
	if got := send(l, 100_000, "Alarm/victim/", "works")["works"]; got < 20 {
		t.Errorf("%d messages of 20 KiB are stored for the victim", got)
	}
}

// fill lets a tenant use all that it can of a class.
func fill(l *Ledger, c Class, tenant string, leave int64) int64 {
	before := l.Used(c, tenant)
	for step := int64(1 << 20); step > 0; step /= 2 {
		for l.Fits(c, tenant, step, leave) {
			l.Add(c, tenant, step)
		}
	}
	return l.Used(c, tenant) - before
}

func TestNoClassExceedsItsPartOfTheFile(t *testing.T) {
	const size = 64 << 20
	for c, limit := range map[Class]int64{Messages: size / 8 * 5, Parked: size / 8, Groups: size / 4, Objects: size / 4, States: 100_000} {
		l := New(size)
		for i := range 1_000 {
			fill(l, c, fmt.Sprint(i), 0)
		}
		if sum := l.Sum(c); sum > limit || sum < limit/2 {
			t.Errorf("class %d: %d are used, the limit is %d", c, sum, limit)
		}
	}
}

func TestWhatWaitsLeavesLessToObjects(t *testing.T) {
	l := New(64 << 20)
	l.Add(Messages, "shop", 40<<20)
	if used := fill(l, Objects, "shop", 0); used > 0 {
		t.Errorf("%d bytes of objects, although messages use up the part of the file", used)
	}
	if used := fill(l, Groups, "shop", 0); used == 0 {
		t.Error("groups have no space, although they have a part of their own")
	}
}

func TestAPartOfTheShareOfATenantStaysFree(t *testing.T) {
	l := New(64 << 20)
	most := fill(l, Groups, "shop", 4)
	if more := fill(l, Groups, "shop", 0); more < most/4 || more > most/2 {
		t.Errorf("%d after %d", more, most)
	}
}

func TestADiskWithoutSpaceLimitsMessages(t *testing.T) {
	draft := New(64 << 20).Draft()
	draft.LimitMessages(1 << 20)
	if n := send(draft, 100, "shop", "r")["r"]; n > 2 {
		t.Errorf("%d messages of 20 KiB are stored in a sixteenth of 1 MiB", n)
	}
}

// A draft decides as the ledger will after it is applied. Removing all leaves nothing.
func TestADraftCountsLikeTheLedger(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := New(64 << 20)
	for range 200 {
		draft := l.Draft()
		if random.IntN(20) == 0 {
			draft.Clear(Class(random.IntN(int(classes))))
		}
		for range 10 {
			c, tenant := Class(random.IntN(int(classes))), fmt.Sprint(random.IntN(5))
			if more := random.Int64N(1 << 16); draft.Fits(c, tenant, more, 0) {
				draft.Add(c, tenant, more)
			} else {
				draft.Add(c, tenant, -draft.Used(c, tenant))
			}
		}
		want := map[account]int64{}
		for c := range classes {
			for _, a := range draft.accounts(c) {
				if n := draft.usedBy(a); n != 0 {
					want[a] = n
				}
			}
		}
		l.Apply(draft)
		if diff := cmp.Diff(want, l.used, cmp.AllowUnexported(account{})); diff != "" {
			t.Fatal(diff)
		}
	}
	draft := l.Draft()
	draft.ClearAll()
	l.Apply(draft)
	if len(l.used) > 0 || l.sum != [classes]int64{} {
		t.Errorf("left: %v, %v", l.used, l.sum)
	}
}
