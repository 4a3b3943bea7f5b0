package outbox

import (
	"context"
	"database/sql"
	"time"
)

// AlarmsOfGroups returns the UIDs of the alarms that have groups.
func (s *Store) AlarmsOfGroups(ctx context.Context) (uids []string, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT DISTINCT alarm_uid FROM open_group WHERE alarm_uid > '' AND first > 0 AND NOT resolved`)
	return uids, s.read("list the alarms of groups", each(rows, err, func(rows *sql.Rows) error {
		var uid string
		err := rows.Scan(&uid)
		uids = append(uids, uid)
		return err
	}))
}

// UnresolvedGroup is a group of a receiver that was reported and is not resolved.
type UnresolvedGroup struct {
	Receiver, ID, Alarm, Tenant, Name string
	Since                             time.Time
	// Last is its last message, if that is kept to be sent again.
	Last []byte
}

// UnresolvedGroups returns groups of an alarm, at most limit.
func (s *Store) UnresolvedGroups(ctx context.Context, alarmUID string, limit int) (groups []UnresolvedGroup, err error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT receiver, id, alarm, tenant, name, since, (SELECT data FROM repeated WHERE repeated.receiver = open_group.receiver AND group_id = open_group.id)
		FROM open_group WHERE alarm_uid = ? AND first > 0 AND NOT resolved LIMIT ?`, alarmUID, limit)
	return groups, s.read("list the groups of an alarm", each(rows, err, func(rows *sql.Rows) error {
		var g UnresolvedGroup
		err := rows.Scan(&g.Receiver, &g.ID, &g.Alarm, &g.Tenant, &g.Name, timestamp{&g.Since}, &g.Last)
		groups = append(groups, g)
		return err
	}))
}
