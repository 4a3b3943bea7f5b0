package outbox

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"time"
)

// each calls fn for every row of a result and closes the result.
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

// micros returns a time as it is stored: microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timestamp scans a time that micros wrote.
type timestamp struct{ *time.Time }

func (s timestamp) Scan(value any) error {
	*s.Time = time.Time{}
	if micros := value.(int64); micros != 0 {
		*s.Time = time.UnixMicro(micros).UTC()
	}
	return nil
}

// jsonColumn is a column or a parameter of JSON.
type jsonColumn struct{ into any }

func (d jsonColumn) Scan(value any) error {
	return json.Unmarshal([]byte(value.(string)), d.into)
}

// Value implements driver.Valuer.
func (d jsonColumn) Value() (driver.Value, error) {
	data, err := json.Marshal(d.into)
	return string(data), err
}
