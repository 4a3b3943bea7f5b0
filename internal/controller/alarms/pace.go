package alarms

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// paceSeconds is how long it takes until a namespace that has used its time to compile can use the
// same time again. About a second of ten is used at most.
const paceSeconds = 10

// pace limits how fast the Alarms of each namespace are compiled, by their estimated memory. Their
// authors could otherwise keep all processors busy with changes.
type pace struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

func newPace(c clock.PassiveClock) *pace {
	return &pace{clock: c, limiters: map[string]*rate.Limiter{}}
}

// wait returns how long it takes until an Alarm with this estimate may be compiled. If it is zero, the
// Alarm counts as compiled. The estimate is at most maxNamespaceMemory.
func (p *pace) wait(namespace string, estimate int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	limiter, ok := p.limiters[namespace]
	if !ok {
		maps.DeleteFunc(p.limiters, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= maxNamespaceMemory })
		limiter = rate.NewLimiter(maxNamespaceMemory/paceSeconds, maxNamespaceMemory)
		p.limiters[namespace] = limiter
	}
	reservation := limiter.ReserveN(now, int(estimate))
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
	}
	return delay
}
