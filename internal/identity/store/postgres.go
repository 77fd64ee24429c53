package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/ruedahq/rueda/internal/base/audit"
)

//go:embed migrations_postgres/*.sql
var migrationsPostgres embed.FS

// Postgres is an auth.Store in a PostgreSQL database that several gateways may share.
type Postgres struct {
	pool  *pgxpool.Pool
	db    *sql.DB       // the same connections for database/sql
	limit time.Duration // of an operation: postgresLimit
	chain audit.Chain
	newest

	writes groupCommit[*pgBatch]
	reads  groupCommit[*pgLookups]
}

// postgresLimit bounds every operation, so that callers get an error soon if the database does not
// answer.
const postgresLimit = 2 * time.Second

// migrationLimit bounds the wait for another gateway's migration.
const migrationLimit = 10 * time.Minute

// OpenPostgres connects to the database of dsn (postgres://user:password@host/name, or name=value
// pairs as in psql) and migrates its schema. Errors do not contain the password.
func OpenPostgres(ctx context.Context, dsn string) (*Postgres, error) {
	cfg, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("database %s on %s", cfg.ConnConfig.Database, net.JoinHostPort(cfg.ConnConfig.Host, fmt.Sprint(cfg.ConnConfig.Port)))
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	s := &Postgres{pool: pool, db: stdlib.OpenDBFromPool(pool), limit: postgresLimit}
	s.writes.transact, s.writes.rejected, s.reads.transact = s.transact, isDataError, s.lookup
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", at, errors.Join(explainPostgres(err), s.Close()))
	}
	return s, nil
}

// start checks that the database is writable and migrates it.
func (s *Postgres) start(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 2*postgresLimit)
	defer cancel()
	var standby, readOnly bool
	err := s.pool.QueryRow(limited, `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`).Scan(&standby, &readOnly)
	if err != nil {
		return err
	}
	if standby || readOnly {
		return errors.New("the server is read-only or a standby")
	}
	return migratePostgres(ctx, s.db)
}

// poolSize is the number of connections unless the DSN has pool_max_conns. Operations share
// transactions, so that few connections are enough.
const poolSize = 12

func postgresConfig(dsn string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The unparsed text may contain the password: do not repeat it.
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, fmt.Errorf("database URL: %w", path)
		}
		return nil, errors.New("database URL: invalid; use postgres://user:password@host:5432/name?sslmode=verify-full")
	}
	if err := checkPostgresTLS(cfg.ConnConfig); err != nil {
		return nil, err
	}
	defaults, err := pgxpool.ParseConfig("")
	if err == nil && cfg.MaxConns == defaults.MaxConns {
		cfg.MaxConns = poolSize
	}
	c := cfg.ConnConfig
	if c.ConnectTimeout == 0 || c.ConnectTimeout > postgresLimit {
		c.ConnectTimeout = postgresLimit
	}
	cfg.PingTimeout = postgresLimit / 2
	setting := func(name, value string) {
		if _, ok := c.RuntimeParams[name]; !ok {
			c.RuntimeParams[name] = value
		}
	}
	setting("application_name", "rueda")
	// A gateway that stalls in a transaction must not block the others for longer.
	setting("idle_in_transaction_session_timeout", "5000")
	// Prepared statements would keep a plan for small tables. All of ours select few rows by an
	// index.
	setting("enable_seqscan", "off")
	setting("enable_hashjoin", "off")
	setting("enable_mergejoin", "off")
	setting("jit", "off")
	cfg.AfterConnect = enableSyncCommit
	return cfg, nil
}

// CheckPostgres returns the error in a dsn, if there is one. It does not connect.
func CheckPostgres(dsn string) error {
	_, err := postgresConfig(dsn)
	return err
}

// checkPostgresTLS refuses connections over a network that may be unencrypted, as is the default of
// sslmode.
func checkPostgresTLS(c *pgx.ConnConfig) error {
	hosts := []pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, *f)
	}
	for _, h := range hosts {
		if h.TLSConfig == nil && !isLocal(h.Host) {
			return fmt.Errorf("database URL: the connection to %s may be unencrypted: set sslmode=verify-full or sslmode=require", h.Host)
		}
	}
	return nil
}

// UnverifiedHost returns a host of a connection string whose certificate is not verified, as with
// sslmode=require and no root certificate. Another server could pose as it. "": none.
func UnverifiedHost(dsn string) string {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return ""
	}
	hosts := []pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, *f)
	}
	for _, h := range hosts {
		if t := h.TLSConfig; t != nil && t.InsecureSkipVerify && t.VerifyPeerCertificate == nil && !isLocal(h.Host) {
			return h.Host
		}
	}
	return ""
}

// isLocal reports whether host is this machine: a loopback address or a Unix socket.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// enableSyncCommit sets synchronous_commit to on if the server has it off. Stronger settings stay.
func enableSyncCommit(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	return err
}

// migratePostgres migrates the schema. Gateways that start together wait for the first one with an
// advisory lock; goose's own lock polls once a second.
func migratePostgres(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, migrationLimit)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, migrationLock); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrationLock)
	}()
	return applyMigrations(ctx, goose.DialectPostgres, db, migrationsPostgres, "migrations_postgres")
}

// migrationLock is the advisory lock of migrations: the first bytes of the SHA-256 of "rueda
// migrations".
const migrationLock = 0x085636c2

// explainPostgres adds to a PostgreSQL error what an operator can do about it.
func explainPostgres(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch e.Code {
	case "28P01", "28000":
		return fmt.Errorf("wrong user or password, or pg_hba.conf rejects the connection: %w", err)
	case "3D000":
		return fmt.Errorf("the database does not exist; create it with createdb: %w", err)
	case "42501":
		return fmt.Errorf("the user lacks a privilege; it should own the database: %w", err)
	case "53300":
		return fmt.Errorf("the server has no free connection; raise max_connections or set pool_max_conns: %w", err)
	case "53100":
		return fmt.Errorf("the server's disk is full: %w", err)
	case "25006":
		return fmt.Errorf("the server is read-only or a standby: %w", err)
	}
	return err
}

// UseChain sets the key of the audit chain. Call it before any write.
func (s *Postgres) UseChain(c audit.Chain) { s.chain = c }

// Chain returns the chain that UseChain has set.
func (s *Postgres) Chain() audit.Chain { return s.chain }

// Writer returns the connections for database/sql.
func (s *Postgres) Writer() *sql.DB { return s.db }

// Reader returns the same pool as Writer.
func (s *Postgres) Reader() *sql.DB { return s.db }

// Dialect returns the SQL dialect of Writer and Reader.
func (s *Postgres) Dialect() string { return "postgres" }

// Close closes all connections.
func (s *Postgres) Close() error {
	err := s.db.Close()
	s.pool.Close()
	return err
}

// write runs f in its own transaction. After a serialization failure or a lost connection it tries
// once more.
func (s *Postgres) write(ctx context.Context, what string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	if err != nil && retryable(err) {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, explainPostgres(err))
	}
	return nil
}

// retryable reports whether a failed transaction changed nothing and may succeed now.
func retryable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "40001" || e.Code == "40P01" // serialization failure, deadlock
	}
	return pgconn.SafeToRetry(err)
}
