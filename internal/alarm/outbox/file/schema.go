package file

import (
	"context"
	"database/sql"
	"fmt"
)

// Schema describes the tables of a file.
type Schema struct {
	// Script creates the tables in an empty file. First is its version. Files of the versions
	// before it were written before the first release.
	Script string
	First  int
	// Migrations contains the scripts that change a file of a former release. Script i migrates
	// version First+i to the next one.
	Migrations []string
}

func (s Schema) newest() int { return s.First + len(s.Migrations) }

// migrate creates the tables of an empty file, and migrates the file of a former release.
func (s Schema) migrate(ctx context.Context, conn *sql.Conn) error {
	var version int
	if err := conn.QueryRowContext(ctx, selectVersion).Scan(&version); err != nil {
		return err
	}
	if version == 0 {
		if err := runScript(ctx, conn, s.Script, s.First); err != nil {
			return err
		}
		version = s.First
	}
	for ; version < s.newest(); version++ {
		if err := runScript(ctx, conn, s.Migrations[version-s.First], version+1); err != nil {
			return err
		}
	}
	return nil
}

const selectVersion = `PRAGMA user_version`

// runScript runs a script, and sets the version, in one transaction.
func runScript(ctx context.Context, conn *sql.Conn, script string, version int) error {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT", script, version)); err != nil {
		return fmt.Errorf("migrate to version %d: %w", version, err)
	}
	return nil
}

// check fails if this release cannot read a file of the version. An empty file has version 0.
func (s Schema) check(version int) error {
	switch {
	case version > s.newest():
		return fmt.Errorf("%w: its version is %d, and the newest known version is %d", ErrNewerSchema, version, s.newest())
	case version != 0 && version < s.First:
		return fmt.Errorf("%w: its version is %d, and the oldest known version is %d", ErrOlderSchema, version, s.First)
	}
	return nil
}
