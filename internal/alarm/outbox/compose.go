package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// Group describes a group when a message of it is made.
type Group struct {
	// ID is Membership.Group, By is Membership.By.
	ID string
	By []byte
	// Since is the time of the first occurrence. Total is the number of occurrences up to
	// this message.
	Since time.Time
	Total int64
	// First is true for the first message of the group.
	First bool
	// Resolved is true if the last part resolves the group.
	Resolved bool
}

// maxParts limits the parts of a message whose payload is read. The other parts are only
// counted.
const maxParts = 1_000

// Composer makes the payload of a group's message from its parts, oldest first, 1,000 at
// most. count is the number of occurrences of all parts. The same parts make the same
// payload.
type Composer func(g Group, parts []Entry, count int64) (payload []byte, err error)

func noComposer(Group, []Entry, int64) ([]byte, error) {
	return nil, errors.New("the outbox was opened without a composer")
}

// selectGroupOf selects the state of the group after the last part of a message. The message is
// the first of the group if its first part was due in that.
const (
	selectGroupOf = `
	SELECT by, since, total, (SELECT first FROM held WHERE entry = ?1 ORDER BY due LIMIT 1), resolved FROM held JOIN content ON content.id = held.content
	WHERE entry = ?1 ORDER BY due DESC, position DESC, key DESC LIMIT 1`
	selectParts = `
	SELECT held.alarm, key, stream, position, count, created_at, ends, data FROM held JOIN content ON content.id = held.content
	WHERE entry = ?1 ORDER BY due, position, key LIMIT ?2`
	selectChange = `SELECT 1 FROM held INDEXED BY held_change_by_entry WHERE entry = ?1 AND stream <> '' LIMIT 1`
)

// inOrderOf returns a query for the parts of a message in their order in the group, if one of
// them is a change. Positions of changes and Events are not comparable. A resolution can have the
// same total as the occurrence before it.
func inOrderOf(changes bool, query string) string {
	if !changes {
		return query
	}
	return strings.NewReplacer("ORDER BY due DESC,", "ORDER BY due DESC, total DESC, resolved DESC, ends DESC,",
		"ORDER BY due,", "ORDER BY due, total, resolved, ends,").Replace(query)
}

// composeMessage returns the payload of a group's message, made from its parts.
func (s *core) composeMessage(ctx context.Context, e *Entry, id string) ([]byte, error) {
	g := Group{ID: id}
	var changes bool
	if err := s.readers.QueryRowContext(ctx, selectChange, e.ID).Scan(&changes); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	err := s.readers.QueryRowContext(ctx, inOrderOf(changes, selectGroupOf), e.ID).Scan(&g.By, timestamp{&g.Since}, &g.Total, &g.First, &g.Resolved)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // it was finished meanwhile
	}
	if err != nil {
		return nil, err
	}
	g.Total = max(g.Total, e.Count) // after a replay that began within the group
	var parts []Entry
	rows, err := s.readers.QueryContext(ctx, inOrderOf(changes, selectParts), e.ID, maxParts)
	err = each(rows, err, func(rows *sql.Rows) error {
		p := Entry{Receiver: e.Receiver}
		p.Member = &Membership{Group: id}
		var ends bool
		err := rows.Scan(&p.Alarm, &p.Key, &p.Stream, &p.Position, &p.Count, timestamp{&p.CreatedAt}, &ends, &p.Payload)
		if ends {
			p.Member.Event.Kind = group.End
		}
		parts = append(parts, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.compose(g, parts, e.Count)
}
