package notify

import "golang.org/x/time/rate"

// limiters are those in use. Receivers with equal limits share one.
type limiters map[Limit]*limiter

type limiter struct {
	*rate.Limiter
	users int
}

// acquire returns the limiter of r, nil if there is no limit.
func (l limiters) acquire(r *Receiver) *rate.Limiter {
	limit := limitOf(r)
	if limit.Every <= 0 {
		return nil
	}
	shared, ok := l[limit]
	if !ok {
		shared = &limiter{Limiter: rate.NewLimiter(rate.Every(limit.Every), 1)}
		l[limit] = shared
	}
	shared.users++
	return shared.Limiter
}

func (l limiters) release(r *Receiver) {
	limit := limitOf(r)
	shared, ok := l[limit]
	if !ok {
		return
	}
	if shared.users--; shared.users == 0 {
		delete(l, limit)
	}
}

// limitOf is the zero Limit of nil. Without a key of its own a limit is the
// receiver's alone.
func limitOf(r *Receiver) Limit {
	if r == nil || r.Limit.Every <= 0 {
		return Limit{}
	}
	limit := r.Limit
	if limit.Key == "" {
		limit.Key = r.Key
	}
	return limit
}
