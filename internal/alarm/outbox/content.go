package outbox

import (
	"bytes"
	"context"
	"database/sql"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// Bytes returns how many bytes an entry counts for: its payload and rows. The factors are rounded up
// from what SQLite uses for a row and its indexes. A group has rows for its state and its message, too.
func (e *Entry) Bytes() int64 {
	row := 256 + 8*len(e.Receiver) + 2*len(e.Alarm) + 2*len(e.Key) + 2*len(e.Tenant)
	if e.Member != nil {
		row = 3*row + 128 + 3*len(e.Receiver)
	}
	return int64(row + len(e.Payload) + len(e.by()))
}

// Space returns a draft of the space that is used, for a decision: see [ledger.Ledger.Draft]. Commit
// stores what was decided, and counts it by itself.
func (s *Store) Space(ctx context.Context) (*ledger.Ledger, error) {
	draft := s.memory.space.Draft()
	if s.maxBytes == 0 {
		return draft, nil
	}
	used, err := s.Used(ctx)
	draft.LimitMessages(max(0, s.file.Usable()-used))
	return draft, err
}

// maxLocal is less than what SQLite stores of a row of groups or windows outside a page of
// its own.
const maxLocal = 900

// GroupBytes returns how many bytes an open group of a receiver counts for, rounded up from
// what SQLite uses for the row and its indexes. Its ID has 64 characters at most, its name
// [MaxGroupName] bytes.
func GroupBytes(receiver, alarm, tenant, name string) int64 {
	return int64(640 + 10*len(receiver) + 3*len(alarm) + 2*len(tenant) + 2*len(name))
}

// referenceBytes is what the reference of a group counts for besides.
func referenceBytes(reference, name string) int64 {
	if reference != "" && len(reference)+len(name) > 100 { // all together can be longer than maxLocal
		return int64(2*len(reference) + file.PageSize)
	}
	return int64(2 * len(reference))
}

// WindowBytes returns how many bytes a window counts for whose state has a maximum size.
func WindowBytes(alarm, tenant string, maxState int) int64 {
	row := len(alarm) + len(tenant) + maxState + 128
	if row > maxLocal {
		row += file.PageSize * (1 + row/file.PageSize)
	}
	return int64(512 + 2*row)
}

// An open group that grows leaves a part of the space of its tenant to new groups and to
// thresholds. References leave a quarter. Messages that are sent again leave a half, because
// separate groups leave a quarter to the shared one.
const (
	leftByReferences = 4
	leftByRepeated   = 2
)

// putMessage stores a message that one row uses, in place of an earlier one of this row, if there is one.
func (tx *tx) putMessage(ctx context.Context, earlier sql.Null[int64], data []byte) (id int64, err error) {
	if earlier.Valid {
		_, err = tx.exec(ctx, `UPDATE content SET data = ? WHERE id = ?`, data, earlier.V)
		return earlier.V, err
	}
	err = tx.row(ctx, `INSERT INTO content (refs, by, data) VALUES (1, x'', ifnull(?, x'')) RETURNING id`, data).Scan(&id)
	return id, err
}

// insertAll stores entries. Neighbors with the same content share it.
func (tx *tx) insertAll(ctx context.Context, entries []Entry) error {
	for from := 0; from < len(entries); {
		to := from + 1
		for to < len(entries) && entries[to].sharesContent(&entries[from]) {
			to++
		}
		if err := tx.insertShared(ctx, entries[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// sharesContent reports whether two entries are about the same occurrence and have the same
// content.
func (e *Entry) sharesContent(other *Entry) bool {
	return e.stored() && other.stored() && e.Position == other.Position && e.Alarm == other.Alarm && e.Tenant == other.Tenant &&
		bytes.Equal(e.Payload, other.Payload) && bytes.Equal(e.by(), other.by())
}

// stored reports whether Commit stores the content of the entry.
func (e *Entry) stored() bool { return e.Member == nil || e.Member.Event.Message == group.New }

func (e *Entry) by() []byte {
	if e.Member == nil {
		return nil
	}
	return e.Member.By
}

// insertShared stores entries that share their content.
func (tx *tx) insertShared(ctx context.Context, entries []Entry) error {
	first := &entries[0]
	if !first.stored() {
		_, err := tx.insert(ctx, first, 0)
		return err
	}
	var content int64
	err := tx.row(ctx, `INSERT INTO content (refs, by, data) VALUES (?, ifnull(?, x''), ifnull(?, x'')) RETURNING id`,
		len(entries), first.by(), first.Payload).Scan(&content)
	if err != nil {
		return err
	}
	refs := 0
	for i := range entries {
		e := &entries[i]
		inserted, err := tx.insert(ctx, e, content)
		if err != nil {
			return err
		}
		if inserted {
			tx.space.AddMessage(e.Tenant, e.Receiver, e.Bytes())
			refs++
		}
	}
	switch refs {
	case len(entries):
	case 0:
		_, err = tx.exec(ctx, `DELETE FROM content WHERE id = ?`, content)
	default: // the others existed before
		_, err = tx.exec(ctx, `UPDATE content SET refs = ? WHERE id = ?`, refs, content)
	}
	return err
}
