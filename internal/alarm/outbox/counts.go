package outbox

import (
	"context"
	"database/sql"
	"strings"
)

// Counts are the numbers of occurrences that left the outbox, by Entry.Alarm. Counts
// returned with an error contain what was removed before the error.
type Counts map[string]int64

func (c Counts) add(other Counts) {
	for alarm, count := range other {
		c[alarm] += count
	}
}

// scan reads the rows of a query that returns a number for each alarm.
func (c Counts) scan(rows *sql.Rows, err error) error {
	return each(rows, err, func(rows *sql.Rows) error {
		var alarm string
		var n int64
		err := rows.Scan(&alarm, &n)
		c[alarm] += n
		return err
	})
}

// totals are numbers by alarm or receiver. The part of a name up to the last slash is the
// key for all of a namespace.
type totals map[string]int64

func (t totals) add(alarm string, n int64) {
	for _, of := range []string{alarm, namespaceOf(alarm)} {
		if t[of] += n; t[of] == 0 {
			delete(t, of)
		}
	}
}

// addIn is add, and also counts those of the alarm in a tenant.
func (t totals) addIn(tenant, alarm string, n int64) {
	t.add(alarm, n)
	of := ofTenant(tenant, alarm)
	if t[of] += n; t[of] == 0 {
		delete(t, of)
	}
}

func (t totals) subtract(gone Counts) {
	for alarm, n := range gone {
		t.add(alarm, -n)
	}
}

// all returns the sum over all namespaces.
func (t totals) all() (sum int64) {
	for of, n := range t {
		if strings.HasSuffix(of, "/") {
			sum += n
		}
	}
	return sum
}

func namespaceOf(name string) string { return name[:strings.LastIndexByte(name, '/')+1] }

// ofTenant is the key of the number of an alarm in a tenant. It is not that of an alarm or of a namespace.
func ofTenant(tenant, alarm string) string { return tenant + " " + alarm }

// count calls found with each row of a query.
func count(ctx context.Context, db *sql.DB, query string, found func(in, of string, n int64)) error {
	rows, err := db.QueryContext(ctx, query)
	return each(rows, err, func(rows *sql.Rows) error {
		var in, of string
		var n int64
		err := rows.Scan(&in, &of, &n)
		found(in, of, n)
		return err
	})
}
