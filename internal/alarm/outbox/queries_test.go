package outbox

import (
	"context"
	"database/sql"
	"strings"
	"testing"
)

// The cost of an operation must not depend on how much else the outbox contains. Every
// query uses an index that returns the entries of a receiver in the wanted order.
func TestNoQueryReadsMoreThanItReturns(t *testing.T) {
	const byID = "SEARCH entry USING INTEGER PRIMARY KEY (rowid=?)"
	tests := map[string]struct {
		query string
		want  string
	}{
		"pending":        {selectPending(MainLane), "SEARCH entry USING INDEX entry_by_age (receiver=? AND id>?)"},
		"pending aside":  {selectPending(5), "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=? AND id>?)"},
		"unprepared":     {selectUnprepared(MainLane), "SEARCH entry USING INDEX entry_by_age (receiver=?)"},
		"old aside":      {selectUnprepared(5), "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=?"},
		"oldest":         {selectOldestIn(MainLane), "SEARCH entry USING INDEX entry_by_age (receiver=?)"},
		"oldest aside":   {selectOldestIn(5), "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=?"},
		"of a tenant":    {selectOfTenant, "SEARCH entry USING INDEX entry_by_tenant (receiver=? AND tenant=? AND id>?)"},
		"next tenant":    {selectTenantAfter, "SEARCH entry USING COVERING INDEX entry_by_tenant (receiver=? AND tenant>?)"},
		"first tenant":   {selectFirstTenant, "SEARCH entry USING COVERING INDEX entry_by_tenant (receiver=?)"},
		"overtaken":      {updateOvertaken, "SEARCH entry USING COVERING INDEX entry_in_order (receiver=? AND position<?)"},
		"preparable":     {selectPreparable(MainLane), byID},
		"by ID":          {selectByID, byID},
		"delete":         {deleteEntries, byID},
		"broken":         {`DELETE FROM attempt WHERE ` + deleteBroken, "SEARCH attempt USING INDEX sqlite_autoindex_attempt_1 (receiver=?)"},
		"of a receiver":  {selectOfReceiver, "SEARCH entry USING COVERING INDEX entry_by_key (receiver=?)"},
		"lowest":         {selectLowest, "SEARCH entry USING COVERING INDEX entry_in_order (receiver=?)"},
		"attempt":        {selectAttempt, "SEARCH attempt USING INDEX sqlite_autoindex_attempt_1 (receiver=? AND lane=?)"},
		"lanes":          {selectSideLanes, "SEARCH entry USING COVERING INDEX entry_aside (receiver=?)"},
		"others":         {selectOthers, "SEARCH entry USING COVERING INDEX entry_by_tenant (receiver=?)"},
		"set aside":      {updateAside + `(` + misplaced + `)`, "SEARCH entry USING INTEGER PRIMARY KEY (rowid=?)"},
		"misplaced":      {misplaced, "SEARCH entry USING COVERING INDEX entry_by_tenant (receiver=?)"},
		"of a lane":      {misplaced, "SEARCH other EXISTS USING COVERING INDEX entry_aside (receiver=? AND subject=?)"},
		"rejoin":         {updateRejoin, "SEARCH entry USING INDEX entry_aside (receiver=? AND subject=?)"},
		"event count":    {deleteCount, "SEARCH event_count USING PRIMARY KEY (uid=?)"},
		"group":          {selectGroup, "SEARCH open_group USING PRIMARY KEY (receiver=? AND id=?)"},
		"old groups":     {selectOldGroups, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=?"},
		"with a thread":  {selectOldGroups, "SEARCH held USING INDEX held_of_message (receiver=? AND group_id=?)"},
		"threads":        {selectThreads, "SEARCH open_group USING PRIMARY KEY (receiver=?)"},
		"due":            {selectDue, "SEARCH parked USING COVERING INDEX parked_by_tenant (tenant=?)"},
		"next due":       {selectNextDue, "SEARCH held USING INDEX held_by_due (release_at>?)"},
		"parts":          {selectParts, "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"has changes":    {selectChange, "SEARCH held USING INDEX held_change_by_entry (entry=?)"},
		"newest late":    {selectNewest, "SEARCH entry USING COVERING INDEX entry_late (receiver=?)"},
		"newest parts":   {selectNewest, "SEARCH held USING COVERING INDEX held_by_position (receiver=?)"},
		"baseline data":  {selectBaselineData, "SEARCH baseline USING INDEX sqlite_autoindex_baseline_1 (stream=? AND uid=?)"},
		"baseline bytes": {selectBaselineBytes, "SEARCH baseline USING INDEX sqlite_autoindex_baseline_1 (stream=? AND uid=?)"},
		"of a stream":    {deleteBaselines, "SEARCH baseline USING COVERING INDEX sqlite_autoindex_baseline_1 (stream=?)"},
		"group of parts": {selectGroupOf, "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"due parts":      {selectDueParts, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due>? AND due<?)"},
		"due groups":     {selectDue, "SEARCH held USING INDEX held_by_due (release_at<?)"},
		"due slots":      {selectDueSlots, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due<?)"},
		"held back":      {updateHoldBack, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due<?)"},
		"hastened":       {updateHastened, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due>?)"},
		"parts released": {updateParts, "SEARCH held USING INDEX held_by_group (receiver=? AND group_id=? AND due>? AND due<?)"},
		"group exists":   {selectOpenGroup, "SEARCH open_group USING INDEX group_by_id (id=?)"},
		"repeated":       {selectRepeated, "SEARCH g USING INDEX group_by_sent (receiver=? AND sent>? AND sent<?)"},
		"ahead":          {selectAhead, "SEARCH g USING INDEX group_by_sent (receiver=? AND sent>?)"},
		"reference":      {selectReference, "SEARCH open_group USING PRIMARY KEY (receiver=? AND id=?)"},
		"parts by id":    {`DELETE FROM held WHERE ` + partsOf, "SEARCH held USING INDEX held_by_entry (entry=?)"},
		"window":         {selectWindow, "SEARCH open_group USING PRIMARY KEY (receiver=? AND id=?)"},
		"of a digest":    {selectDigestedEntries, byID},
		"digested":       {deleteDigestedOf, "SEARCH digested USING COVERING INDEX digested_by_receiver (receiver=? AND id<?)"},
	}
	s := open(t, t.TempDir())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := strings.ReplaceAll(explain(t, s, tc.query), "SCAN json_each", "the list")
			if !strings.Contains(plan, tc.want) {
				t.Errorf("got\n%s\nwant %s", plan, tc.want)
			}
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "ORDER BY") {
				t.Errorf("it scans or sorts:\n%s", plan)
			}
		})
	}
}

func explain(t *testing.T, s *Store, query string) string {
	t.Helper()
	var plan strings.Builder
	parameters := make([]any, 1+strings.Count(query, "?2")+strings.Count(query, "?3")+strings.Count(query, "?4")+strings.Count(query, "?5"))
	rows, err := s.readers.QueryContext(context.Background(), `EXPLAIN QUERY PLAN `+query, parameters...)
	must(t, each(rows, err, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan.WriteString(detail + "\n")
		return err
	}))
	return plan.String()
}
