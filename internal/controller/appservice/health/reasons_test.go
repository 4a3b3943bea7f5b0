package health_test

import (
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/probe"
)

// A history is written to the status as it is.
func TestAHistoryHasTheNamesOfTheAPI(t *testing.T) {
	for got, want := range map[string]string{
		probe.ReasonFailed:      v1alpha1.ReasonHealthCheckFailed,
		probe.ReasonLeaked:      v1alpha1.ReasonExecLeaked,
		probe.ReasonUnreachable: v1alpha1.ReasonHealthCheckUnreachable,
		probe.ReasonForbidden:   v1alpha1.ReasonExecForbidden,
		probe.ReasonNotChecked:  v1alpha1.ReasonNotChecked,
		string(probe.Unhealthy): string(v1alpha1.PodUnhealthy),
		string(probe.Unknown):   string(v1alpha1.PodHealthUnknown),
	} {
		if got != want {
			t.Errorf("%s in a history is %s in the API", got, want)
		}
	}
}
