package culling

import (
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Settings is spec.culling.
type Settings struct {
	IdleTimeout, Warning, Period, Timeout time.Duration
	FailureThreshold                      int
}

// SettingsOf reads spec.culling, whose defaults the API server has filled in; an
// object of before a field was added may lack them.
func SettingsOf(c v1alpha1.JupyterCulling) Settings {
	warning := int32(300)
	if c.WarningSeconds != nil {
		warning = *c.WarningSeconds
	}
	return Settings{
		IdleTimeout:      seconds(c.IdleTimeoutSeconds, 3600),
		Warning:          seconds(warning, 0),
		Period:           seconds(c.PeriodSeconds, 60),
		Timeout:          seconds(c.TimeoutSeconds, 5),
		FailureThreshold: int(orDefault(c.FailureThreshold, 3)),
	}
}

func seconds(n, unset int32) time.Duration {
	return time.Duration(orDefault(n, unset)) * time.Second
}

func orDefault(n, unset int32) int32 {
	if n == 0 {
		return unset
	}
	return n
}

// untilIdle is how long a notebook is unused before that is said.
func (s Settings) untilIdle() time.Duration { return max(0, s.IdleTimeout-s.Warning) }

// fresh is how old a probe may be to tell of now, and how far two of a row may lie
// apart.
func (s Settings) fresh() time.Duration { return 2*s.Period + s.Timeout }
