package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// ContentBytes returns how many bytes entries with the same content count for: a payload
// that is stored once, and a row for each receiver. The factors are rounded up from what
// SQLite uses for a row and its indexes. A group has rows for its state and its message, too.
func ContentBytes(entries []Entry) int64 {
	sum := len(entries[0].Payload) + len(entries[0].by())
	for i := range entries {
		e := &entries[i]
		row := 256 + 8*len(e.Receiver) + 2*len(e.Alarm) + 2*len(e.Key)
		if e.Member != nil {
			row = 3*row + 128 + 3*len(e.Receiver)
		}
		sum += row
	}
	return int64(sum)
}

// Usage is how much space is used, in bytes.
type Usage struct {
	// Free is what new entries and parked occurrences can use. It is very large if the file
	// has no limit.
	Free int64
	// Tenant is what waits for all receivers of a tenant, and what is parked. A payload
	// counts once.
	Tenant int64
	// Receiver is what waits for one receiver of a tenant.
	Receiver int64
}

// messageBytes returns how many bytes can wait in a file with a limit. The rest is for the
// counts of Events, and for groups and thresholds.
func messageBytes(maxBytes int64) int64 { return maxBytes / 8 * 5 }

// totalAccount is the ID of the account of all tenants.
const totalAccount = 1

const selectUsage = `
	SELECT coalesce((SELECT bytes FROM account WHERE tenant = ?1 AND receiver = ''), 0),
		coalesce((SELECT bytes FROM account WHERE tenant = ?1 AND receiver = ?2), 0),
		(SELECT bytes FROM account WHERE id = 1), (` + file.SelectUsed + `)`

// Usage returns the space that entries of a tenant, and of a receiver within it, use, and
// parked occurrences of the tenant.
func (s *Store) Usage(ctx context.Context, tenant, receiver string) (u Usage, err error) {
	var waiting, used int64
	err = s.readers.QueryRowContext(ctx, selectUsage, tenant, receiver).Scan(&u.Tenant, &u.Receiver, &waiting, &used)
	u.Free = math.MaxInt64 / 2
	parked, parkedAll := s.memory.parkedIn(tenant)
	u.Tenant += parked
	if s.maxBytes > 0 {
		u.Free = max(0, min(messageBytes(s.maxBytes)-waiting-parkedAll-s.memory.allBaselines(), s.file.Usable()-used))
	}
	return u, s.read("read the use of the outbox", err)
}

// stateBytes returns how many bytes groups and thresholds can use in a file with a limit.
func stateBytes(maxBytes int64) int64 { return maxBytes / 4 }

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
	return int64(384 + 2*row)
}

// stateShare divides what is free for groups and windows: a tenant can use a sixteenth.
const stateShare = 16

// An open group that grows leaves a part of the space of its tenant to new groups and to
// thresholds. References leave a quarter. Messages that are sent again leave a half, because
// separate groups leave a quarter to the shared one.
const (
	leftByReferences = 4
	leftByRepeated   = 2
)

// StateUsage returns how many bytes the groups and windows of a tenant use, and how many it
// can use, from memory. The limit shrinks with what all tenants use. It is very large if the
// file has no limit.
func (s *Store) StateUsage(tenant string) (used, limit int64) {
	return s.memory.stateUsage(tenant, s.maxBytes)
}

func (m *memory) stateUsage(tenant string, maxBytes int64) (used, limit int64) {
	if maxBytes == 0 {
		return 0, math.MaxInt64 / 2
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stateBytes[tenant], max(0, stateBytes(maxBytes)-m.stateSum) / stateShare
}

// addState adds bytes of groups to a tenant.
func (tx *tx) addState(tenant string, bytes int64) {
	if tx.stateBytes == nil {
		tx.stateBytes = map[string]int64{}
	}
	tx.stateBytes[tenant] += bytes
	tx.after(func(m *memory) { m.addState(tenant, bytes) })
}

// hasStateSpace reports whether the tenant has space for more bytes of open groups. One part
// in so many of the space stays free.
func (tx *tx) hasStateSpace(tenant string, more, leave int64) bool {
	used, limit := tx.memory.stateUsage(tenant, tx.maxBytes)
	return more <= 0 || used+tx.stateBytes[tenant]+more <= limit-limit/leave
}

// maxAccounts is the number of accounts whose IDs are cached. When it is reached, those that
// are not used are deleted.
const maxAccounts = 4096

// accountKey is a tenant, and a receiver or an empty text.
type accountKey [2]string

// accounts adds bytes to accounts in a transaction.
type accounts struct {
	*tx
	// known are the cached IDs, created those that this transaction adds to them.
	known, created map[accountKey]int64
	added          map[int64]int64
}

// insertAll stores the entries of a batch.
func (tx *tx) insertAll(ctx context.Context, entries []Entry) error {
	a := &accounts{tx: tx, known: tx.accounts, created: map[accountKey]int64{}, added: map[int64]int64{}}
	if len(tx.accounts) >= maxAccounts {
		a.known = nil
		tx.after(func(*memory) { clear(tx.accounts) })
		if _, err := tx.exec(ctx, `DELETE FROM account WHERE bytes = 0 AND id <> ?`, totalAccount); err != nil {
			return err
		}
	}
	for from := 0; from < len(entries); {
		to := from + 1
		for to < len(entries) && entries[to].sharesContent(&entries[from]) {
			to++
		}
		if err := a.insert(ctx, entries[from:to]); err != nil {
			return err
		}
		from = to
	}
	for id, n := range a.added {
		if _, err := tx.exec(ctx, `UPDATE account SET bytes = bytes + ? WHERE id = ?`, n, id); err != nil {
			return err
		}
	}
	tx.after(func(*memory) { maps.Copy(tx.accounts, a.created) })
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

// insert stores entries that share their content.
func (a *accounts) insert(ctx context.Context, entries []Entry) error {
	first := &entries[0]
	if !first.stored() {
		_, err := a.tx.insert(ctx, first, 0, 0)
		return err
	}
	size := ContentBytes(entries)
	tenant, err := a.id(ctx, first.Tenant, "")
	if err != nil {
		return err
	}
	var content int64
	err = a.row(ctx, `INSERT INTO content (account, refs, bytes, by, data) VALUES (?, ?, ?, ifnull(?, x''), ifnull(?, x'')) RETURNING id`,
		tenant, len(entries), size, first.by(), first.Payload).Scan(&content)
	if err != nil {
		return err
	}
	a.added[tenant] += size
	a.added[totalAccount] += size
	refs := 0
	for i := range entries {
		e := &entries[i]
		account, err := a.id(ctx, e.Tenant, e.Receiver)
		if err != nil {
			return err
		}
		inserted, err := a.tx.insert(ctx, e, content, account)
		if err != nil {
			return err
		}
		if inserted {
			a.added[account] += size
			refs++
		}
	}
	return a.setRefs(ctx, content, refs, len(entries))
}

// setRefs corrects the number of rows that use a content, after some of them existed
// before.
func (a *accounts) setRefs(ctx context.Context, content int64, refs, expected int) (err error) {
	switch refs {
	case expected:
	case 0:
		_, err = a.exec(ctx, `DELETE FROM content WHERE id = ?`, content)
	default:
		_, err = a.exec(ctx, `UPDATE content SET refs = ? WHERE id = ?`, refs, content)
	}
	return err
}

// id returns the ID of an account, which it creates if there is none.
func (a *accounts) id(ctx context.Context, tenant, receiver string) (id int64, err error) {
	key := accountKey{tenant, receiver}
	if id, ok := a.known[key]; ok {
		return id, nil
	}
	if id, ok := a.created[key]; ok {
		return id, nil
	}
	err = a.row(ctx, `SELECT id FROM account WHERE tenant = ? AND receiver = ?`, tenant, receiver).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = a.row(ctx, `INSERT INTO account (tenant, receiver, bytes) VALUES (?, ?, 0) RETURNING id`, tenant, receiver).Scan(&id)
	}
	a.created[key] = id
	return id, err
}
