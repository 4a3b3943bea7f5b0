package objects

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Store returns what was committed: see [outbox.Streams].
type Store interface {
	// All returns all streams by name.
	All(ctx context.Context) (map[string]outbox.Stream, error)
	// Baselines returns the baselines of a stream without their data.
	Baselines(ctx context.Context, stream string) iter.Seq2[outbox.Baseline, error]
	// BaselineData returns these baselines of a stream by UID, as far as they exist.
	BaselineData(ctx context.Context, stream string, uids []string) (map[string]outbox.Baseline, error)
	// Drop removes a stream and its baselines. If it fails, it must leave no stream that
	// is complete.
	Drop(ctx context.Context, name string) error
}

// Batch contains the next changes of a resource. Commit all of it in one transaction.
type Batch struct {
	// Resource has the version that is read.
	Resource alarm.Resource
	// Stream is the new state of the stream.
	Stream outbox.Stream
	// Changes are in the order in which the API server reported them, at most maxChanges. Each
	// has a Change, and an Event that describes it.
	Changes []alarm.Occurrence
	// Put are new baselines. Delete are the UIDs of objects that no longer have one. Each UID
	// is in one of them, once.
	Put    []outbox.Baseline
	Delete []string
	// Lost says why changes before this batch can be lost, in a text for users. It is empty if
	// none are.
	Lost string
}

// Handler commits a batch, which must be durable when Handler returns nil. After an error, it
// gets the same batch again after a backoff, until it succeeds. It is called for several
// resources at once, and for one batch of a resource at a time.
type Handler func(ctx context.Context, b Batch) error

// Source watches the resources that alarms need. It is safe for concurrent use, but only one
// call of Run can be active.
type Source struct {
	cfg     *rest.Config
	store   Store
	clock   clock.Clock
	log     logr.Logger
	catalog *catalog
	reads   *reads
	// missing is missingTime, and pageSize is 0 for that of the client, except in tests.
	missing  time.Duration
	pageSize int64

	// changed has a value after a change of needs.
	changed chan struct{}
	// chosen is the last choice. It belongs to Run.
	chosen map[string]choice

	mu        sync.Mutex
	observers []func(Concerns)
	known     bool // SetNeeds was called
	needs     Needs
	statuses  map[string]Status  // by the name of the stream
	kept      map[string]*shapes // what every object of a stream is compared in
	refused   map[alarm.Resource]Status
	pauses    map[string]time.Time // by the name of the stream: when its next list may begin
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
