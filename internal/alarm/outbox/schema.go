package outbox

import (
	"context"
	"database/sql"
	"fmt"
)

// migrations bring a file from the version of their index to the next one;
// the number of them is the version that this release knows. They are never
// edited once released: a change is a new one.
var migrations = []string{
	`CREATE TABLE state (
		id         INTEGER PRIMARY KEY CHECK (id = 1),
		cluster    TEXT NOT NULL,
		epoch      TEXT NOT NULL,
		next_epoch TEXT NOT NULL,
		position   INTEGER NOT NULL,
		time       INTEGER NOT NULL,
		counted    INTEGER NOT NULL,
		floors     TEXT NOT NULL,
		history    TEXT NOT NULL
	) STRICT;
	INSERT INTO state VALUES (1, '', '', '', 0, 0, 0, '{}', '');

	-- AUTOINCREMENT: an id is never used again, so that "up to this id" means the
	-- same entries for as long as an attempt lives. What freezing 100,000 entries
	-- reads of them is in entry_by_age.
	CREATE TABLE entry (
		id         INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		key        TEXT NOT NULL,
		position   INTEGER NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		payload    BLOB NOT NULL
	) STRICT;
	CREATE UNIQUE INDEX entry_by_key ON entry (receiver, key);
	CREATE INDEX entry_by_age ON entry (receiver, id, created_at, count);
	CREATE INDEX entry_by_position ON entry (receiver, position);

	-- An attempt stands for the entries of its receiver up to the id in last. A
	-- settled one is there only until the last of its entries is removed.
	CREATE TABLE attempt (
		id          INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver    TEXT NOT NULL UNIQUE,
		key         TEXT NOT NULL,
		body        BLOB NOT NULL,
		last        INTEGER NOT NULL,
		entries     INTEGER NOT NULL,
		count       INTEGER NOT NULL,
		oldest      INTEGER NOT NULL,
		first_tried INTEGER NOT NULL,
		settled     INTEGER NOT NULL DEFAULT 0
	) STRICT;

	-- uid is a BLOB of 16 bytes where it is a UUID, else TEXT.
	CREATE TABLE event_count (
		uid      ANY PRIMARY KEY NOT NULL,
		count    INTEGER NOT NULL,
		position INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;`,

	`ALTER TABLE state ADD COLUMN newest INTEGER NOT NULL DEFAULT 0;

	CREATE TABLE window (
		id    TEXT PRIMARY KEY NOT NULL,
		alarm TEXT NOT NULL,
		until INTEGER NOT NULL,
		state BLOB NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX window_by_end ON window (until);`,

	// What is remembered of an open group of a receiver.
	`CREATE TABLE grp (
		receiver  TEXT NOT NULL,
		id        TEXT NOT NULL,
		alarm     TEXT NOT NULL,
		by        BLOB NOT NULL,
		since     INTEGER NOT NULL,
		newest    INTEGER NOT NULL,
		due       INTEGER NOT NULL,
		total     INTEGER NOT NULL,
		released  INTEGER NOT NULL,
		resolved  INTEGER NOT NULL,
		first     INTEGER NOT NULL,
		reference TEXT NOT NULL,
		PRIMARY KEY (receiver, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX grp_by_age ON grp (newest);
	CREATE INDEX grp_by_id ON grp (id);

	-- What waits in groups. Once its message is made it stays as long as that does: a
	-- replay must know it, and another leader may have served a part of it. What is said
	-- of the group is as it was with this part: the group may go on before it is told.
	CREATE TABLE held (
		receiver   TEXT NOT NULL,
		key        TEXT NOT NULL,
		grp        TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		position   INTEGER NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		due        INTEGER NOT NULL,
		payload    BLOB NOT NULL,
		entry      INTEGER,
		since      INTEGER NOT NULL,
		total      INTEGER NOT NULL,
		first      INTEGER NOT NULL,
		resolved   INTEGER NOT NULL,
		PRIMARY KEY (receiver, key)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX held_by_due ON held (due) WHERE entry IS NULL;
	CREATE INDEX held_by_group ON held (receiver, grp, due, position) WHERE entry IS NULL;
	CREATE INDEX held_by_position ON held (receiver, position);
	CREATE INDEX held_by_entry ON held (entry) WHERE entry IS NOT NULL;
	ALTER TABLE entry ADD COLUMN grp TEXT NOT NULL DEFAULT '';
	DROP INDEX entry_by_position;
	CREATE INDEX entry_by_position ON entry (receiver, position, grp);
	ALTER TABLE attempt ADD COLUMN grp TEXT NOT NULL DEFAULT '';`,

	// What was told of in digests, under the ids that the entries had.
	`CREATE TABLE digested (
		id         INTEGER PRIMARY KEY,
		receiver   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		payload    BLOB NOT NULL,
		digest     TEXT NOT NULL,
		delivered  INTEGER NOT NULL,
		settled_at INTEGER NOT NULL
	) STRICT;
	CREATE INDEX digested_by_receiver ON digested (receiver, id);
	CREATE INDEX digested_by_age ON digested (settled_at);`,
}

// migrate brings the file to the version that this release knows.
func migrate(ctx context.Context, conn *sql.Conn) error {
	var version int
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		script := fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT", migrations[version], version+1)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			return fmt.Errorf("migrating to version %d: %w", version+1, err)
		}
	}
	return nil
}
