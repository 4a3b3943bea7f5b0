package watch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
)

// taken closes a backlog and returns the changes that were waiting.
func taken(b *backlog) []*Change {
	b.close()
	var all []*Change
	for c, ok := b.next(); ok; c, ok = b.next() {
		all = append(all, c)
	}
	return all
}

func lines(changes []*Change) []string {
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s %s", c.Type, c.Object.GetName()))
	}
	return all
}

func TestWaitingChangesKeepTheirOrder(t *testing.T) {
	b := newBacklog()
	one, two := named("a", "1", "1"), named("a", "1", "2")
	b.add(&Change{Type: Added, Object: one})
	b.add(&Change{Type: Added, Object: named("b", "2", "3")})
	b.add(&Change{Type: Modified, Former: one, Object: two})
	b.add(&Change{Type: Modified, Former: two, Object: one})
	b.add(&Change{Type: Deleted, Object: one})
	b.add(&Change{Type: Added, Object: named("a", "3", "4")})
	b.add(&Change{Type: Deleted, Object: named("a", "3", "4")})
	want := []string{"ADDED a", "ADDED b", "MODIFIED a", "MODIFIED a", "DELETED a", "ADDED a", "DELETED a"}
	if diff := cmp.Diff(want, lines(taken(b))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUpdatesOfAnObjectAreMergedInALongQueue(t *testing.T) {
	b := newBacklog()
	for i := range mergeAbove {
		b.add(&Change{Type: Added, Object: named(fmt.Sprint(i), "x", "1")})
	}
	states := []*Object{named("a", "1", "1"), named("a", "1", "2"), named("a", "1", "3"), named("a", "1", "4")}
	b.add(&Change{Type: Added, Object: states[0]})
	for i := range 3 {
		b.add(&Change{Type: Modified, Former: states[i], Object: states[i+1]})
	}
	b.add(&Change{Type: Deleted, Object: states[3]})
	b.add(&Change{Type: Added, Object: named("a", "2", "5")})
	got := taken(b)[mergeAbove:]
	if diff := cmp.Diff([]string{"ADDED a", "MODIFIED a", "DELETED a", "ADDED a"}, lines(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got[1].Former != states[0] || got[1].Object != states[3] {
		t.Error("the update does not go from the first state to the last")
	}
}

func TestAnUpdateIsNotMergedIntoAPrintedOne(t *testing.T) {
	b := newBacklog()
	states := []*Object{named("a", "1", "1"), named("a", "1", "2"), named("a", "1", "3")}
	b.add(&Change{Type: Modified, Former: states[0], Object: states[1]})
	for i := range mergeAbove {
		b.add(&Change{Type: Added, Object: named(fmt.Sprint(i), "x", "1")})
	}
	first, _ := b.next()
	b.add(&Change{Type: Modified, Former: states[1], Object: states[2]})
	rest := taken(b)
	if first.Object != states[1] || len(rest) != mergeAbove+1 || rest[mergeAbove].Object != states[2] {
		t.Errorf("%d are left", len(rest))
	}
	if len(b.last) > 0 {
		t.Errorf("%d changes are remembered that no longer wait", len(b.last))
	}
}

func newWatcher() *watcher {
	return &watcher{config: Config{Clock: testingclock.NewFakePassiveClock(now)}, changes: newBacklog()}
}

func TestCallbacks(t *testing.T) {
	one, two, another := named("a", "1", "1"), named("a", "1", "2"), named("a", "2", "3")
	for name, tc := range map[string]struct {
		call func(*watcher)
		want []string
	}{
		"added":                             {func(w *watcher) { w.OnAdd(one, false) }, []string{"ADDED a"}},
		"changed":                           {func(w *watcher) { w.OnUpdate(one, two) }, []string{"MODIFIED a"}},
		"listed again, unchanged":           {func(w *watcher) { w.OnUpdate(one, one.DeepCopyObject()) }, nil},
		"deleted and created again":         {func(w *watcher) { w.OnUpdate(two, another) }, []string{"DELETED a", "ADDED a"}},
		"deleted":                           {func(w *watcher) { w.OnDelete(one) }, []string{"DELETED a"}},
		"deleted during a disconnect":       {func(w *watcher) { w.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: one}) }, []string{"DELETED a"}},
		"added and deleted before printing": {func(w *watcher) { w.OnAdd(one, false); w.OnDelete(one) }, []string{"ADDED a", "DELETED a"}},
		"existing at the start":             {func(w *watcher) { w.OnAdd(one, true) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatcher()
			tc.call(w)
			if diff := cmp.Diff(tc.want, lines(taken(w.changes))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestExistingObjectsAreSorted(t *testing.T) {
	w := newWatcher()
	for _, name := range []string{"b", "c", "a"} {
		w.OnAdd(named(name, "1", "1"), true)
	}
	sorted := w.existing.sorted()
	if diff := cmp.Diff([]string{"ADDED a", "ADDED b", "ADDED c"}, lines(sorted)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if slices.ContainsFunc(sorted, func(c *Change) bool { return !c.Existing || !c.Time.Equal(now) }) {
		t.Error("some are not marked as existing, or have a wrong time")
	}
}
