package feature_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/feature"
)

func TestWhatIsChosenIsKnownAndNamedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  []feature.Feature
		wrong string
	}{
		"one":                   {[]string{"jupyter"}, []feature.Feature{feature.Jupyter}, ""},
		"in any order":          {[]string{"appservice", "alarm"}, []feature.Feature{feature.Alarm, feature.AppService}, ""},
		"twice":                 {[]string{"alarm", "alarm"}, []feature.Feature{feature.Alarm}, ""},
		"all":                   {feature.Names(feature.All()), feature.All(), ""},
		"with what extends it":  {[]string{"appservice-proxy", "appservice"}, []feature.Feature{feature.AppService, feature.AppServiceProxy}, ""},
		"without what it needs": {[]string{"alarm", "appservice-exec"}, nil, `"appservice-exec" needs "appservice"`},
		"none":                  {nil, nil, "use alarm, alarm-secrets, secretshare, jupyter, appservice"},
		"one that is not":       {[]string{"alarm", "alarms"}, nil, `"alarms"`},
		"an empty name":         {[]string{""}, nil, `""`},
		"of the wrong spelling": {[]string{"Alarm"}, nil, `"Alarm"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := feature.Parse(tc.names)
			if (err != nil) != (tc.wrong != "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Fatalf("error %v, want one with %q", err, tc.wrong)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
