package enrich

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/expiring"
)

// WithLongTimeout allows for reads on a busy machine.
func (e *Enricher) WithLongTimeout() *Enricher {
	e.timeout = time.Minute
	return e
}

// ForgetCached lets the objects be read again, as after cacheTTL.
func (e *Enricher) ForgetCached() {
	e.objects = expiring.New[cacheKey, alarm.Object](maxCachedObjects, cacheTTL, clock.RealClock{})
}
