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
	startedAt moment
	// kernel is the last use of the kernel. It exists from the start on.
	kernel moment
	// terminal is the last use of the terminal, if it is open.
	terminal moment
	open     bool
	// request is the last request, for example of a browser tab.
	request moment
	busy    bool
	down    bool // the server does not answer

	status culling.Memory
	record culling.Record

	warnedAt time.Duration // true time of the warning that is in force
	// unseen is how far clocks jumped ahead since the warning in steps that look like a
	// probe that is late.
	unseen time.Duration
	// ahead is how far they jumped ahead in all: a use seems to be longer ago by what it
	// grew since.
	ahead time.Duration
	// jumped: they jumped since the warning, so that of two times the later may seem to
	// be the earlier.
	jumped bool

	writes, warnings int
	log              []string
}

// moment is when something happened.
type moment struct {
	at    time.Duration // true time
	clock time.Time     // what clocks showed
	ahead time.Duration // how far they had jumped ahead until then
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
			Activity:         activities[r.IntN(len(activities))],
			OpenTerminal:     time.Duration(r.IntN(4*3600)) * time.Second,
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
	h.started, h.record, h.open = h.clock().Truncate(time.Second), culling.Record{}, false
	h.startedAt, h.kernel, h.request = h.moment(), h.moment(), h.moment()
}

func (h *history) moment() moment { return moment{h.now, h.clock(), h.ahead} }

// runCell uses the kernel.
func (h *history) runCell() {
	h.kernel, h.request = h.moment(), h.moment()
}

// lastUse returns the last use that counts.
func (h *history) lastUse() moment {
	used := later(h.startedAt, h.kernel)
	if h.open && h.settings.Activity != v1alpha1.CullingActivityKernels {
		used = later(used, h.terminal)
	}
	if h.settings.Activity == v1alpha1.CullingActivityServer {
		used = later(used, h.request)
	}
	return used
}

func later(a, b moment) moment {
	if b.at > a.at {
		return b
	}
	return a
}

// terminalCounts reports whether the terminal is open and in use, by the clock.
func (h *history) terminalCounts() bool {
	return h.open && h.settings.Activity == v1alpha1.CullingActivityKernelsAndTerminals &&
		h.clock().Before(h.terminal.clock.Add(h.settings.OpenTerminal))
}

// seldom is true once in fifty times.
func (h *history) seldom() bool { return h.random.IntN(50) == 0 }

// live lets something happen for a while.
func (h *history) live(d time.Duration) {
	at := time.Duration(h.random.Int64N(int64(d)))
	h.now += at
	switch n := h.random.IntN(1000); {
	case n < 2:
		h.note("runs a cell")
		h.runCell()
	case n < 4:
		h.note("shows a tab")
		h.request = h.moment()
	case n < 5:
		h.note("uses a terminal")
		h.terminal, h.request, h.open = h.moment(), h.moment(), true
	case n == 5 && h.open:
		h.note("closes the terminal")
		h.request, h.open = h.moment(), false
	case n < 8:
		h.busy = !h.busy
		h.note("busy: %v", h.busy)
		h.runCell()
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
		h.runCell()
	}
}

// leap sets the clocks, by anything up to two hours.
func (h *history) leap() {
	by := time.Duration(h.random.Int64N(int64(4*time.Hour))) - 2*time.Hour
	h.jump += by
	h.note("clocks jump by %s", by)
	h.jumped = true
	h.ahead += max(0, by)
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
	o := h.observe()
	switch {
	case h.down || h.seldom():
		o = culling.Observation{At: h.clock(), Failure: fmt.Sprint("failure ", h.random.IntN(3))}
	case o.Server.After(h.clock().Add(time.Minute)), o.Kernels.After(h.clock().Add(time.Minute)),
		o.Terminals.After(h.clock().Add(time.Minute)): // package server refuses that
		o = culling.Observation{At: h.clock(), Failure: "used in the future"}
	}
	h.record = h.record.Add(o, h.settings)
	h.now += time.Duration(h.random.Int64N(int64(h.settings.Timeout)))
	if h.busy {
		h.runCell()
	}
	d := culling.Decide(culling.Input{
		Settings: h.settings, Started: h.started, Remembered: h.status, Record: h.record, Now: h.clock(),
	})
	if !h.seldom() { // or the write fails, and the Event with it
		h.write(d)
	}
	return d
}

// observe is a probe that succeeds.
func (h *history) observe() culling.Observation {
	o := culling.Observation{At: h.clock(), Server: h.request.clock, Kernels: h.kernel.clock, Busy: h.busy}
	if h.open {
		o.Terminals = h.terminal.clock
	}
	return o
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

// verify returns why culling would be wrong now.
func (h *history) verify() error {
	const slack = 2 * time.Second // a status keeps seconds
	used := h.lastUse()
	unused, aheadSinceUse := h.now-used.at, h.ahead-used.ahead
	switch {
	case h.down:
		return fmt.Errorf("culled while it does not answer")
	case h.busy:
		return fmt.Errorf("culled while it is busy")
	case h.terminalCounts():
		return fmt.Errorf("culled while an open terminal counts as use")
	case unused+aheadSinceUse+slack < h.settings.IdleTimeout:
		return fmt.Errorf("culled %s after it was used", unused)
	case h.status.CullTime.IsZero():
		return fmt.Errorf("culled without a warning")
	case used.at > h.warnedAt && !h.jumped:
		return fmt.Errorf("culled although it was used after the warning")
	case h.now-h.warnedAt+h.unseen+slack < h.settings.Warning:
		return fmt.Errorf("culled %s after the warning", h.now-h.warnedAt)
	}
	return nil
}

func TestNeverCulledUnlessIdleAndWarned(t *testing.T) {
	histories, warnings, culled := 3000, 0, map[v1alpha1.CullingActivity]int{}
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
			if err := h.verify(); err != nil {
				t.Fatalf("history %d (%+v): %v\n%s", seed, h.settings, err, tail(h.log))
			}
			culled[h.settings.Activity]++
			h.status.CullTime = time.Time{}
			h.start() // its user resumes it
		}
		warnings += h.warnings
	}
	for _, activity := range activities {
		if n := culled[activity]; n < histories/3 || warnings < n {
			t.Errorf("%d histories saw %d warnings and culled %v times, which shows little", histories, warnings, culled)
		}
	}
	t.Logf("%d warnings, culled %v times", warnings, culled)
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
	h.record = h.record.Add(h.observe(), h.settings)
	d := culling.Decide(culling.Input{
		Settings: h.settings, Started: h.started, Remembered: h.status, Record: h.record, Now: h.clock(),
	})
	h.write(d)
	return d.Cull
}

func TestANotebookInUseIsWrittenEveryFiveMinutes(t *testing.T) {
	h := newHistory(1)
	h.settings = settings
	for h.now < 8*time.Hour {
		h.runCell()
		h.culledQuietly()
	}
	if most := 8*12 + 2; h.writes > most {
		t.Errorf("%d writes in eight hours, want at most %d", h.writes, most)
	}
	if idle := h.status.Idle; idle.Status != metav1.ConditionFalse || h.clock().Sub(h.status.LastActivity) > 6*time.Minute {
		t.Errorf("idle %+v, used at %s, now %s", idle, h.status.LastActivity, h.clock())
	}
}
