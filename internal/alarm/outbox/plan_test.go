package outbox

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// TestNoQueryReadsMoreThanItReturns holds the cost of an operation to what it
// touches, however much else is in the ledger: every query finds a receiver's
// entries through an index, in the order that it wants them.
func TestNoQueryReadsMoreThanItReturns(t *testing.T) {
	const inOrderOfAge = "SEARCH entry USING COVERING INDEX entry_by_age (receiver=? AND id"
	tests := map[string]struct {
		query string
		want  string
	}{
		"pending":        {selectPending, "SEARCH entry USING INDEX entry_by_age (receiver=? AND id>?)"},
		"old":            {selectOld, inOrderOfAge},
		"freezable":      {selectPreparable, inOrderOfAge},
		"nth by id":      {byID.nth(), inOrderOfAge},
		"nth unfrozen":   {unprepared.nth(), inOrderOfAge},
		"nth position":   {byPosition.nth(), "SEARCH entry USING COVERING INDEX entry_by_position (receiver=? AND position<?)"},
		"by id":          {deleteEntries(byID), "SEARCH entry USING INDEX entry_by_age (receiver=? AND id<?)"},
		"unfrozen":       {deleteEntries(unprepared), "SEARCH entry USING COVERING INDEX entry_by_age (receiver=? AND id>? AND id<?)"},
		"by position":    {deleteEntries(byPosition), "SEARCH entry USING INDEX entry_by_position (receiver=? AND position<?)"},
		"tally":          {selectAlarmCounts(byID), "SEARCH entry USING INDEX entry_by_age (receiver=? AND id<?)"},
		"lowest":         {selectLowest, "SEARCH entry USING COVERING INDEX entry_by_position (receiver=?)"},
		"attempt":        {selectAttempt, "SEARCH attempt USING INDEX sqlite_autoindex_attempt_1 (receiver=?)"},
		"count of Event": {deleteCount, "SEARCH event_count USING PRIMARY KEY (uid=?)"},
		"group":          {selectGroup, "SEARCH grp USING PRIMARY KEY (receiver=? AND id=?)"},
		"old groups":     {selectOldGroups, "SEARCH held USING INDEX held_by_group (receiver=? AND grp=?"},
		"next due":       {selectNextDue, "SEARCH held USING INDEX held_by_due (due>?)"},
		"parts":          {selectParts, "SEARCH held USING INDEX held_by_group (receiver=? AND grp=?"},
		"parts released": {updateParts, "SEARCH held USING INDEX held_by_group (receiver=? AND grp=? AND due=?)"},
		"known":          {selectGroupExists, "SEARCH grp USING COVERING INDEX grp_by_id (id=?)"},
		"reference":      {selectReference, "SEARCH grp USING PRIMARY KEY (receiver=? AND id=?)"},
		"parts by id":    {deleteParts(byID), "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"window":         {selectWindow, "SEARCH window USING PRIMARY KEY (id=?)"},
		"digest's floor": {selectDigestedFloor, inOrderOfAge},
		"digest's":       {selectDigestedEntries, "SEARCH entry USING INDEX entry_by_age (receiver=? AND id>? AND id<?)"},
		"digested":       {deleteDigestedOf, "SEARCH digested USING COVERING INDEX digested_by_receiver (receiver=? AND id<?)"},
		"old windows":    {deleteOldWindows, "SEARCH window USING COVERING INDEX window_by_end (until<?)"},
	}
	l := open(t, t.TempDir())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := explain(t, l, tc.query)
			if !strings.Contains(plan, tc.want) {
				t.Errorf("got\n%s\nwant %s", plan, tc.want)
			}
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "ORDER BY") {
				t.Errorf("it scans or sorts:\n%s", plan)
			}
		})
	}
}

func explain(t *testing.T, l *Store, query string) string {
	t.Helper()
	var plan strings.Builder
	parameters := make([]any, 1+strings.Count(query, "?2")+strings.Count(query, "?3")+strings.Count(query, "?4"))
	rows, err := l.readers.QueryContext(context.Background(), `EXPLAIN QUERY PLAN `+query, parameters...)
	must(t, each(rows, err, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan.WriteString(detail + "\n")
		return err
	}))
	return plan.String()
}
