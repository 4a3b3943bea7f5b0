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
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// The source watches all Events, and lists them if a position has expired.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=list;watch

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
		backoff:    apiwatch.Backoff,
		earlyClose: apiwatch.EarlyClose,
		lag:        newLag(),
	}, nil
}

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
	s.client.Close()
	s.stopped()
	return nil
}

// Position returns the newest position of the API server.
func (s *Source) Position(ctx context.Context) (uint64, error) { return s.client.Current(ctx) }
