package outbox

import (
	"context"
	"math"
	"testing"
	"time"
)

// window returns the state of a window as text.
func window(t *testing.T, l *Store, id string) string {
	t.Helper()
	state, err := l.Window(context.Background(), id)
	must(t, err)
	return string(state)
}

func windowAt(id, state string, until time.Time) Window {
	return Window{ID: id, Alarm: "a", Until: until, State: []byte(state)}
}

func TestAWindowIsKeptUntilWhatIsReadHappenedAfterItsEnd(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir)
	must(t, l.Commit(ctx, Batch{Position: 1, Windows: []Window{windowAt("w", "old", day), windowAt("v", "other", day.Add(time.Hour))}}))
	must(t, l.Commit(ctx, Batch{Position: 2, Windows: []Window{windowAt("w", "new", day.Add(time.Minute))}, Oldest: day.Add(time.Minute)}))
	must(t, l.Commit(ctx, Batch{Position: 3}))
	must(t, l.Close())
	l = open(t, dir)
	if got := window(t, l, "w"); got != "new" {
		t.Errorf("got %q, want what was committed last", got)
	}
	must(t, l.Commit(ctx, Batch{Position: 4, Oldest: day.Add(time.Minute + time.Microsecond)}))
	if got := window(t, l, "w"); got != "" {
		t.Errorf("got %q after its end", got)
	}
	if got := window(t, l, "v"); got != "other" {
		t.Errorf("of the other window: got %q", got)
	}
}

func TestAWindowIsOfTheBatchThatItCameWith(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	broken := Batch{Position: 9, Windows: []Window{windowAt("w", "half", day)}, Counts: []EventCount{{UID: "e", Position: math.MaxUint64}}}
	if err := l.Commit(ctx, broken); err == nil {
		t.Fatal("the batch was committed, want an error")
	}
	if got := window(t, l, "w"); got != "" {
		t.Errorf("got %q of a batch that was refused", got)
	}
}

func TestWindowsOfAnotherPositionAreForgotten(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Commit(ctx, Batch{Position: 9, Windows: []Window{windowAt("w", "state", day)}}))
	must(t, l.Replay(ctx, "", 9, DeliveredOffsets{}))
	if got := window(t, l, "w"); got != "state" {
		t.Errorf("got %q where nothing is read again", got)
	}
	must(t, l.Replay(ctx, "", 3, DeliveredOffsets{}))
	if got := window(t, l, "w"); got != "" {
		t.Errorf("got %q: what is read again would count twice", got)
	}
}
