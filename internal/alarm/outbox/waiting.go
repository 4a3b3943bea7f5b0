package outbox

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// Waiting is how much waits for a receiver that the checkpoint lists by key.
type Waiting struct {
	// Events and Changes are numbers of occurrences. Lowest is the lowest position of the Events.
	Events, Changes int
	Lowest          uint64
}

const countWaiting = `
	SELECT receiver, sum(stream = ''), sum(stream <> ''), coalesce(min(iif(stream = '', position, NULL)), 0) FROM waiting GROUP BY receiver`

// CountWaiting counts what WaitingKeys returns without limits, by receiver.
func (s *Store) CountWaiting(ctx context.Context) (map[string]Waiting, error) {
	counts := map[string]Waiting{}
	rows, err := s.readers.QueryContext(ctx, countWaiting)
	return counts, s.read("count what waits", each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var w Waiting
		err := rows.Scan(&receiver, &w.Events, &w.Changes, &w.Lowest)
		counts[receiver] = w
		return err
	}))
}

const (
	// Both lists are not null: nothing is unequal to that.
	selectWaiting = `
		SELECT receiver, stream, key, position FROM waiting
		WHERE stream = '' AND receiver NOT IN (SELECT value FROM json_each(?1)) OR stream <> '' AND receiver NOT IN (SELECT value FROM json_each(?2))`
	// No change is parked.
	selectNewest = `
		SELECT receiver, stream, key, position FROM entry WHERE receiver = ?1 AND stream <> '' AND late = 1
		UNION ALL SELECT receiver, stream, key, position FROM held WHERE receiver = ?1 AND stream <> ''
		ORDER BY position DESC LIMIT ?2`
)

// WaitingKeys returns what is not sent, although the delivered offset of its receiver passes it. That is
// what is in groups and their messages, parked, late or set aside, and all changes. The result is by stream, with an
// empty name for that of Events. It omits the Events for the receivers in except, and all but the newest
// changes of some receivers.
func (s *Store) WaitingKeys(ctx context.Context, except []string, newest map[string]int) (map[string]progress.Waiting, error) {
	waiting := map[string]progress.Waiting{"": {}}
	add := func(rows *sql.Rows) error {
		var receiver, stream, key string
		var position uint64
		err := rows.Scan(&receiver, &stream, &key, &position)
		if waiting[stream] == nil {
			waiting[stream] = progress.Waiting{}
		}
		waiting[stream].Add(receiver, key, position)
		return err
	}
	limited := slices.AppendSeq([]string{}, maps.Keys(newest))
	rows, err := s.readers.QueryContext(ctx, selectWaiting, jsonColumn{append([]string{}, except...)}, jsonColumn{limited})
	err = each(rows, err, add)
	for i := 0; i < len(limited) && err == nil; i++ {
		rows, err = s.readers.QueryContext(ctx, selectNewest, limited[i], newest[limited[i]])
		err = each(rows, err, add)
	}
	return waiting, s.read("read what waits", err)
}
