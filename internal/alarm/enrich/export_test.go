package enrich

import "time"

// Patient lets a look-up take as long as a busy machine needs.
func (e *Enricher) WithLongTimeout() *Enricher {
	e.timeout = time.Minute
	return e
}
