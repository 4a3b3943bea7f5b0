package message

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestCombinerHoldsAFloodInBoundedMemory(t *testing.T) {
	const flood, bound = 100_000, 20 << 20
	before := heapInUse()
	c := NewCombiner()
	for i := range flood {
		m := messageOf("a", "BackOff", "Pod", fmt.Sprintf("web-%06d", i), 1, seenLast)
		m.Events[0].Note = strings.Repeat("n", 1000) + m.Events[0].Regarding.Name
		c.Add(m)
	}
	if held := int64(heapInUse()) - int64(before); held > bound {
		t.Errorf("%d messages hold %d MiB", flood, held>>20)
	}
	got := c.Message()
	if got.Count != flood || len(got.Events) != MaxListedEvents {
		t.Errorf("count is %d, %d events listed", got.Count, len(got.Events))
	}
	if want := "100000 × BackOff Pod: shop/web-000000, shop/web-000001, shop/web-000002 and 99997 more"; got.Text != want {
		t.Errorf("text is %q, want %q", got.Text, want)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestCombinerCountsWhatItHasNoRoomFor(t *testing.T) {
	c := NewCombiner()
	for i := range 3 * maxGroups {
		c.Add(messageOf("a", fmt.Sprintf("Reason%05d", i), "Pod", "web-0", 1, seenLast))
	}
	got := c.Message()
	if lines := strings.Count(got.Text, "\n"); got.Count != 3*maxGroups || !strings.HasSuffix(got.Text, fmt.Sprintf("and %d more", 3*maxGroups-lines)) {
		t.Errorf("count is %d, text %q", got.Count, got.Text)
	}
}
