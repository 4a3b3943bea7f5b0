package capability_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/capability"
)

func TestWhatIsChosenIsKnownAndNamedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  []capability.Capability
		wrong string
	}{
		"one":                   {[]string{"jupyter"}, []capability.Capability{capability.Jupyter}, ""},
		"in any order":          {[]string{"appservice", "alarm"}, []capability.Capability{capability.Alarm, capability.AppService}, ""},
		"twice":                 {[]string{"alarm", "alarm"}, []capability.Capability{capability.Alarm}, ""},
		"all":                   {capability.Names(capability.All()), capability.All(), ""},
		"none":                  {nil, nil, "choose of alarm, secretshare, jupyter, appservice"},
		"one that is not":       {[]string{"alarm", "alarms"}, nil, `"alarms"`},
		"an empty name":         {[]string{""}, nil, `""`},
		"of the wrong spelling": {[]string{"Alarm"}, nil, `"Alarm"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := capability.Parse(tc.names)
			if (err != nil) != (tc.wrong != "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Fatalf("error %v, want one with %q", err, tc.wrong)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
