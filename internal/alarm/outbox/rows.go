package outbox

import (
	"database/sql"
	"encoding/json"
	"time"
)

// scanner is a row of a result.
type scanner interface {
	Scan(dest ...any) error
}

// failed is the row of a query that failed.
type errorRow struct{ err error }

func (f errorRow) Scan(...any) error { return f.err }

// each calls fn for every row of a query's result and closes it.
func each(rows *sql.Rows, err error, fn func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// micros is how a time is stored: in microseconds since 1970; no time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// stamp scans what micros made.
type timestamp struct{ *time.Time }

func (s timestamp) Scan(value any) error {
	*s.Time = time.Time{}
	if micros := value.(int64); micros != 0 {
		*s.Time = time.UnixMicro(micros).UTC()
	}
	return nil
}

// document scans a column of JSON.
type jsonColumn struct{ into any }

func (d jsonColumn) Scan(value any) error {
	return json.Unmarshal([]byte(value.(string)), d.into)
}
