package match

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// A kubelet emits Started before each crash, and Pulling before each failed pull.
func TestAnEndThatTheFailureItselfEmitsIsNamed(t *testing.T) {
	normal, warning := []v1alpha1.EventType{v1alpha1.EventTypeNormal}, []v1alpha1.EventType{v1alpha1.EventTypeWarning}
	pods := []string{"Pod"}
	for name, tc := range map[string]struct {
		match, resolve v1alpha1.EventMatch
		want           string // the reason
	}{
		"all warnings, and Started":      {v1alpha1.EventMatch{Kinds: pods, Types: warning}, v1alpha1.EventMatch{Kinds: pods, Reasons: []string{"Started"}}, "Started"},
		"a crash loop, and Started":      {v1alpha1.EventMatch{Reasons: []string{"BackOff"}}, v1alpha1.EventMatch{Reasons: []string{"Ready", "Started"}}, "Started"},
		"a crash loop, and Pulled":       {v1alpha1.EventMatch{Reasons: []string{"BackOff"}}, v1alpha1.EventMatch{Reasons: []string{"Pulled"}}, "Pulled"},
		"a failed probe, and Started":    {v1alpha1.EventMatch{Reasons: []string{"Unhealthy"}}, v1alpha1.EventMatch{Reasons: []string{"Started"}}, "Started"},
		"any Normal Event":               {v1alpha1.EventMatch{Types: warning}, v1alpha1.EventMatch{Types: normal}, "Started"},
		"an expression":                  {v1alpha1.EventMatch{Types: warning}, v1alpha1.EventMatch{Expression: `event.reason == "Started"`}, "Started"},
		"another expression":             {v1alpha1.EventMatch{Types: warning}, v1alpha1.EventMatch{Expression: `event.reason == "Ready"`}, ""},
		"a failed pull, and Pulling":     {v1alpha1.EventMatch{Reasons: []string{"Failed"}}, v1alpha1.EventMatch{Reasons: []string{"Pulling"}}, "Pulling"},
		"a failed pull, and Pulled":      {v1alpha1.EventMatch{Reasons: []string{"Failed"}}, v1alpha1.EventMatch{Reasons: []string{"Pulled"}}, ""},
		"a pod that could not be placed": {v1alpha1.EventMatch{Reasons: []string{"FailedScheduling"}}, v1alpha1.EventMatch{Reasons: []string{"Scheduled"}}, ""},
		"all but crash loops":            {v1alpha1.EventMatch{Types: warning, Reasons: []string{"!BackOff", "!Unhealthy"}}, v1alpha1.EventMatch{Reasons: []string{"Started"}}, ""},
		"another kind fails":             {v1alpha1.EventMatch{Kinds: []string{"Node"}}, v1alpha1.EventMatch{Reasons: []string{"Started"}}, ""},
		"another kind recovers":          {v1alpha1.EventMatch{Types: warning}, v1alpha1.EventMatch{Kinds: []string{"Node"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.Alarm{}
			o.Spec.Match = []v1alpha1.EventMatch{tc.match}
			o.Spec.Resolve = &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{tc.resolve}}
			got := strings.Join(Hints(o), "; ")
			if tc.want == "" && got != "" || tc.want != "" && !strings.HasPrefix(got, "spec.resolve.match[0]: a pod that keeps failing emits "+tc.want+" at each retry") {
				t.Errorf("got %q, want a hint about %q", got, tc.want)
			}
		})
	}
}
