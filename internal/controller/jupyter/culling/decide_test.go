package culling_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
)

var (
	// The notebook was started at noon; it is culled after an hour, warned of five
	// minutes before, and asked every minute.
	noon     = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	settings = culling.Settings{
		IdleTimeout: time.Hour, Warning: 5 * time.Minute,
		Period: time.Minute, Timeout: 5 * time.Second, FailureThreshold: 3,
		Activity: v1alpha1.CullingActivityKernelsAndTerminals, OpenTerminal: 12 * time.Hour,
	}
	activities = []v1alpha1.CullingActivity{
		v1alpha1.CullingActivityKernels, v1alpha1.CullingActivityKernelsAndTerminals, v1alpha1.CullingActivityServer,
	}
)

// at is a time so many minutes after noon.
func at(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }

// unused is a probe of a notebook whose kernel was last used at a minute.
func unused(minute, last float64) culling.Observation {
	return culling.Observation{At: at(minute), Server: at(last), Kernels: at(last), Detail: "1 kernel; no terminals"}
}

func busy(minute, last float64) culling.Observation {
	return culling.Observation{At: at(minute), Server: at(last), Kernels: at(last), Busy: true, Detail: "1 kernel, 1 busy; no terminals"}
}

// tab is a probe of a notebook in which only a browser tab is open.
func tab(minute float64) culling.Observation {
	return culling.Observation{At: at(minute), Server: at(minute), Kernels: at(0), Detail: "1 kernel; no terminals"}
}

// terminal is a probe of a notebook with an open terminal that was last used at a minute.
func terminal(minute, last float64) culling.Observation {
	return culling.Observation{At: at(minute), Server: at(last), Terminals: at(last), Detail: "no kernels; 1 terminal"}
}

func failed(minute float64) culling.Observation {
	return culling.Observation{At: at(minute), Failure: "GET /api/status: the server did not answer in time"}
}

func record(all ...culling.Observation) culling.Record {
	var r culling.Record
	for _, o := range all {
		r = r.Add(o, settings)
	}
	return r
}

// warned is what the status says five minutes before culling at a minute.
func warned(used, cull float64) culling.Memory {
	return culling.Memory{
		Idle:         culling.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoActivity, Message: "idle"},
		Responding:   culling.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonResponding, Message: "ok"},
		Probe:        &v1alpha1.ProbeResult{Time: metav1.NewTime(at(cull - 5)), Result: "Success"},
		LastActivity: at(used),
		CullTime:     at(cull),
	}
}

func TestDecide(t *testing.T) {
	type want struct {
		Idle, Responding string
		CullTime         float64 // minutes after noon; 0: none
		Act              string
	}
	const (
		unknown    = "Unknown NotProbed"
		responding = "True Responding"
		failing    = "False ProbeFailing"
		notKnown   = "Unknown ProbeFailing"
		active     = "False Active"
		idle       = "True NoActivity"
	)
	for what, tc := range map[string]struct {
		started float64
		status  culling.Memory
		record  culling.Record
		now     float64
		want    want
	}{
		"not asked yet": {
			now:  1,
			want: want{unknown, unknown, 0, ""},
		},
		"started a moment ago": {
			record: record(unused(1, 0)), now: 1,
			want: want{active, responding, 0, ""},
		},
		"used not long ago": {
			record: record(unused(90, 40)), now: 90,
			want: want{active, responding, 0, ""},
		},
		"unused for long: the warning comes first, however long": {
			record: record(unused(500, 2)), now: 500,
			want: want{idle, responding, 505, "warn"},
		},
		"unused until the warning": {
			record: record(unused(54.9, 0)), now: 54.9,
			want: want{active, responding, 0, ""},
		},
		"unused since the start": {
			record: record(unused(55, -300)), now: 55,
			want: want{idle, responding, 60, "warn"},
		},
		"during the warning": {
			status: warned(0, 60), record: record(unused(59.9, 0)), now: 59.9,
			want: want{idle, responding, 60, ""},
		},
		"when the warning is over": {
			status: warned(0, 60), record: record(unused(60, 0)), now: 60,
			want: want{idle, responding, 60, "cull"},
		},
		"the warning is over, the last probe was made before": {
			status: warned(0, 60), record: record(unused(59.5, 0)), now: 60.4,
			want: want{idle, responding, 60, ""},
		},
		"the warning is over, the last probe is old": {
			status: warned(0, 60), record: record(unused(60.1, 0)), now: 63,
			want: want{idle, responding, 60, ""},
		},
		"the warning is over, and nothing was asked since the operator started": {
			status: warned(0, 60), now: 120,
			want: want{idle, "True Responding", 60, ""},
		},
		"the operator was away when the warning was over": {
			status: warned(0, 60), record: record(unused(120, 0)), now: 120,
			want: want{idle, responding, 60, "cull"},
		},
		"the operator was restarted during the warning": {
			status: warned(0, 60), record: record(unused(57, 0)), now: 57,
			want: want{idle, responding, 60, ""},
		},
		"used while the operator was away": {
			status: warned(0, 60), record: record(unused(120, 59)), now: 120,
			want: want{idle, responding, 125, "warn"},
		},
		"used during the warning": {
			status: warned(0, 60), record: record(unused(58, 57)), now: 58,
			want: want{active, responding, 0, "cancelled"},
		},
		"a kernel works during the warning, silently": {
			status: warned(0, 60), record: record(busy(60, 0)), now: 60,
			want: want{"False KernelBusy", responding, 0, "cancelled"},
		},
		"a kernel is busy, and was used": {
			record: record(busy(90, 89)), now: 90,
			want: want{active, responding, 0, ""},
		},
		"a kernel that worked silently until lately": {
			record: record(busy(300, 0), unused(301, 0)), now: 301,
			want: want{active, responding, 0, ""},
		},
		"one failure changes nothing": {
			status: warned(0, 60), record: record(unused(59, 0), failed(60)), now: 60,
			want: want{idle, responding, 60, ""},
		},
		"a failure after the warning does not cull": {
			status: warned(0, 60), record: record(failed(61)), now: 61,
			want: want{idle, responding, 60, ""},
		},
		"three failures": {
			status: warned(0, 60), record: record(failed(59), failed(60), failed(61)), now: 61,
			want: want{notKnown, failing, 0, ""},
		},
		"failures for long never cull": {
			status: warned(0, 60), record: record(failed(599), failed(600), failed(601), failed(602)), now: 602,
			want: want{notKnown, failing, 0, ""},
		},
		"it answers again: the warning is repeated": {
			status: culling.Memory{LastActivity: at(0)},
			record: record(failed(59), failed(60), failed(61), unused(62, 0)), now: 62,
			want: want{idle, responding, 67, "warn"},
		},
		"the clock jumps during the warning": {
			status: warned(0, 60), record: record(unused(57, 0), unused(300, 0)), now: 300,
			want: want{idle, responding, 305, "warn"},
		},
		"the clock jumps back during the warning": {
			status: warned(0, 60), record: record(unused(57, 0), unused(20, 0)), now: 20,
			want: want{active, responding, 0, "cancelled"},
		},
		"probes broke off during the warning": {
			status: warned(0, 60), record: record(unused(57, 0), unused(62, 0)), now: 62,
			want: want{idle, responding, 67, "warn"},
		},
		"it was resumed: its time begins again": {
			started: 500, status: warned(0, 60), record: record(unused(501, 0)), now: 501,
			want: want{active, responding, 0, ""},
		},
		"it was resumed, and not asked yet": {
			started: 500, status: warned(0, 60), now: 501,
			want: want{unknown, unknown, 0, ""},
		},
		"a probe from before its container was restarted": {
			started: 500, status: warned(0, 60), record: record(unused(499, 0)), now: 501,
			want: want{unknown, unknown, 0, ""},
		},
		"the status comes from a clock that was wrong": {
			status: culling.Memory{LastActivity: at(1e6)}, record: record(unused(55, 0)), now: 55,
			want: want{idle, responding, 60, "warn"},
		},
		"the status is later than the answer of the server": {
			status: culling.Memory{LastActivity: at(30)}, record: record(unused(55, 0)), now: 55,
			want: want{active, responding, 0, ""},
		},
	} {
		for _, activity := range activities {
			t.Run(what+"/"+string(activity), func(t *testing.T) {
				s := settings
				s.Activity = activity
				got := culling.Decide(culling.Input{
					Settings: s, Started: at(tc.started), Remembered: orNotProbed(tc.status), Record: tc.record, Now: at(tc.now),
				})
				if diff := cmp.Diff(tc.want, want{brief(got.Idle), brief(got.Responding), minutes(got.CullTime), acts(got)}); diff != "" {
					t.Error(diff)
				}
				if got.Next.Before(at(tc.now)) {
					t.Errorf("next at %s, which is past", got.Next)
				}
			})
		}
	}
}

func TestTheActivityDecidesWhatCountsAsUse(t *testing.T) {
	const (
		hour   = 60.0
		active = "False Active"
		busyK  = "False KernelBusy"
		open   = "False TerminalOpen"
		idle   = "True NoActivity"
	)
	for what, tc := range map[string]struct {
		observation culling.Observation
		want        map[v1alpha1.CullingActivity]string
	}{
		"an open tab": {tab(2 * hour), map[v1alpha1.CullingActivity]string{
			v1alpha1.CullingActivityKernels: idle, v1alpha1.CullingActivityKernelsAndTerminals: idle, v1alpha1.CullingActivityServer: active,
		}},
		"a busy kernel": {busy(2*hour, 0), map[v1alpha1.CullingActivity]string{
			v1alpha1.CullingActivityKernels: busyK, v1alpha1.CullingActivityKernelsAndTerminals: busyK, v1alpha1.CullingActivityServer: busyK,
		}},
		"a terminal in use": {terminal(2*hour, 2*hour-1), map[v1alpha1.CullingActivity]string{
			v1alpha1.CullingActivityKernels: idle, v1alpha1.CullingActivityKernelsAndTerminals: active, v1alpha1.CullingActivityServer: active,
		}},
		"a silent job in a terminal": {terminal(11.9*hour, 0), map[v1alpha1.CullingActivity]string{
			v1alpha1.CullingActivityKernels: idle, v1alpha1.CullingActivityKernelsAndTerminals: open, v1alpha1.CullingActivityServer: idle,
		}},
		"a terminal that has just ceased to count": {terminal(12.1*hour, 0), map[v1alpha1.CullingActivity]string{
			v1alpha1.CullingActivityKernels: idle, v1alpha1.CullingActivityKernelsAndTerminals: active, v1alpha1.CullingActivityServer: idle,
		}},
		"a terminal that was forgotten": {terminal(13*hour, 0), map[v1alpha1.CullingActivity]string{
			v1alpha1.CullingActivityKernels: idle, v1alpha1.CullingActivityKernelsAndTerminals: idle, v1alpha1.CullingActivityServer: idle,
		}},
	} {
		for _, activity := range activities {
			t.Run(what+"/"+string(activity), func(t *testing.T) {
				s := settings
				s.Activity = activity
				in := culling.Input{Settings: s, Started: noon, Remembered: orNotProbed(culling.Memory{}), Now: tc.observation.At}
				in.Record = in.Record.Add(tc.observation, s)
				got := culling.Decide(in)
				if brief(got.Idle) != tc.want[activity] {
					t.Errorf("got %+v, want %s", got.Idle, tc.want[activity])
				}
				if isIdle := tc.want[activity] == idle; got.Warn != isIdle || got.Cull {
					t.Errorf("got %+v, want a warning only if it is idle", got)
				}
			})
		}
	}
}

func TestAnOpenTerminalIsReportedWithTheTimeUntilWhichItCounts(t *testing.T) {
	in := culling.Input{Settings: settings, Started: noon, Remembered: orNotProbed(culling.Memory{})}
	var first string
	for minute := 100.0; minute < 110; minute++ {
		in.Record, in.Now = in.Record.Add(terminal(minute, 3), settings), at(minute)
		d := culling.Decide(in)
		if d.LastActivity.After(in.Now) {
			t.Errorf("minute %v: last used at %s, which is to come", minute, d.LastActivity)
		}
		got := d.Idle.Message
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, "2026-11-21T00:03:00Z") {
			t.Errorf("minute %v: %q, before: %q", minute, got, first)
		}
	}
}

// The last probe was made when other settings decided what counts.
func TestANewActivityAppliesToTheLastProbe(t *testing.T) {
	culled := culling.Input{Settings: settings, Started: noon, Remembered: warned(0, 60), Now: at(60)}
	culled.Settings.Activity = v1alpha1.CullingActivityKernels
	for what, tc := range map[string]struct {
		observation culling.Observation
		activity    v1alpha1.CullingActivity
	}{
		"a tab":      {tab(60), v1alpha1.CullingActivityServer},
		"a terminal": {terminal(60, 0), v1alpha1.CullingActivityKernelsAndTerminals},
	} {
		t.Run(what, func(t *testing.T) {
			in := culled
			in.Record = in.Record.Add(tc.observation, in.Settings)
			if got := culling.Decide(in); !got.Cull {
				t.Fatalf("got %+v, want that it is culled", got)
			}
			in.Settings.Activity = tc.activity
			if got := culling.Decide(in); got.Cull || !got.Cancelled {
				t.Errorf("got %+v, want that the warning is cancelled", got)
			}
		})
	}
}

func TestTheWarningSaysWhatCountsAsUse(t *testing.T) {
	for activity, want := range map[v1alpha1.CullingActivity]string{
		v1alpha1.CullingActivityKernels:             "unless you run code in a kernel",
		v1alpha1.CullingActivityKernelsAndTerminals: "unless you run code in a kernel or use a terminal",
		v1alpha1.CullingActivityServer:              "unless you use it",
	} {
		s := settings
		s.Activity = activity
		in := culling.Input{Settings: s, Started: noon, Remembered: orNotProbed(culling.Memory{}), Record: record(unused(56, 0)), Now: at(56)}
		if got := culling.Decide(in); !strings.Contains(got.Idle.Message, want+";") || !strings.Contains(culling.Warning(s, at(60)), want+";") {
			t.Errorf("%s: got %q and %q, want %q", activity, got.Idle.Message, culling.Warning(s, at(60)), want)
		}
	}
}

// orNotProbed is what MemoryOf makes of a status without conditions.
func orNotProbed(m culling.Memory) culling.Memory {
	empty := culling.MemoryOf(&v1alpha1.JupyterStatus{})
	if m.Idle.Status == "" {
		m.Idle = empty.Idle
	}
	if m.Responding.Status == "" {
		m.Responding = empty.Responding
	}
	return m
}

func brief(c culling.Condition) string { return string(c.Status) + " " + c.Reason }

func minutes(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return t.Sub(noon).Minutes()
}

func acts(d culling.Decision) string {
	var all []string
	if d.Warn {
		all = append(all, "warn")
	}
	if d.Cull {
		all = append(all, "cull")
	}
	if d.Cancelled {
		all = append(all, "cancelled")
	}
	return strings.Join(all, " ")
}

func TestWithoutAWarningTheNextProbeCulls(t *testing.T) {
	s := settings
	s.Warning = 0
	in := culling.Input{Settings: s, Started: noon, Remembered: orNotProbed(culling.Memory{}), Record: record(unused(60.01, 0)), Now: at(60.01)}
	first := culling.Decide(in)
	if !first.Warn || first.Cull || first.CullTime.Before(in.Now) {
		t.Fatalf("got %+v, want a warning alone", first)
	}
	in.Remembered.CullTime, in.Record, in.Now = first.CullTime, in.Record.Add(unused(61, 0), s), at(61)
	if second := culling.Decide(in); !second.Cull {
		t.Errorf("got %+v, want that it is culled", second)
	}
}

func TestANotebookThatDoesNotRunRemembersWhenItWasCulled(t *testing.T) {
	in := culling.Input{Settings: settings, Remembered: warned(0, 60), Record: record(unused(60, 0)), Now: at(61), Culled: true}
	got := culling.Decide(in)
	if brief(got.Idle) != "Unknown NotProbed" || brief(got.Responding) != "Unknown NotProbed" || acts(got) != "" {
		t.Errorf("got %+v", got)
	}
	if minutes(got.CullTime) != 60 || !got.LastActivity.Equal(at(0)) {
		t.Errorf("culled at %s, last used at %s", got.CullTime, got.LastActivity)
	}
	in.Culled = false
	if got := culling.Decide(in); !got.CullTime.IsZero() {
		t.Errorf("its user stopped it, and it says that it was culled at %s", got.CullTime)
	}
}

func TestANotebookThatIsNotProbedSaysWhy(t *testing.T) {
	const (
		disabled = "spec.culling is not set, so the notebook is not asked whether it is used, and is never culled"
		stopped  = "the notebook does not run: it is asked whether it is used when it runs"
		waits    = "the notebook has not said yet whether it is used: it is asked every 1m0s"
	)
	running := culling.Input{Settings: settings, Started: noon, Remembered: orNotProbed(culling.Memory{}), Now: at(1)}
	once, stale := running, running
	once.Record = record(failed(1))
	stale.Remembered = warned(-60, -10) // from before the start
	for name, tc := range map[string]struct {
		in   culling.Input
		want string
	}{
		"no culling":                {culling.Input{Disabled: true, Now: at(1)}, disabled},
		"stopped":                   {culling.Input{Settings: settings, Remembered: warned(0, 60), Now: at(61)}, stopped},
		"not asked yet":             {running, waits},
		"asked once, and no answer": {once, waits},
		"started again":             {stale, waits},
	} {
		t.Run(name, func(t *testing.T) {
			got := culling.Decide(tc.in)
			for _, c := range []culling.Condition{got.Idle, got.Responding} {
				if brief(c) != "Unknown NotProbed" || c.Message != tc.want {
					t.Errorf("got %+v, want %q", c, tc.want)
				}
			}
		})
	}
}

func TestTheStatusChangesSeldom(t *testing.T) {
	for what, tc := range map[string]struct {
		used float64
		want float64
	}{
		"a little later": {used: 34.9, want: 30},
		"much later":     {used: 35, want: 35},
		"earlier":        {used: 20, want: 30},
	} {
		t.Run(what, func(t *testing.T) {
			in := culling.Input{Settings: settings, Started: noon, Record: record(unused(40, tc.used)), Now: at(40)}
			in.Remembered = orNotProbed(culling.Memory{LastActivity: at(30)})
			first := culling.Decide(in)
			in.Remembered.Idle = first.Idle
			in.Remembered.Responding = first.Responding
			in.Remembered.Probe = &v1alpha1.ProbeResult{Time: metav1.NewTime(at(30)), Result: "Success"}
			got := culling.Decide(in)
			if minutes(got.LastActivity) != tc.want {
				t.Errorf("last used at minute %v, want %v", minutes(got.LastActivity), tc.want)
			}
			if written := got.Probe != in.Remembered.Probe; written != (tc.want != 30) {
				t.Errorf("the probe is reported: %v", got.Probe)
			}
		})
	}
}

func TestAServerThatFailsInManyWaysIsNotWrittenEachTime(t *testing.T) {
	in := culling.Input{Settings: settings, Started: noon, Remembered: orNotProbed(culling.Memory{}), Now: at(3)}
	in.Record = record(failed(1), failed(2), failed(3))
	first := culling.Decide(in)
	if first.Probe == nil || first.Probe.Result != "Failure" || !strings.Contains(first.Responding.Message, "in time") {
		t.Fatalf("got %+v", first)
	}
	in.Remembered.Responding = first.Responding
	in.Remembered.Idle = first.Idle
	in.Remembered.Probe = first.Probe
	other := culling.Observation{Failure: "GET /api/status: the server refused the connection"}
	for minute := 4; minute < 12; minute++ {
		other.At = at(float64(minute))
		in.Record, in.Now = in.Record.Add(other, settings), other.At
		got := culling.Decide(in)
		if changed := got.Responding != first.Responding; changed != (minute >= 8) {
			t.Errorf("minute %d: changed %v", minute, changed)
		}
	}
}

func TestSettingsOfFillsInDefaults(t *testing.T) {
	want := culling.Settings{
		IdleTimeout: time.Hour, Warning: 5 * time.Minute, Period: time.Minute, Timeout: 5 * time.Second, FailureThreshold: 3,
		Activity: v1alpha1.CullingActivityKernelsAndTerminals, OpenTerminal: 24 * time.Hour,
	}
	if diff := cmp.Diff(want, culling.SettingsOf(v1alpha1.JupyterCulling{})); diff != "" {
		t.Error(diff)
	}
	none := int32(0)
	if got := culling.SettingsOf(v1alpha1.JupyterCulling{WarningSeconds: &none}).Warning; got != 0 {
		t.Errorf("no warning is one of %s", got)
	}
	if got := culling.SettingsOf(v1alpha1.JupyterCulling{OpenTerminalSeconds: &none}).OpenTerminal; got != 0 {
		t.Errorf("an open terminal that does not count counts for %s", got)
	}
}
