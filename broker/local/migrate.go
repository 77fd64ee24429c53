package local

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrateTries is for the case that another process migrates the same file at this
// moment: whoever comes second fails, and finds it done on looking again.
const migrateTries = 4

// migrate brings the tables up to date.
func (d dialect) migrate(ctx context.Context, db *sql.DB) (err error) {
	for range migrateTries {
		if err = migrateOnce(ctx, db); err == nil {
			return nil
		}
	}
	return err
}

func migrateOnce(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithTableName("users_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return fmt.Errorf("schema version %d is newer than this program, which knows %d: run the newer program", current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring schema up to date: %w", err)
	}
	return nil
}
