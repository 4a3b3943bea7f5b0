package culling_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
)

// history is a notebook, its user and its operator in a world where everything may
// go wrong. True time runs; what clocks show is jump ahead of it.
type history struct {
	random   *rand.Rand
	settings culling.Settings

	now  time.Duration // true time
	jump time.Duration // what clocks are ahead

	started   time.Time // by the clock, as all that the operator gets to see
	startedAt time.Duration
	usedAt    time.Duration // true time of the last use
	usedClock time.Time     // and what the server says of it
	busy      bool
	down      bool // the server does not answer

	status culling.Memory
	record culling.Record

	warnedAt time.Duration // true time of the warning that is in force
	// unseen is how far clocks jumped ahead since the warning in steps that look like a
	// probe that is late.
	unseen time.Duration
	// aheadSinceUse is how far they jumped ahead since the last use: by so much it
	// seems to be longer ago.
	aheadSinceUse time.Duration
	// jumped: they jumped since the warning, so that of two times the later may seem to
	// be the earlier.
	jumped bool

	writes, warnings int
	log              []string
}

func newHistory(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	idle := time.Duration(60+r.IntN(3600)) * time.Second
	h := &history{
		random: r,
		settings: culling.Settings{
			IdleTimeout: idle,
			Warning:     time.Duration(r.Int64N(int64(idle))).Truncate(time.Second),
			Period:      time.Duration(10+r.IntN(60)) * time.Second,
			Timeout:     time.Duration(1+r.IntN(9)) * time.Second,

			FailureThreshold: 1 + r.IntN(4),
		},
		status: culling.MemoryOf(&v1alpha1.JupyterStatus{}),
	}
	h.start()
	return h
}

func (h *history) clock() time.Time { return noon.Add(h.now + h.jump) }

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%9s %s: ", h.now, h.clock().Format(time.TimeOnly))+fmt.Sprintf(format, args...))
}

// start starts the notebook's container.
func (h *history) start() {
	h.note("starts")
	h.started, h.startedAt, h.record = h.clock().Truncate(time.Second), h.now, culling.Record{}
	h.use()
}

func (h *history) use() {
	h.usedAt, h.usedClock, h.aheadSinceUse = h.now, h.clock(), 0
}

// seldom is true once in fifty times.
func (h *history) seldom() bool { return h.random.IntN(50) == 0 }

// live lets something happen for a while.
func (h *history) live(d time.Duration) {
	at := time.Duration(h.random.Int64N(int64(d)))
	h.now += at
	switch n := h.random.IntN(1000); {
	case n < 3:
		h.note("is used")
		h.use()
	case n < 6:
		h.busy = !h.busy
		h.note("busy: %v", h.busy)
		h.use()
	case n < 11:
		h.down = !h.down
		h.note("down: %v", h.down)
	case n < 12:
		h.start()
	case n < 13:
		h.leap()
	case n < 15:
		h.restart()
	case n < 17:
		h.now += time.Duration(h.random.Int64N(int64(time.Hour)))
		h.note("was not asked for a while")
	}
	h.now += d - at
	if h.busy {
		h.use()
	}
}

// leap sets the clocks, by anything up to two hours.
func (h *history) leap() {
	by := time.Duration(h.random.Int64N(int64(4*time.Hour))) - 2*time.Hour
	h.jump += by
	h.note("clocks jump by %s", by)
	h.jumped = true
	h.aheadSinceUse += max(0, by)
	if by > 0 && by <= 3*h.settings.Period+h.settings.Timeout {
		h.unseen += by
	}
}

// restart has the operator away for a while: it knows what the status says.
func (h *history) restart() {
	h.now += time.Duration(h.random.Int64N(int64(time.Hour)))
	h.record = culling.Record{}
	h.note("the operator is there again")
}

// probe asks the notebook, and decides.
func (h *history) probe() culling.Decision {
	o := culling.Observation{At: h.clock(), Last: h.usedClock, Busy: h.busy}
	switch {
	case h.down || h.seldom():
		o = culling.Observation{At: h.clock(), Failure: fmt.Sprint("failure ", h.random.IntN(3))}
	case o.Last.After(h.clock().Add(time.Minute)): // package notebook refuses that
		o = culling.Observation{At: h.clock(), Failure: "used in the future"}
	}
	h.record = h.record.Add(o, h.settings)
	h.now += time.Duration(h.random.Int64N(int64(h.settings.Timeout)))
	if h.busy {
		h.use()
	}
	d := culling.Decide(culling.Input{
		Settings: h.settings, Started: h.started, Remembered: h.status, Record: h.record, Now: h.clock(),
	})
	if !h.seldom() { // or the write fails, and the Event with it
		h.write(d)
	}
	return d
}

// write is the status, to which times are seconds.
func (h *history) write(d culling.Decision) {
	next := culling.Memory{
		Idle:         d.Idle,
		Responding:   d.Responding,
		LastActivity: d.LastActivity.Truncate(time.Second),
		CullTime:     d.CullTime.Truncate(time.Second),
		Probe:        d.Probe,
	}
	if d.Warn {
		h.note("warning of %s", d.CullTime.Format(time.TimeOnly))
		h.warnedAt, h.unseen, h.jumped = h.now, 0, false
		h.warnings++
	}
	if next != h.status {
		h.writes++
	}
	h.status = next
}

// judge says what is wrong with culling now.
func (h *history) judge() error {
	const slack = 2 * time.Second // a status keeps seconds
	unused := h.now - max(h.usedAt, h.startedAt)
	switch {
	case h.down:
		return fmt.Errorf("culled while it does not answer")
	case h.busy:
		return fmt.Errorf("culled while it is busy")
	case unused+h.aheadSinceUse+slack < h.settings.IdleTimeout:
		return fmt.Errorf("culled %s after it was used", unused)
	case h.status.CullTime.IsZero():
		return fmt.Errorf("culled without a warning")
	case h.usedAt > h.warnedAt && !h.jumped:
		return fmt.Errorf("culled although it was used after the warning")
	case h.now-h.warnedAt+h.unseen+slack < h.settings.Warning:
		return fmt.Errorf("culled %s after the warning", h.now-h.warnedAt)
	}
	return nil
}

func TestNeverCulledUnlessIdleAndWarned(t *testing.T) {
	histories, culled, warnings := 3000, 0, 0
	if testing.Short() {
		histories = 300
	}
	for seed := range histories {
		h := newHistory(uint64(seed))
		for range 1000 {
			h.live(h.settings.Period)
			if !h.probe().Cull {
				continue
			}
			if err := h.judge(); err != nil {
				t.Fatalf("history %d (%+v): %v\n%s", seed, h.settings, err, tail(h.log))
			}
			culled++
			h.status.CullTime = time.Time{}
			h.start() // its user resumes it
		}
		warnings += h.warnings
	}
	if culled < histories || warnings < culled {
		t.Errorf("%d histories saw %d warnings and culled %d times, which shows little", histories, warnings, culled)
	}
	t.Logf("%d warnings, culled %d times", warnings, culled)
}

func tail(log []string) string {
	text := ""
	for _, line := range log[max(0, len(log)-15):] {
		text += line + "\n"
	}
	return text
}

func TestAnUnusedNotebookIsCulledInTime(t *testing.T) {
	for seed := range uint64(500) {
		h := newHistory(seed)
		for !h.culledQuietly() {
			if h.now > h.settings.IdleTimeout+3*(h.settings.Period+h.settings.Timeout) {
				t.Fatalf("history %d (%+v): not culled after %s", seed, h.settings, h.now)
			}
		}
		if h.warnings != 1 {
			t.Errorf("history %d: %d warnings", seed, h.warnings)
		}
		if h.writes > 3 {
			t.Errorf("history %d: %d writes, want those of the first probe, the warning and what else changes", seed, h.writes)
		}
	}
}

// culledQuietly asks a notebook to which nothing happens.
func (h *history) culledQuietly() bool {
	h.now += h.settings.Period
	h.record = h.record.Add(culling.Observation{At: h.clock(), Last: h.usedClock}, h.settings)
	d := culling.Decide(culling.Input{
		Settings: h.settings, Started: h.started, Remembered: h.status, Record: h.record, Now: h.clock(),
	})
	h.write(d)
	return d.Cull
}

func TestANotebookInUseIsWrittenOfEveryFiveMinutes(t *testing.T) {
	h := newHistory(1)
	h.settings = settings
	for h.now < 8*time.Hour {
		h.use()
		h.culledQuietly()
	}
	if most := 8*12 + 2; h.writes > most {
		t.Errorf("%d writes in eight hours, want at most %d", h.writes, most)
	}
	if idle := h.status.Idle; idle.Status != metav1.ConditionFalse || h.clock().Sub(h.status.LastActivity) > 6*time.Minute {
		t.Errorf("idle %+v, used at %s, now %s", idle, h.status.LastActivity, h.clock())
	}
}
