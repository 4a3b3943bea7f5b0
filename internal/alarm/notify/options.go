package notify

import (
	"cmp"
	"time"
)

// Options of a Dispatcher; a zero field takes its default.
type Options struct {
	// MaxAge is how long delivery of a message is tried. Default: 24 h.
	MaxAge time.Duration
	// RequestTimeout bounds one attempt. Default: 10 s.
	RequestTimeout time.Duration
	// MinBackoff and MaxBackoff bound the pause after a failed attempt.
	// Defaults: 1 s and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Grace is how long requests in flight may still take when Run ends. It must
	// be shorter than another leader's takeover. Default: 3 s.
	Grace time.Duration
	// Orphaned tells of a receiver that was never configured that nobody who could
	// make it is left: what is pending for it is dropped. Default: none is.
	Orphaned func(key string) bool
}

func (o Options) withDefaults() Options {
	o.MaxAge = cmp.Or(o.MaxAge, 24*time.Hour)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, time.Second)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	o.Grace = cmp.Or(o.Grace, 3*time.Second)
	if o.Orphaned == nil {
		o.Orphaned = func(string) bool { return false }
	}
	return o
}
