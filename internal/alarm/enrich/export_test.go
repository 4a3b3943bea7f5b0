package enrich

import "time"

// WithLongTimeout allows for reads on a busy machine.
func (e *Enricher) WithLongTimeout() *Enricher {
	e.timeout = time.Minute
	return e
}

// ForgetCached lets the objects be read again, as after cacheTTL.
func (e *Enricher) ForgetCached() { e.objects.Purge() }
