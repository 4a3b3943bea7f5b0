// Package eventfeed turns the API server's Events into an ordered, resumable
// stream of occurrences: it watches events.k8s.io/v1 as protobuf without an
// informer cache, resumes at a position, lists again when the position has
// expired, and tells an increase of an Event's count from a mere change.
//
// It decides nothing about alarms and stores nothing: who consumes a batch
// commits it, together with the position, before the next one is handed out.
//
// # What is remembered
//
// Of each live Event its UID, its count, and the position at which it had that
// count: about 55 bytes. The API server tells of an Event that expires as of one
// that is deleted; those that went unseen are found by the next list.
//
// # What a list cannot tell
//
// A list is needed where the position has expired. It gives the Events as they
// stand: of several increases of one Event their sum, of an Event that came and
// went meanwhile nothing. So a watch that merely broke is resumed first; only
// one that brings nothing at all, by an error or by closing at once, is taken for
// expired.
//
// # When the history changes
//
// An API server that is behind the position was restored from an older copy. The
// counts stay the baseline: of what is known again only increases are reported;
// what is not known is reported if it is not older than the newest Event read.
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
)

// The feed watches all Events, and lists them where a position has expired. Whoever
// follows it for a while lists what came before.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=list;watch

// Start says where the feed begins.
type Start struct {
	// Position is the last one committed. 0 begins now: what happened before is
	// not reported.
	Position uint64
	// Time is the last Batch.Time committed, or the zero time if it is not known.
	// It is asked only where a count is missing: what was created before it has
	// been seen before. It may be too early (more is reported then), never too late.
	Time time.Time
	// Counts are the counts as they were committed with Position, in any order; nil
	// is none. It is read once, when Run begins; Run returns its error.
	Counts iter.Seq2[Count, error]
	// CountsKnown says that Counts is complete as of Position. Without it the feed
	// asks the API server for the counts as they stood then.
	CountsKnown bool
}

// Count is what the feed remembers of one live Event.
type Count struct {
	// UID of the Event.
	UID string
	// Count is how often it has occurred.
	Count int64
	// Position is the resourceVersion at which it had that count.
	Position uint64
}

// Batch is what happened next. Its parts belong into one transaction.
type Batch struct {
	// Position is where to resume once the batch is committed. It grows from batch
	// to batch but for one that carries a Reset, and stays where it was while a list
	// is under way, so that an unfinished list is done again.
	Position uint64
	// Time is the creation time of the newest Event seen, on the API server's clock.
	Time time.Time
	// Occurrences are in order of position, but for those found by listing, which
	// are in order within windows of 10,000: the API server lists in order of names,
	// and a list is not held in memory. At most 512.
	Occurrences []alarm.Occurrence
	// Counts are those that changed, each UID once. After a first list they are all
	// there are; otherwise at most 4,096.
	Counts []Count
	// CountsKnown says that with these all counts as of Position are known: the next
	// Start.CountsKnown.
	CountsKnown bool
	// Forget lists the UIDs of Events that are gone; none of them is in Counts.
	Forget []string
	// Reset is set if Position is not of the same history as the one before.
	Reset *Reset
}

// Reset tells that the API server's Events are not those of which the position
// was taken.
type Reset struct {
	// Reason is a sentence for a user.
	Reason string
}

// Handler commits a batch: when it returns nil, the batch must be durable. On an
// error the same batch is offered again after a back-off, as often as needed;
// nothing is skipped. The batch is the handler's to keep.
type Handler func(ctx context.Context, b Batch) error

// Feed reads the Events of one API server. It is safe for concurrent use, but
// Run may be under way only once at a time.
type Source struct {
	client  *client
	clock   clock.Clock
	log     logr.Logger
	backoff wait.Backoff
	// earlyClose is the constant of that name, except in tests.
	earlyClose time.Duration
	lag        prometheus.Histogram

	mu    sync.Mutex
	state State
	// uncommitted is when the oldest of the batch happened that is being committed.
	uncommitted time.Time
	// failure is the handler's last error, nil once it has succeeded.
	failure error
}

// New returns a feed of the API server that cfg describes. The configuration's
// content type and rate limit are overridden: protobuf, and no limit, since API
// Priority and Fairness governs.
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
		earlyClose: earlyClose,
		lag:        newLag(),
	}, nil
}

// defaultBackoff waits from 1 s to 20 s, and each time up to half as long again.
var defaultBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 20 * time.Second}

// Run reads from start on and hands each batch to handle, one at a time, until
// ctx ends; then it returns nil and has left no goroutine behind. The first batch
// may hold no occurrence: it carries the position to commit before anything is
// consumed. Failures of the API server and of the handler are retried inside. An
// error is one of start.Counts.
func (f *Source) Run(ctx context.Context, start Start, handle Handler) error {
	changes := make(chan change, maxChanges)
	r, err := newReader(f, start, changes)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(changes)
		r.run(ctx)
	})
	f.deliver(ctx, changes, handle)
	reading.Wait()
	f.stopped()
	return nil
}

// sleep waits for d, or until ctx ends.
func (f *Source) sleep(ctx context.Context, d time.Duration) {
	timer := f.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

const (
	// maxOccurrences bounds the occurrences, maxChanges all entries of a batch; the
	// latter is also how many changes may wait for the handler before the watch is
	// held back.
	maxOccurrences = 512
	maxChanges     = 4096
	// listWindow is how many occurrences of a list are sorted together.
	listWindow = 10_000
	// pageSize is how many Events are asked for at once.
	pageSize = 500
	// listTimeout bounds the request for one page.
	listTimeout = time.Minute
	// watchTimeout is how long a watch is asked to last at least; it is spread up to
	// twice that. The API server's own default is the same (--min-request-timeout).
	watchTimeout = 30 * time.Minute
	// watchGrace is how long after that the client ends a watch that the server
	// did not.
	watchGrace = 30 * time.Second
	// earlyClose is how long a watch must last to be believed if it brought nothing:
	// some API servers answer an expired position by closing silently
	// (kubernetes#104171, kubernetes#137089).
	earlyClose = 5 * time.Second
)
