package local

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql migrations_postgres/*.sql
var migrations embed.FS

// migrateTries bounds the attempts to migrate. If another process migrates the same SQLite file,
// the first attempt fails and the next finds the work done.
const migrateTries = 4

// migrate migrates the tables.
func (d dialect) migrate(ctx context.Context, db *sql.DB) (err error) {
	if d.postgres {
		return migrateAlone(ctx, db)
	}
	for range migrateTries {
		if err = migrateOnce(ctx, db, goose.DialectSQLite3, "migrations"); err == nil {
			return nil
		}
	}
	return err
}

// migrationLock is the advisory lock of migrations in PostgreSQL: the first bytes of the SHA-256 of
// "rueda users".
const migrationLock = 0xa36603bc

// migrateAlone migrates in PostgreSQL while other processes wait.
func migrateAlone(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, migrationLock); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrationLock)
	}()
	return migrateOnce(ctx, db, goose.DialectPostgres, "migrations_postgres")
}

func migrateOnce(ctx context.Context, db *sql.DB, d goose.Dialect, folder string) error {
	dir, err := fs.Sub(migrations, folder)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(d, db, dir, goose.WithTableName("users_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return fmt.Errorf("schema version %d is newer than version %d of this program: run a newer program", current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the schema: %w", err)
	}
	return nil
}
