package enrich

import (
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/expiring"
)

// WithLongTimeout allows for reads on a busy machine.
func (e *Enricher) WithLongTimeout() *Enricher {
	e.timeout = time.Minute
	return e
}

// At changes the time at which causes are found.
func (e *Enricher) At(now time.Time) *Enricher {
	e.clock = clocktesting.NewFakePassiveClock(now)
	return e
}

// ForgetCached lets the objects be read again, as after cacheTTL.
func (e *Enricher) ForgetCached() {
	e.objects = expiring.New[cacheKey, alarm.Object](maxCachedObjects, cacheTTL, clock.RealClock{})
}
