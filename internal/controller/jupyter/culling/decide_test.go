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
	}
)

// at is a time so many minutes after noon.
func at(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }

func unused(minute, last float64) culling.Observation {
	return culling.Observation{At: at(minute), Last: at(last), Detail: "no kernels; no terminals"}
}

func busy(minute, last float64) culling.Observation {
	return culling.Observation{At: at(minute), Last: at(last), Busy: true, Detail: "1 kernel, 1 busy; no terminals"}
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
		"it answers again: the warning is given anew": {
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
		"it was resumed: its time begins anew": {
			started: 500, status: warned(0, 60), record: record(unused(501, 0)), now: 501,
			want: want{active, responding, 0, ""},
		},
		"it was resumed, and not asked yet": {
			started: 500, status: warned(0, 60), now: 501,
			want: want{unknown, unknown, 0, ""},
		},
		"a probe of before its container was started anew": {
			started: 500, status: warned(0, 60), record: record(unused(499, 0)), now: 501,
			want: want{unknown, unknown, 0, ""},
		},
		"what is remembered is of a clock that was wrong": {
			status: culling.Memory{LastActivity: at(1e6)}, record: record(unused(55, 0)), now: 55,
			want: want{idle, responding, 60, "warn"},
		},
		"what is remembered is later than what the server says": {
			status: culling.Memory{LastActivity: at(30)}, record: record(unused(55, 0)), now: 55,
			want: want{active, responding, 0, ""},
		},
	} {
		t.Run(what, func(t *testing.T) {
			got := culling.Decide(culling.Input{
				Settings: settings, Started: at(tc.started), Remembered: orNotProbed(tc.status), Record: tc.record, Now: at(tc.now),
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

func TestWhatIsRememberedChangesSeldom(t *testing.T) {
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
				t.Errorf("the probe is told of: %v", got.Probe)
			}
		})
	}
}

func TestAServerThatFailsInManyWaysIsNotWrittenOfEachTime(t *testing.T) {
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
		if told := got.Responding != first.Responding; told != (minute >= 8) {
			t.Errorf("minute %d: told %v", minute, told)
		}
	}
}

func TestSettingsOfFillsInDefaults(t *testing.T) {
	want := culling.Settings{
		IdleTimeout: time.Hour, Warning: 5 * time.Minute, Period: time.Minute, Timeout: 5 * time.Second, FailureThreshold: 3,
	}
	if diff := cmp.Diff(want, culling.SettingsOf(v1alpha1.JupyterCulling{})); diff != "" {
		t.Error(diff)
	}
	none := int32(0)
	if got := culling.SettingsOf(v1alpha1.JupyterCulling{WarningSeconds: &none}).Warning; got != 0 {
		t.Errorf("no warning is one of %s", got)
	}
}
