package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// inspect reads the whole file for damage, and its version. It changes neither
// the file nor its WAL, as a connection that may write does when it is closed.
func checkFile(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "mode=ro"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("%w: its version is %d, the newest known is %d", ErrNewerSchema, version, len(migrations))
	}
	var finding string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&finding); err != nil {
		return err
	}
	if finding != "ok" {
		return fmt.Errorf("%w: %s", ErrCorrupt, finding)
	}
	return nil
}
