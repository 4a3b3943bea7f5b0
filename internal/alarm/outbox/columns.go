package outbox

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"time"

	"github.com/google/uuid"
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

// packUID returns a UUID as 16 bytes, and any other text unchanged. It packs only the
// form that the API server writes, because other forms would be read back differently.
func packUID(s string) any {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s {
		return s
	}
	return u[:]
}

// uidColumn scans a UID that packUID wrote.
type uidColumn struct{ *string }

func (u uidColumn) Scan(value any) error {
	switch v := value.(type) {
	case []byte:
		parsed, err := uuid.FromBytes(v)
		*u.string = parsed.String()
		return err
	default:
		*u.string = v.(string)
		return nil
	}
}

// duration scans a duration in microseconds.
type duration struct{ *time.Duration }

func (d duration) Scan(value any) error {
	micros := value.(int64)
	*d.Duration = time.Duration(micros) * time.Microsecond
	return nil
}

// digestColumn scans a digest.
type digestColumn struct{ into *[16]byte }

func (d digestColumn) Scan(value any) error {
	copy(d.into[:], value.([]byte))
	return nil
}
