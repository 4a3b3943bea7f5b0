// Package source reads the Events of the API server as an ordered, resumable stream of
// occurrences. An occurrence is an increase of the count of an Event. The source watches
// events.k8s.io/v1 as protobuf without an informer cache and resumes at a position. If
// the position has expired, it lists the Events.
//
// The source evaluates no alarms and stores nothing. The handler commits each batch,
// together with the position, before it gets the next one.
//
// # State
//
// For each live Event, the source remembers its UID, its count, and the position at which
// it had that count: about 36 bytes in memory. The API server reports an expired Event as deleted.
// The next list finds those whose deletion was not seen.
//
// # Limits of a list
//
// A list shows only the present Events. Several increases of one Event become one, and an
// Event that was created and deleted in between is lost. A broken watch is therefore
// resumed first. A position counts as expired only if the watch brings nothing: it ends
// with an error of the API server, or closes at once. A connection that breaks shows nothing.
//
// A list in pages continues at a newer position if its own expires, three times at most. The
// API server keeps a position for five minutes or more. Events can be created faster than
// pages are read, and the list would never end. The first list then counts as incomplete: the
// watch begins at its position, with another list. Other lists begin again. They are faster
// then, because the counts of the first try are remembered.
//
// # Silent watches
//
// A proxy can keep a connection alive and deliver nothing. If nothing comes for 100
// seconds, the source opens the watch again at its position, on a new connection.
//
// # Changes of the history
//
// If the newest position of the API server is before the known one, etcd was restored
// from an older copy. If the restore raised the resourceVersion instead, the position has
// expired, and the list contains Events as they were earlier. In both cases, the counts
// stay the baseline: only increases of known Events are reported. An unknown Event is
// reported if it is not older than the newest Event that was read.
package source

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// The source watches all Events, and lists them if a position has expired.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=list;watch

// Start is where the source begins to read.
type Start struct {
	// Position is the last committed position. 0 begins now: earlier occurrences are not
	// reported.
	Position uint64
	// Time is the last committed Batch.Time, zero if it is unknown. It matters only if a
	// count is missing: an Event that is not newer existed at Position, and counts as one
	// occurrence. If it is unknown, that applies to every Event. It must not be too late.
	Time time.Time
	// Needed is a position during a replay: the occurrences before it were handled, and only
	// restore state. If Position has expired, the source lists the Events as of Needed and
	// continues there, so that it misses no later occurrence. 0 is none.
	Needed uint64
	// Until is the end of a replay: the position up to which all Events were read before.
	// If Position and Needed have expired, the source lists the Events as of Until. Without a
	// replay, it is 0. UntilTime is like Time, for Until.
	Until     uint64
	UntilTime time.Time
	// Counts are the counts as committed with Position, in any order; nil is none. They
	// are read once, when Run begins. Run returns their error.
	Counts iter.Seq2[alarm.EventCount, error]
	// CountsKnown is true if Counts is complete as of Position. Otherwise, the source
	// lists the Events as of that position.
	CountsKnown bool
}

// Batch contains the next changes. Commit all of it in one transaction.
type Batch struct {
	// Position is where to resume after the commit. It grows with each batch, except with
	// a Reset. It stays the same during a list, so that an unfinished list is repeated.
	Position uint64
	// Time is the creation time of the newest Event that was read, by the API server's
	// clock.
	Time time.Time
	// ReadUpTo is a time up to which all Events are read after this batch, by the clock of this
	// machine. It is zero if the batch does not show that.
	ReadUpTo time.Time
	// Occurrences are in order of position, 512 at most. Occurrences of a list are in
	// order within windows of 10,000. The API server lists by name, and a list is too large
	// for memory.
	Occurrences []alarm.Occurrence
	// Counts are the counts that changed, each UID once, 4,096 at most.
	Counts []alarm.EventCount
	// CountsKnown is true if all counts as of Position are known after this batch. It
	// becomes the next Start.CountsKnown.
	CountsKnown bool
	// Forget contains the UIDs of deleted Events. None of them is in Counts.
	Forget []string
	// Reset is set if Position belongs to another history than the position before. All
	// Occurrences then belong to the new history.
	Reset *Reset
}

// Reset reports that the former position does not belong to the history of the API
// server.
type Reset struct {
	// Reason is a text for users.
	Reason string
}

// Handler commits a batch, which must be durable when Handler returns nil. After an
// error, it gets the same batch again after a backoff, until it succeeds. The handler can
// keep the batch.
type Handler func(ctx context.Context, b Batch) error

// Source reads the Events of one API server. It is safe for concurrent use, but only one
// call of Run can be active.
type Source struct {
	client  *client
	clock   clock.Clock
	log     logr.Logger
	backoff wait.Backoff
	// earlyClose is apiwatch.EarlyClose, except in tests.
	earlyClose time.Duration
	lag        prometheus.Histogram

	mu    sync.Mutex
	state State
	// uncommitted is the time of the oldest change in the batch that is being committed.
	uncommitted time.Time
	// taken is when this batch was offered for the first time; zero if there is none.
	taken time.Time
	// failure is the last error of the handler, nil after a success.
	failure error
}

// New returns a source for the API server of cfg. It sets the content type to protobuf
// and removes the client's rate limit, because API Priority and Fairness limits requests.
func New(cfg *rest.Config, clk clock.Clock, log logr.Logger) (*Source, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{
		client:     c,
		clock:      clk,
		log:        log,
		backoff:    defaultBackoff,
		earlyClose: apiwatch.EarlyClose,
		lag:        newLag(),
	}, nil
}

// defaultBackoff waits 1 s to 20 s, plus a random part of up to a half.
var defaultBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 20 * time.Second}

// Run reads Events and calls handle with one batch after another until ctx ends. It then
// returns nil and leaves no goroutine and no connection. The first batch can be without occurrences: its
// position must be committed first. Run retries failures of the API server and of the
// handler. It only returns errors of start.Counts.
func (s *Source) Run(ctx context.Context, start Start, handle Handler) error {
	changes := make(chan change, maxChanges)
	remembered := &counts{}
	if err := remembered.load(start.Counts); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	r := newReader(s, start, remembered, changes)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(changes)
		r.run(ctx)
	})
	s.deliver(ctx, changes, handle)
	reading.Wait()
	s.client.connections.CloseAll()
	s.stopped()
	return nil
}

// Position returns the newest position of the API server.
func (s *Source) Position(ctx context.Context) (uint64, error) { return s.client.current(ctx) }

// sleep waits for d, or until ctx ends.
func (s *Source) sleep(ctx context.Context, d time.Duration) {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

const (
	// maxOccurrences limits the occurrences of a batch, and maxChanges all its changes.
	// maxChanges is also the number of changes that can wait for the handler before the
	// watch pauses.
	maxOccurrences = 512
	maxChanges     = 4096
	// listWindow is the number of occurrences of a list that are sorted together.
	listWindow = 10_000
)
