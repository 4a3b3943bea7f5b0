package health_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
)

// It takes three failures to be unhealthy, and two passes to be healthy again.
func TestThresholdsInARowChangeTheHealth(t *testing.T) {
	for what, tc := range map[string]struct{ row, want string }{
		"one pass of a new pod":                   {"P", "Healthy"},
		"two failures":                            {"PFF", "Healthy"},
		"two failures of a new pod":               {"FF", "Unknown NotChecked 0 the pod was not checked yet"},
		"a pass after two failures":               {"PFFPFFP", "Healthy"},
		"a pass after two failures of a new pod":  {"FFP", "Healthy"},
		"three failures":                          {"PFFF", "Unhealthy HealthCheckFailed 3 F3"},
		"many failures":                           {"PFFFFFFF", "Unhealthy HealthCheckFailed 7 F7"},
		"one pass is not enough":                  {"FFFP", "Unhealthy HealthCheckFailed 0 F2"},
		"two passes with a failure between":       {"FFFPFP", "Unhealthy HealthCheckFailed 0 F4"},
		"two passes":                              {"FFFPP", "Healthy"},
		"two that could not be made":              {"PUU", "Healthy"},
		"three that could not be made":            {"PUUU", "Unknown HealthCheckUnreachable 3 U3"},
		"three of a new pod":                      {"UUU", "Unknown HealthCheckUnreachable 3 U2"},
		"they and failures do not add up":         {"PFUFU", "Healthy"},
		"they do not break a row of failures":     {"PFUFUF", "Unhealthy HealthCheckFailed 3 F5"},
		"they do not break a row of passes":       {"FFFPUP", "Healthy"},
		"a check that was made breaks their row":  {"PUUFUU", "Healthy"},
		"a pass breaks their row":                 {"PUUPUU", "Healthy"},
		"unhealthy, then not to be reached":       {"FFFUU", "Unhealthy HealthCheckFailed 3 F2"},
		"and for long":                            {"FFFUUU", "Unknown HealthCheckUnreachable 3 U5"},
		"earlier results no longer count":         {"FFFUUUFF", "Unknown HealthCheckUnreachable 0 U5"},
		"but new results count":                   {"FFFUUUFFF", "Unhealthy HealthCheckFailed 3 F8"},
		"reached again":                           {"PUUUPP", "Healthy"},
		"reached once":                            {"PUUUP", "Unknown HealthCheckUnreachable 0 U3"},
		"forbidden is certain at once":            {"PX", "Unknown ExecForbidden 1 X1"},
		"forbidden of an unhealthy pod":           {"FFFX", "Unknown ExecForbidden 1 X3"},
		"forbidden, then not to be reached twice": {"PXUU", "Unknown ExecForbidden 3 X1"},
		"forbidden, then not to be reached":       {"PXUUU", "Unknown HealthCheckUnreachable 4 U4"},
		"not to be reached, then forbidden":       {"PUUUX", "Unknown ExecForbidden 4 X4"},
		"allowed again":                           {"PXXPP", "Healthy"},
		"a command that does not end fails":       {"PLLL", "Unhealthy ExecLeaked 3 L3"},
		"both kinds of failure add up":            {"PFLF", "Unhealthy HealthCheckFailed 3 F3"},
		"the last kind gives the reason":          {"PFFL", "Unhealthy ExecLeaked 3 L3"},
		"another reason, by a row":                {"PFFFLL", "Unhealthy HealthCheckFailed 5 F3"},
		"another reason":                          {"PFFFLLL", "Unhealthy ExecLeaked 6 L6"},
		"kinds that alternate":                    {"PFFFLFLFLF", "Unhealthy HealthCheckFailed 9 F9"},
	} {
		t.Run(what, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, brief(row(tc.row))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheHealthChangedAtTheCheckThatReachedTheThreshold(t *testing.T) {
	r := observed(row("P"), at(60.7), "FFFFF")
	if want := at(80); !r.Since.Equal(want) {
		t.Errorf("unhealthy since %s, want %s", r.Since, want)
	}
}

func TestAnOlderObservationIsIgnored(t *testing.T) {
	r := row("PFF")
	late := r.Add(health.Observation{At: at(19), Outcome: health.Failed, Message: "late"}, thresholds)
	if late != r {
		t.Errorf("it made %+v of %+v", late, r)
	}
	if equal := r.Add(health.Observation{At: at(20), Outcome: health.Failed}, thresholds); equal.Health != unhealthy {
		t.Errorf("one that is not older is ignored: %+v", equal)
	}
}

func TestAnUnknownOutcomeDoesNotChangeTheHealth(t *testing.T) {
	r := row("P")
	for i := range 3 {
		r = r.Add(health.Observation{At: at(float64(10 + i))}, thresholds)
	}
	if diff := cmp.Diff("Unknown HealthCheckUnreachable 3 ", brief(r)); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesAreCut(t *testing.T) {
	r := health.Record{}.Add(health.Observation{At: noon, Outcome: health.Forbidden, Message: strings.Repeat("é", 1000)}, thresholds)
	if len(r.Message) > 512 || !strings.HasSuffix(r.Message, "é…") {
		t.Errorf("%d bytes: %q", len(r.Message), r.Message)
	}
}

func TestWhatIsNews(t *testing.T) {
	for what, tc := range map[string]struct {
		before, then string
		want         bool
	}{
		"first pass":                         {"", "P", true},
		"another pass":                       {"P", "P", false},
		"a failure":                          {"P", "F", false},
		"unhealthy":                          {"PFF", "F", true},
		"a failure of an unhealthy pod":      {"PFFF", "F", false},
		"one that could not be made of it":   {"PFFF", "U", false},
		"a failure after that":               {"PFFFU", "F", true}, // it may be restarted again
		"one pass of an unhealthy pod":       {"PFFF", "P", false},
		"healthy":                            {"PFFFP", "P", true},
		"unknown":                            {"PUU", "U", true},
		"forbidden":                          {"P", "X", true},
		"still forbidden":                    {"PX", "X", false},
		"a pass of one that was not reached": {"PUUU", "P", false},
		"another reason":                     {"FFFLL", "L", true},
		"the same after a change in between": {"FFF", "PPFFF", true},
	} {
		t.Run(what, func(t *testing.T) {
			before := row(tc.before)
			if before.IsZero() {
				before = health.Restore(&v1alpha1.AppServiceStatus{}, "a", "uid-a")
			}
			after := observed(before, at(500), tc.then)
			if got := health.IsNews(before, after); got != tc.want {
				t.Errorf("%s, then %s: news %v, want %v", brief(before), brief(after), got, tc.want)
			}
		})
	}
}

func TestANewContainerStartsWithoutFailures(t *testing.T) {
	start := noon.Add(-time.Hour)
	for what, tc := range map[string]struct {
		before  string
		started float64 // seconds after noon
		then    string
		want    string
	}{
		"two failures before it":            {"PFF", 25, "F", "Healthy"},
		"three after it":                    {"PFF", 25, "FFF", "Unhealthy HealthCheckFailed 3 F2"},
		"unhealthy remains":                 {"PFFF", 35, "", "Unhealthy HealthCheckFailed 0 F3"},
		"a pass before it does not count":   {"FFFP", 35, "P", "Unhealthy HealthCheckFailed 0 F2"},
		"two after it do":                   {"FFFP", 35, "PP", "Healthy"},
		"the same start again is not a new": {"PFF", -3600, "F", "Unhealthy HealthCheckFailed 3 F0"},
	} {
		t.Run(what, func(t *testing.T) {
			r := observed(health.Record{}.Started(start), noon, tc.before).Started(at(tc.started))
			if diff := cmp.Diff(tc.want, brief(observed(r, at(100), tc.then))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestThresholdsHaveTheAPIsDefaults(t *testing.T) {
	if got, want := health.ThresholdsOf(&v1alpha1.HealthCheck{}), (health.Thresholds{Failure: 3, Success: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := health.ThresholdsOf(&v1alpha1.HealthCheck{FailureThreshold: 3, SuccessThreshold: 2}); got != thresholds {
		t.Errorf("%+v, want %+v", got, thresholds)
	}
}
