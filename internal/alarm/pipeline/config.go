package pipeline

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Source yields occurrences.
type Source interface {
	Position(ctx context.Context) (uint64, error)
	Run(ctx context.Context, start source.Start, handle source.Handler) error
}

// Dispatcher sends the messages in the outbox.
type Dispatcher interface {
	Run(ctx context.Context) error
	Wake(receivers ...string)
}

// CheckpointStore stores the progress of delivery in the cluster. Write returns
// checkpoint.ErrDeposed if another process wrote after the last Read or Write.
type CheckpointStore interface {
	Read(ctx context.Context) (last checkpoint.Checkpoint, found bool, err error)
	Write(ctx context.Context, next checkpoint.Checkpoint) error
}

// Reporter records what users must know.
type Reporter interface {
	// Evaluated: an alarm was evaluated for occurrences; err is the failure of an
	// expression, if any. The outbox has the counts for the status. If the outcome is
	// Undecided, err says what could not be read, and the occurrences are given up; if they
	// are 0, some still wait.
	Evaluated(id kube.Key, outcome match.Outcome, err error, occurrences int64)
	// Suppressed: occurrences matched, but are not sent.
	Suppressed(why Suppression, occurrences int64)
	// Merged: this many messages were saved, because other messages of their groups
	// contain their occurrences.
	Merged(messages int64)
	// GroupLimitReached: the alarm has too many open groups, and some are merged.
	GroupLimitReached(id kube.Key)
	// Dropped: occurrences of these alarms were dropped.
	Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string)
	// Reset: the stored position does not belong to this cluster's history.
	Reset(ctx context.Context, text string)
}

// Changes yields changes of objects.
type Changes interface {
	Run(ctx context.Context, handler objects.Handler) error
	SetNeeds(needs objects.Needs)
	SetReads(needs objects.Needs)
}

// Config configures a Pipeline. All fields are required but those that say otherwise.
type Config struct {
	// ClusterUID identifies the cluster.
	ClusterUID string
	Source     Source
	// Changes is the source of changes. Optional: without it, spec.changes and spec.states have
	// no effect.
	Changes    Changes
	Outbox     *outbox.Store
	Checkpoint CheckpointStore
	Dispatcher Dispatcher
	Alarms     *Alarms
	Namespaces match.Namespaces
	Enricher   Enricher
	Reporter   Reporter
	// Observe gets all occurrences before they are matched. It can get the same ones
	// twice.
	Observe func(ctx context.Context, occurrences []alarm.Occurrence)
	// LoadAlarms adds the existing alarms to Alarms. It is called before the first Event
	// is read, so that a restart misses none.
	LoadAlarms func(ctx context.Context) error
	// MaxAge is how long an occurrence waits for an object that cannot be read.
	MaxAge time.Duration
	// Receiver returns the receiver with a key, or false if there is none. Optional: all exist
	// then, and have their keys as IDs.
	Receiver func(key string) (Receiver, bool)
	Clock    clock.WithTicker
	Log      logr.Logger
}

// Pipeline leads Events to the receivers. Only one runs in a cluster at a time: that of
// the leader.
type Pipeline struct {
	Config
	matcher *matcher

	// unreadLimiter limits how often parked occurrences are tried without success.
	unreadLimiter *rate.Limiter

	// groupAdded receives a value after occurrences were added to a group.
	groupAdded chan struct{}

	// states is what spec.states needs. started is when this term began.
	states  *sweeps
	started time.Time

	epoch string
	// writing is full while the checkpoint is written. A write can take long, and others that wait
	// for it must not outlive their context.
	writing        chan struct{}
	lastCheckpoint checkpoint.Checkpoint
}

// pause waits for a time, or until one of the channels has a value or is closed.
func (p *Pipeline) pause(ctx context.Context, wait time.Duration, changed, wake <-chan struct{}) {
	timer := p.Clock.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-wake:
	case <-timer.C():
	}
}

// wakeGroups makes releaseGroups look for messages that are due.
func (p *Pipeline) wakeGroups() {
	select {
	case p.groupAdded <- struct{}{}:
	default: // already notified
	}
}
