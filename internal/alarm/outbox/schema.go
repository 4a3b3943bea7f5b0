package outbox

import "github.com/bongsu-io/bongsu/internal/alarm/outbox/file"

// firstVersion is the version of schema. Files of the versions before it were written before
// the first release.
const firstVersion = 30

// migrations contains the scripts that change a file of a former release: see [file.Schema].
// Until the first release, edit schema and increase firstVersion. After it, never edit schema or
// a script: append one.
var migrations []string

func tables() file.Schema {
	return file.Schema{Script: schema, First: firstVersion, Migrations: migrations}
}

// schema creates the tables. Times are in microseconds since 1970. bytes is the space that a row
// counts for.
const schema = `
-- A stream: see Stream. The one with the ID 0 is that of Events, and has the term of the leader: see State.
CREATE TABLE stream (
	id         INTEGER PRIMARY KEY,
	name       TEXT NOT NULL UNIQUE, -- empty for Events
	version    TEXT NOT NULL DEFAULT '',
	shape      TEXT NOT NULL DEFAULT '',
	position   INTEGER NOT NULL DEFAULT 0,
	time       INTEGER NOT NULL DEFAULT 0,
	complete   INTEGER NOT NULL DEFAULT 0, -- of Events: their counts are known
	delivered  TEXT NOT NULL DEFAULT '{}', -- JSON
	omitted    TEXT NOT NULL DEFAULT '[]', -- JSON
	-- Only of Events:
	newest     INTEGER NOT NULL DEFAULT 0,
	cluster    TEXT NOT NULL DEFAULT '',
	epoch      TEXT NOT NULL DEFAULT '',
	next_epoch TEXT NOT NULL DEFAULT '',
	history    TEXT NOT NULL DEFAULT '',
	since      INTEGER NOT NULL DEFAULT 0 -- since when Events are needed for what waited at a restore of etcd
) STRICT;
INSERT INTO stream (id, name) VALUES (0, '');

-- The last known count of an Event.
CREATE TABLE event_count (
	uid      ANY PRIMARY KEY NOT NULL, -- a BLOB of 16 bytes if it is a UUID, else TEXT
	count    INTEGER NOT NULL,
	position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A message to send. AUTOINCREMENT never uses an id again: an attempt lists ids.
CREATE TABLE entry (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	receiver   TEXT NOT NULL,
	alarm      TEXT NOT NULL,
	key        TEXT NOT NULL,
	position   INTEGER NOT NULL,
	count      INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	group_id   TEXT NOT NULL DEFAULT '',
	content    INTEGER, -- NULL for a group's message: held has its parts
	tenant     TEXT NOT NULL DEFAULT '', -- whose space it uses, and in whose turn it is sent
	bytes      INTEGER NOT NULL DEFAULT 0,
	subject    INTEGER NOT NULL DEFAULT 0,
	aside      INTEGER NOT NULL DEFAULT 0, -- 1: in the lane of its subject
	stream     TEXT NOT NULL DEFAULT '', -- of its position, empty for Events; positions of different streams are not comparable
	late       INTEGER NOT NULL DEFAULT 0 -- 1: not sent in the order of positions; the checkpoint lists it by key
) STRICT;
CREATE UNIQUE INDEX entry_by_key ON entry (receiver, key);
CREATE INDEX entry_by_age ON entry (receiver, id) WHERE aside = 0;
-- It covers the search for the entries of a subject.
CREATE INDEX entry_by_tenant ON entry (receiver, tenant, id, subject) WHERE aside = 0;
CREATE INDEX entry_in_order ON entry (receiver, position) WHERE late = 0 AND group_id = '';
CREATE INDEX entry_late ON entry (receiver, position, stream, key) WHERE late = 1;
CREATE INDEX entry_aside ON entry (receiver, subject, id) WHERE aside = 1;

-- What an alarm says about an occurrence, once for all receivers; or a message. Rows that change often name it, because
-- each write of a row copies it.
CREATE TABLE content (
	id   INTEGER PRIMARY KEY,
	refs INTEGER NOT NULL, -- the number of rows that use it
	by   BLOB NOT NULL, -- the values that the group has in common; empty for a message
	data BLOB NOT NULL
) STRICT;

-- A prepared message. It exists as long as all of its entries. The main lane is -1.
CREATE TABLE attempt (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	receiver    TEXT NOT NULL,
	lane        INTEGER NOT NULL,
	key         TEXT NOT NULL,
	entries     TEXT NOT NULL, -- a JSON list of the ids
	count       INTEGER NOT NULL,
	oldest      INTEGER NOT NULL,
	first_tried INTEGER NOT NULL,
	content     INTEGER NOT NULL, -- the body, which no other row uses
	bytes       INTEGER NOT NULL,
	error       TEXT NOT NULL DEFAULT '', -- the last failure, for Inspect
	next        INTEGER NOT NULL DEFAULT 0, -- when the operator tries again
	UNIQUE (receiver, lane)
) STRICT;
CREATE TRIGGER attempt_deleted AFTER DELETE ON attempt BEGIN
	DELETE FROM content WHERE id = OLD.content;
END;

-- An entry of a digest that was sent or given up, under its former id.
CREATE TABLE digested (
	id         INTEGER PRIMARY KEY,
	receiver   TEXT NOT NULL,
	alarm      TEXT NOT NULL,
	count      INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	payload    BLOB NOT NULL,
	digest     TEXT NOT NULL,
	delivered  INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX digested_by_receiver ON digested (receiver, id);
CREATE INDEX digested_by_age ON digested (ended_at);

-- An open group of a receiver: see group. The row without a receiver is what the threshold of the alarm has counted: see Window.
CREATE TABLE open_group (
	receiver     TEXT NOT NULL,
	id           TEXT NOT NULL,
	alarm        TEXT NOT NULL,
	since        INTEGER NOT NULL DEFAULT 0,
	newest       INTEGER NOT NULL,
	due          INTEGER NOT NULL DEFAULT 0,
	total        INTEGER NOT NULL DEFAULT 0,
	released     INTEGER NOT NULL DEFAULT 0,
	resolved     INTEGER NOT NULL DEFAULT 0,
	first        INTEGER NOT NULL DEFAULT 0,
	reference    TEXT NOT NULL DEFAULT '',
	tenant       TEXT NOT NULL DEFAULT '',
	bytes        INTEGER NOT NULL DEFAULT 0,
	ending       TEXT NOT NULL DEFAULT '', -- the key of the end that waits in held
	last         INTEGER, -- the content of its last message, for receivers that must get it again; no other row uses it
	repeated     INTEGER NOT NULL DEFAULT 0, -- the bytes that this message counts for; bytes includes them
	sent         INTEGER NOT NULL DEFAULT 0, -- when this message was last sent
	name         TEXT NOT NULL DEFAULT '', -- what users see of it
	acknowledged INTEGER NOT NULL DEFAULT 0, -- the token of the acknowledgement in force
	interval     INTEGER NOT NULL DEFAULT 0,
	accepted     INTEGER NOT NULL DEFAULT 0, -- when the receiver accepted the last message, 0 if that resolved the group
	over         INTEGER NOT NULL DEFAULT 0, -- when it is over if nothing happens
	paced        INTEGER NOT NULL DEFAULT 0, -- when the last message was due that did not only resolve it
	alarm_uid    TEXT NOT NULL DEFAULT '', -- groups end with their alarm
	counted      BLOB, -- the state of the threshold
	PRIMARY KEY (receiver, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX group_by_age ON open_group (newest);
CREATE INDEX group_by_id ON open_group (id);
-- It has a part of the alarm. It contains the receiver too, and longer rows would each need a page.
CREATE INDEX group_by_alarm ON open_group (substr(alarm, 1, 64));
CREATE INDEX group_by_alarm_uid ON open_group (alarm_uid);
CREATE INDEX group_by_sent ON open_group (receiver, sent) WHERE last IS NOT NULL;
CREATE TRIGGER open_group_deleted AFTER DELETE ON open_group WHEN OLD.last IS NOT NULL BEGIN
	DELETE FROM content WHERE id = OLD.last;
END;

-- An occurrence of a group, or the end of a group that becomes quiet. It waits until the message
-- of the group is due. It stays as long as that message exists: a replay must find it, and another
-- leader can have delivered a part of the message. since, total, first and resolved describe the
-- group after this occurrence, because the group can continue before the message is made.
CREATE TABLE held (
	receiver   TEXT NOT NULL,
	key        TEXT NOT NULL,
	group_id   TEXT NOT NULL,
	alarm      TEXT NOT NULL,
	position   INTEGER NOT NULL,
	count      INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	due        INTEGER NOT NULL,
	entry      INTEGER, -- the message that it is a part of
	since      INTEGER NOT NULL,
	total      INTEGER NOT NULL,
	first      INTEGER NOT NULL,
	resolved   INTEGER NOT NULL,
	content    INTEGER,
	tenant     TEXT NOT NULL,
	bytes      INTEGER NOT NULL,
	ends       INTEGER NOT NULL DEFAULT 0, -- 1: an end, whose count is 0
	stream     TEXT NOT NULL DEFAULT '', -- as in entry
	release_at INTEGER, -- when the message can be made: due, or later if the one before was late; NULL while one waits
	PRIMARY KEY (receiver, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_by_group ON held (receiver, group_id, due, position) WHERE entry IS NULL;
CREATE INDEX held_of_message ON held (receiver, group_id) WHERE entry IS NOT NULL;
CREATE INDEX held_by_position ON held (receiver, position, stream);
CREATE INDEX held_change_by_entry ON held (entry) WHERE stream <> '' AND entry IS NOT NULL;
CREATE INDEX held_by_due ON held (release_at, ends) WHERE entry IS NULL;
-- A message has the parts of several due times.
CREATE INDEX held_by_entry ON held (entry, due, position, key) WHERE entry IS NOT NULL;

-- However a row is deleted, the content that no row uses is deleted.
CREATE TRIGGER entry_deleted AFTER DELETE ON entry WHEN OLD.content IS NOT NULL BEGIN
	UPDATE content SET refs = refs - 1 WHERE id = OLD.content;
	DELETE FROM content WHERE id = OLD.content AND refs = 0;
END;
CREATE TRIGGER held_deleted AFTER DELETE ON held BEGIN
	UPDATE content SET refs = refs - 1 WHERE id = OLD.content;
	DELETE FROM content WHERE id = OLD.content AND refs = 0;
END;
-- Without the condition on due, the trigger would not use held_by_group.
CREATE TRIGGER message_of_group_deleted AFTER DELETE ON entry WHEN OLD.group_id <> '' BEGIN
	UPDATE held SET release_at = due
	WHERE receiver = OLD.receiver AND group_id = OLD.group_id AND entry IS NULL AND due >= 0 AND +release_at IS NULL;
END;

-- An occurrence that cannot be evaluated yet, because it waits for a read: once for each alarm.
CREATE TABLE parked (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	key       TEXT NOT NULL UNIQUE,
	alarm     TEXT NOT NULL,
	object    TEXT NOT NULL,
	namespace TEXT NOT NULL,
	tenant    TEXT NOT NULL,
	position  INTEGER NOT NULL,
	since     INTEGER NOT NULL,
	receivers TEXT NOT NULL, -- JSON: by receiver, the key of its entry, empty if it has it
	bytes     INTEGER NOT NULL,
	data      BLOB NOT NULL
) STRICT;
CREATE INDEX parked_by_object ON parked (namespace, object, id);
CREATE INDEX parked_by_alarm ON parked (object, alarm);
CREATE INDEX parked_by_tenant ON parked (tenant);

-- What the checkpoint lists by key, because the delivered offset of the receiver passes it.
CREATE VIEW waiting (receiver, stream, key, position) AS
	SELECT receiver, stream, key, position FROM entry WHERE late = 1
	UNION ALL SELECT receiver, stream, key, position FROM held
	UNION ALL SELECT each.key, '', each.value, position FROM parked, json_each(receivers) each WHERE each.value <> '';

-- A text that many baselines have in common.
CREATE TABLE shape (
	id   INTEGER PRIMARY KEY,
	text TEXT NOT NULL UNIQUE
) STRICT;

-- The last known state of an object of a stream.
CREATE TABLE baseline (
	id        INTEGER PRIMARY KEY,
	stream    INTEGER NOT NULL,
	uid       ANY NOT NULL, -- as in event_count
	namespace TEXT NOT NULL,
	shape     INTEGER NOT NULL,
	digest    BLOB NOT NULL,
	bytes     INTEGER NOT NULL,
	data      BLOB NOT NULL, -- empty if the object has no space
	UNIQUE (stream, uid)
) STRICT;

-- A state of an object that holds, of spec.states. It uses the space of the baselines of its
-- namespace.
CREATE TABLE lasting (
	id        INTEGER PRIMARY KEY,
	stream    TEXT NOT NULL,
	uid       ANY NOT NULL, -- as in event_count
	alarm     TEXT NOT NULL,
	state     TEXT NOT NULL,
	namespace TEXT NOT NULL,
	since     INTEGER NOT NULL,
	fired     INTEGER NOT NULL, -- 1: it was reported
	due       INTEGER NOT NULL, -- when it can be reported, or when a reported one can end
	position  INTEGER NOT NULL,
	group_id  TEXT NOT NULL,
	restored  INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	data      BLOB NOT NULL,
	UNIQUE (stream, uid, alarm, state)
) STRICT;
CREATE INDEX lasting_due ON lasting (due) WHERE due > 0;
CREATE INDEX lasting_of_group ON lasting (group_id) WHERE fired;

-- The numbers in the status of an alarm or a receiver.
CREATE TABLE status_count (
	subject                 TEXT PRIMARY KEY NOT NULL,
	uid                     TEXT NOT NULL,
	matched                 INTEGER NOT NULL,
	delivered               INTEGER NOT NULL,
	suppressed_by_threshold INTEGER NOT NULL,
	dropped                 INTEGER NOT NULL,
	unresolved              INTEGER NOT NULL,
	last_match              INTEGER NOT NULL,
	last_delivery           INTEGER NOT NULL,
	suppressed_by_mute      INTEGER NOT NULL DEFAULT 0,
	undecided               INTEGER NOT NULL DEFAULT 0, -- their object could not be read
	without_group_key       INTEGER NOT NULL DEFAULT 0 -- their object lacks a label or an annotation of spec.group.by
) STRICT, WITHOUT ROWID;
`
