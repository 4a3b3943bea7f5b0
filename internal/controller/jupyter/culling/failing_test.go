package culling_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
)

func TestDecideFailing(t *testing.T) {
	// It began at noon, is stopped after an hour, and this is announced five minutes before.
	settings := culling.SettingsOf(v1alpha1.JupyterCulling{FailingSeconds: new(int32(3600))})
	for name, tc := range map[string]struct {
		since     float64 // minutes after noon; -1 if it does not fail
		announced float64 // minutes after noon; 0 if there is none
		starting  bool
		now       float64
		never     bool
		want      float64 // minutes after noon; 0 if there is none
		cull      bool
		next      time.Duration
	}{
		"it works":                           {since: -1, announced: 60, now: 60},
		"it may fail for ever":               {announced: 60, now: 60, never: true},
		"it has failed for a while":          {now: 10, next: 45 * time.Minute},
		"the stop is announced":              {now: 55, want: 60, next: 5 * time.Minute},
		"the stop was announced":             {now: 58, announced: 60, want: 60, next: 2 * time.Minute},
		"it was announced long enough":       {now: 60, announced: 60, want: 60, cull: true},
		"a little later":                     {now: 60.5, announced: 60, want: 60, cull: true},
		"the operator comes back much later": {now: 90, announced: 60, want: 95, next: 5 * time.Minute},
		"it was not announced in time":       {now: 90, want: 95, next: 5 * time.Minute},
		"the clock jumped back":              {now: 55, announced: 90, want: 60, next: 5 * time.Minute},
		"an announcement of another failure": {since: 50, announced: 49, now: 106, want: 111, next: 5 * time.Minute},
		"the clock was ahead at first":       {since: 60, now: 1, next: 114 * time.Minute},
		"it starts again":                    {now: 55, starting: true},
		"it starts again before the stop":    {now: 60, announced: 60, starting: true, want: 60, next: time.Second},
		"it started again and fails":         {now: 70, announced: 60, want: 75, next: 5 * time.Minute},
		"it starts long after":               {now: 70, announced: 60, starting: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := culling.FailingInput{Settings: settings, Failing: !tc.starting, Now: at(tc.now)}
			if tc.never {
				in.Settings = culling.SettingsOf(v1alpha1.JupyterCulling{})
			}
			if tc.since >= 0 {
				in.Since = at(tc.since)
			}
			if tc.announced != 0 {
				in.Announced = at(tc.announced)
			}
			want := culling.FailingDecision{Cull: tc.cull, Next: tc.next}
			if tc.want != 0 {
				want.CullTime = at(tc.want)
			}
			if got := culling.DecideFailing(in); !got.CullTime.Equal(want.CullTime) || got.Cull != want.Cull || got.Next != want.Next {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestTheWarningIsNotLongerThanHalfOfAShortTime(t *testing.T) {
	for name, tc := range map[string]struct {
		culling       v1alpha1.JupyterCulling
		idle, failing time.Duration
	}{
		"by default":      {v1alpha1.JupyterCulling{}, 5 * time.Minute, 0},
		"a short timeout": {v1alpha1.JupyterCulling{IdleTimeoutSeconds: 120}, time.Minute, 0},
		"a short failure": {v1alpha1.JupyterCulling{FailingSeconds: new(int32(60))}, 5 * time.Minute, 30 * time.Second},
		"as it is set":    {v1alpha1.JupyterCulling{WarningSeconds: new(int32(7)), FailingSeconds: new(int32(60))}, 7 * time.Second, 7 * time.Second},
	} {
		if got := culling.SettingsOf(tc.culling); got.Warning != tc.idle || got.FailingWarning != tc.failing {
			t.Errorf("%s: %v and %v, want %v and %v", name, got.Warning, got.FailingWarning, tc.idle, tc.failing)
		}
	}
}

// The operator is killed and the clock jumps at any moment.
func TestANotebookThatFailsIsStoppedOnlyAfterAFullWarning(t *testing.T) {
	settings := culling.SettingsOf(v1alpha1.JupyterCulling{FailingSeconds: new(int32(3600))})
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		var now, jump, announcedAt time.Duration // true time, and how far the clock is ahead
		in := culling.FailingInput{Settings: settings, Since: at(0), Failing: true}
		jumped, stopped := false, false
		for now < 12*time.Hour && !stopped {
			in.Now = at(0).Add(now + jump)
			d := culling.DecideFailing(in)
			switch {
			case d.Cull && now < settings.FailingWarning:
				t.Fatalf("seed %d: stopped after %v", seed, now)
			case d.Cull && !jumped && now-announcedAt < settings.FailingWarning:
				t.Fatalf("seed %d: stopped %v after its warning", seed, now-announcedAt)
			case d.Cull && jump == 0 && now < settings.Failing:
				t.Fatalf("seed %d: stopped after %v", seed, now)
			}
			stopped = d.Cull
			if !d.CullTime.IsZero() && !d.CullTime.Equal(in.Announced) {
				announcedAt, jumped = now, false
			}
			in.Announced = d.CullTime // all that a restart of the operator leaves
			now += max(time.Second, min(d.Next, time.Minute))
			switch {
			case random.IntN(20) == 0: // it is down
				now += time.Duration(random.IntN(3600)) * time.Second
			case now < 3*time.Hour && random.IntN(20) == 0:
				jump += time.Duration(random.IntN(1200)-600) * time.Second
				jumped = true
			}
		}
		if !stopped {
			t.Errorf("seed %d: it was not stopped in %v", seed, now)
		}
	}
}
