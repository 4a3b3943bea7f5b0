// Package ledger counts what the outbox contains, by class and tenant, and decides whether more has
// space. The table of its classes has all limits.
//
// A tenant can use a share of the space that all tenants leave free. Each can thus take less than the one
// before it, and many full ones leave space for others.
package ledger

import (
	"math"
	"sync"
)

// Class is what space is used for.
type Class int

// The classes. Their tenants are those of outbox.Entry.Tenant, or namespaces for Objects and States.
const (
	// Messages are entries, and parts of messages of groups, that wait.
	Messages Class = iota
	// Parked are occurrences that wait for an object that cannot be read.
	Parked
	// Groups are open groups and thresholds.
	Groups
	// Objects are baselines and states.
	Objects
	// States is the number of states. All other classes count bytes.
	States
	classes
)

// limits limit a class.
type limits struct {
	// eighths is the part of the file that the class can use, and most the absolute limit; 0 is none.
	eighths, most int64
	// share divides what is free: a tenant can use one part.
	share int64
	// waits: the class is in the part of the file for what waits and for objects.
	waits bool
}

// table contains the limits of all classes. An eighth of the file remains for counts of Events and for
// messages that are being sent.
var table = [classes]limits{
	Messages: {eighths: eighthsForWaiting, share: 16, waits: true},
	Parked:   {eighths: 1, most: 32 << 20, share: 8, waits: true},
	Objects:  {eighths: 2, share: 4, waits: true},
	Groups:   {eighths: 2, share: 16},
	States:   {most: 100_000, share: 9},
}

// eighthsForWaiting is the part of the file for all classes that wait.
const eighthsForWaiting = 5

// unlimited is the space in a file without a limit.
const unlimited = math.MaxInt64 / 2

// Ledger counts what is used. It is safe for concurrent use.
type Ledger struct {
	mu   sync.RWMutex
	base *Ledger
	max  int64
	// disk is the free space for messages in the file, which other things can use up.
	disk int64
	used map[account]int64
	sum  [classes]int64
}

// account is a tenant of a class, and a receiver, or an empty text for all receivers.
type account struct {
	Class
	tenant, receiver string
}

// New returns an empty Ledger for a file with a limit, in bytes; 0 is no limit.
func New(maxBytes int64) *Ledger {
	return &Ledger{max: maxBytes, disk: unlimited, used: map[account]int64{}}
}

// Draft returns a Ledger that counts additions to this one, which stays as it is until Apply.
func (l *Ledger) Draft() *Ledger {
	return &Ledger{base: l, max: l.max, disk: unlimited, used: map[account]int64{}}
}

// LimitMessages limits the space for messages besides.
func (l *Ledger) LimitMessages(bytes int64) { l.disk = bytes }

// Apply adds what a Draft counted.
func (l *Ledger) Apply(draft *Ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, n := range draft.used {
		l.add(a, n)
	}
}

// Add adds to what a tenant uses. Less than 0 was removed.
func (l *Ledger) Add(c Class, tenant string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(account{c, tenant, ""}, n)
}

// AddMessage adds to the Messages that wait for a receiver of a tenant.
func (l *Ledger) AddMessage(tenant, receiver string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(account{Messages, tenant, ""}, bytes)
	l.add(account{Messages, tenant, receiver}, bytes)
}

func (l *Ledger) add(a account, n int64) {
	if a.receiver == "" {
		l.sum[a.Class] += n
	}
	if l.used[a] += n; l.used[a] == 0 {
		delete(l.used, a)
	}
}

// Clear removes all of a class.
func (l *Ledger) Clear(c Class) {
	for _, a := range l.accounts(c) {
		n := l.usedBy(a)
		l.mu.Lock()
		l.add(a, -n)
		l.mu.Unlock()
	}
}

// ClearAll removes all.
func (l *Ledger) ClearAll() {
	for c := range classes {
		l.Clear(c)
	}
}

// accounts returns the accounts of a class.
func (l *Ledger) accounts(c Class) (all []account) {
	if l.base != nil {
		all = l.base.accounts(c)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for a := range l.used {
		if a.Class == c {
			all = append(all, a)
		}
	}
	return all
}

// Used returns what a tenant uses.
func (l *Ledger) Used(c Class, tenant string) int64 { return l.usedBy(account{c, tenant, ""}) }

func (l *Ledger) usedBy(a account) (n int64) {
	if l.base != nil {
		n = l.base.usedBy(a)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return n + l.used[a]
}

// Sum returns what all tenants use.
func (l *Ledger) Sum(c Class) (sum int64) {
	if l.base != nil {
		sum = l.base.Sum(c)
	}
	return sum + l.own(c)
}

// own returns what this Ledger counts without its base.
func (l *Ledger) own(c Class) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sum[c]
}

// Fits reports whether a tenant has space for more. One part in so many of its share stays free; 0 is
// none.
func (l *Ledger) Fits(c Class, tenant string, more, leave int64) bool {
	share := l.share(c)
	if leave > 0 {
		share -= share / leave
	}
	return more <= 0 || l.Used(c, tenant)+more <= share
}

// FitsMessage reports whether a tenant has space for a message to a receiver. A receiver can use what its
// tenant leaves of its share, so that one that accepts nothing leaves space for the others.
func (l *Ledger) FitsMessage(tenant, receiver string, bytes int64) bool {
	return l.usedBy(account{Messages, tenant, receiver})+bytes <= l.share(Messages)-l.Used(Messages, tenant)
}

// share returns what a tenant can use of a class.
func (l *Ledger) share(c Class) int64 {
	of, free := table[c], int64(unlimited)
	if of.most > 0 {
		free = of.most - l.Sum(c)
	}
	if l.max > 0 && of.eighths > 0 {
		free = min(free, l.max/8*of.eighths-l.Sum(c))
	}
	if l.max > 0 && of.waits {
		free = min(free, l.max/8*eighthsForWaiting-l.Sum(Messages)-l.Sum(Parked)-l.Sum(Objects))
	}
	if c == Messages {
		free = min(free, l.disk-l.own(c))
	}
	return max(0, free) / of.share
}
