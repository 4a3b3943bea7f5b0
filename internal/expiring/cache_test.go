package expiring_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/expiring"
)

func expect(t *testing.T, c *expiring.Cache[string, int], key string, want int, wanted bool) {
	t.Helper()
	if got, ok := c.Get(key); got != want || ok != wanted {
		t.Errorf("%s is %d, %t; want %d, %t", key, got, ok, want, wanted)
	}
}

// The bubble of the test fails if a goroutine remains.
func TestAnEntryLivesForItsTimeAfterItWasAdded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := expiring.New[string, int](10, time.Second, clock.RealClock{})
		expect(t, c, "a", 0, false)
		c.Add("a", 1)
		time.Sleep(999 * time.Millisecond)
		expect(t, c, "a", 1, true) // a read does not prolong it
		c.Add("b", 2)
		time.Sleep(time.Millisecond)
		expect(t, c, "a", 0, false)
		expect(t, c, "b", 2, true)
		c.Add("b", 3) // prolongs it
		time.Sleep(999 * time.Millisecond)
		expect(t, c, "b", 3, true)
	})
}

func TestAFullCacheForgetsTheOldestEntry(t *testing.T) {
	t.Parallel()
	c := expiring.New[string, int](2, time.Hour, clock.RealClock{})
	c.Add("a", 1)
	c.Add("b", 2)
	expect(t, c, "a", 1, true)
	c.Add("c", 3)
	expect(t, c, "a", 0, false)
	expect(t, c, "b", 2, true)
	expect(t, c, "c", 3, true)
}

func TestExpiredEntriesUseNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := expiring.New[string, int](10, time.Second, clock.RealClock{})
		c.Add("a", 1)
		c.Add("b", 2)
		time.Sleep(time.Second)
		c.Add("c", 3)
		if got := c.Len(); got != 1 {
			t.Errorf("%d entries, want 1", got)
		}
	})
}
