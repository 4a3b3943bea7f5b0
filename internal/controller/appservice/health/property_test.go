package health_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

// FuzzHistory lets three pods be checked, and their operator be restarted, in any
// order, and looks at what must hold whatever comes.
func FuzzHistory(f *testing.F) {
	f.Add([]byte("\x03\x01"), []byte("FFFPPUUUXXLLLPFUFUF"))
	f.Add([]byte("\x01\x01"), []byte("FUFUFPRPXRXPP"))
	f.Add([]byte("\x05\x04"), []byte("FaFbFcRRUUUUUUFFFFFPPPP"))
	f.Add([]byte("\x02\x02"), []byte("LFLFLFXUXUXURUFRFRF"))
	f.Fuzz(func(t *testing.T, limits, steps []byte) {
		if len(limits) < 2 || len(steps) > 2000 {
			return
		}
		h := newHistory(limits[0], limits[1])
		for _, step := range steps {
			h.live(t, step)
		}
	})
}

func TestHistoriesAtRandom(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(byte(r.IntN(256)), byte(r.IntN(256)))
		for range 300 {
			h.live(t, byte(r.IntN(256)))
		}
	}
}

func newHistory(failure, success byte) *history {
	return &history{
		thresholds: health.Thresholds{Failure: int32(failure%6) + 1, Success: int32(success%6) + 1},
		pods:       []health.Pod{pod("a", health.Record{}), pod("b", health.Record{}), pod("c", health.Record{})},
		status:     &v1alpha1.AppServiceStatus{},
		now:        noon,
		reported:   map[string]bool{},
	}
}

// history is an app, its operator, and what the last checks of each pod were.
type history struct {
	thresholds health.Thresholds
	pods       []health.Pod
	status     *v1alpha1.AppServiceStatus
	refreshed  time.Time
	now        time.Time
	last       [3][]health.Outcome // since the pod turned
	// reported are the Events so far.
	reported map[string]bool
}

func (h *history) live(t *testing.T, step byte) {
	h.now = h.now.Add(time.Duration(1+step%7) * time.Second)
	if step == 'R' {
		h.restart(t)
		return
	}
	i := int(step) % len(h.pods)
	o := health.Observation{At: h.now, Outcome: []health.Outcome{
		health.Passed, health.Failed, health.Leaked, health.Unreachable, health.Forbidden,
	}[int(step/3)%5]}
	p := &h.pods[i]
	if p.Record.IsZero() {
		p.Record = health.Restore(h.status, p.Name, p.UID)
	}
	before := p.Record
	p.Record = before.Add(o, h.thresholds)
	h.last[i] = append(h.last[i], o.Outcome)
	if p.Record.Health != before.Health {
		h.verify(t, h.last[i], before, p.Record)
	}
	if p.Record.Health != before.Health || p.Record.Reason != before.Reason {
		h.last[i] = nil
		if !health.IsNews(before, p.Record) {
			t.Fatalf("%s became %s, which is no news", brief(before), brief(p.Record))
		}
	}
	h.write(t, health.IsNews(before, p.Record))
}

// verify examines the checks since the health of the pod changed last.
func (h *history) verify(t *testing.T, last []health.Outcome, before, after health.Record) {
	row := map[health.Outcome]int32{}
	for _, o := range slices.Backward(last) {
		if breaks(after.Health, o) {
			break
		}
		row[o]++
	}
	failed, missed := row[health.Failed]+row[health.Leaked], row[health.Unreachable]+row[health.Forbidden]
	var ok bool
	switch after.Health {
	case unhealthy: // what failed before a new reason was given counts too
		ok = failed > 0 && after.Count() >= h.thresholds.Failure
	case healthy:
		ok = row[health.Passed] >= h.thresholds.Success || before.Reason == v1alpha1.ReasonNotChecked
	default:
		ok = missed >= h.thresholds.Failure || row[health.Forbidden] > 0 || after.Count() >= h.thresholds.Failure
	}
	if !ok {
		t.Fatalf("%s became %s by %q, with %+v", brief(before), brief(after), last, h.thresholds)
	}
}

// breaks says whether an outcome ends a row that makes a pod so.
func breaks(to v1alpha1.PodHealth, o health.Outcome) bool {
	switch to {
	case unhealthy:
		return o == health.Passed
	case healthy:
		return o == health.Failed || o == health.Leaked
	default:
		return o != health.Unreachable && o != health.Forbidden
	}
}

// write summarizes, and writes the status if it differs. Without news, only the heartbeat
// may cause a write.
func (h *history) write(t *testing.T, news bool) {
	s := health.Summarize(h.status, h.pods, h.refreshed, h.now)
	for _, e := range slices.Concat(s.Transitions.Failed, s.Transitions.Unchecked) {
		h.reported[eventOf(e)] = true
	}
	beat := h.now.Sub(h.refreshed) >= 5*time.Minute
	h.refreshed = s.Refreshed
	after := written(t, s, h.pods)
	if len(h.status.Nodes) > 0 && !news && !beat && !cmp.Equal(h.status, after) {
		t.Fatalf("written without news: %s", cmp.Diff(h.status, after))
	}
	h.status = after
	if int(s.Healthy+s.Unhealthy+s.Unknown) != len(h.pods) || int(s.Unhealthy+s.Unknown) != len(s.PodStatuses) {
		t.Fatalf("the counts do not sum up: %+v", s)
	}
}

// restart is a takeover.
func (h *history) restart(t *testing.T) {
	h.refreshed = time.Time{}
	for i := range h.pods {
		h.pods[i].Record = health.Record{}
		h.last[i] = nil
	}
	if len(h.status.Nodes) == 0 {
		return
	}
	s := health.Summarize(h.status, h.pods, h.refreshed, h.now)
	if diff := cmp.Diff(h.status, written(t, s, h.pods)); diff != "" {
		t.Fatalf("a takeover changed the status: %s", diff)
	}
	for _, e := range slices.Concat(s.Transitions.Failed, s.Transitions.Unchecked) {
		if !h.reported[eventOf(e)] {
			t.Fatalf("a takeover reported %+v, which had no Event", e)
		}
	}
	if len(s.Transitions.Recovered) > 0 {
		t.Fatalf("a takeover reported %+v", s.Transitions.Recovered)
	}
}

// eventOf is what the name of an Event about an entry depends on.
func eventOf(e v1alpha1.PodStatus) string {
	return e.PodUID + " " + e.Reason + " " + e.LastTransitionTime.UTC().String()
}
