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

	"github.com/ruedahq/rueda/internal/audit"
)

//go:embed migrations_postgres/*.sql
var migrationsPostgres embed.FS

// Postgres is an auth.Store in a PostgreSQL database, which several gateways may share.
type Postgres struct {
	pool  *pgxpool.Pool
	db    *sql.DB // the same connections, for who knows database/sql
	chain audit.Chain

	writes group[*pgBatch]
	reads  group[*pgLookups]
}

// postgresLimit bounds every operation: while the database is gone, who asks is told so before it loses patience.
const postgresLimit = 2 * time.Second

// migrationLimit bounds the wait for another gateway that migrates.
const migrationLimit = 10 * time.Minute

// OpenPostgres connects to the database that dsn names (postgres://user:password@host/name, or name=value pairs as psql
// takes them) and brings its schema up to date. No error has the password in it.
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
	s := &Postgres{pool: pool, db: stdlib.OpenDBFromPool(pool)}
	s.writes.transact, s.writes.alone = s.transact, func(error) bool { return false }
	s.reads.transact, s.reads.alone = s.lookup, func(error) bool { return false }
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", at, errors.Join(explainPostgres(err), s.Close()))
	}
	return s, nil
}

// start checks that the database answers and can be written, and migrates it.
func (s *Postgres) start(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 2*postgresLimit)
	defer cancel()
	var standby, readOnly bool
	err := s.pool.QueryRow(limited, `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`).Scan(&standby, &readOnly)
	if err != nil {
		return err
	}
	if standby || readOnly {
		return errors.New("it cannot be written: it is a standby, or read-only")
	}
	return migratePostgres(ctx, s.db)
}

// poolSize is the number of connections, unless the DSN has pool_max_conns: operations travel together, so that
// few serve many.
const poolSize = 12

func postgresConfig(dsn string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// What was not understood may be the password, so that its words are not repeated.
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, fmt.Errorf("database URL: %w", path)
		}
		return nil, errors.New("database URL: not understood; it is of the form postgres://user:password@host:5432/name?sslmode=verify-full")
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
	// A gateway that stands still within a transaction must not hold up the others for longer.
	setting("idle_in_transaction_session_timeout", "5000")
	// Prepared statements keep a plan that was made when the tables were small. All of ours look up a few rows by an index.
	setting("enable_seqscan", "off")
	setting("enable_hashjoin", "off")
	setting("enable_mergejoin", "off")
	setting("jit", "off")
	cfg.AfterConnect = durable
	return cfg, nil
}

// CheckPostgres says what is wrong with the dsn of OpenPostgres, and connects to nothing.
func CheckPostgres(dsn string) error {
	_, err := postgresConfig(dsn)
	return err
}

// checkPostgresTLS refuses a connection over a network that may go without TLS, as it may by default: password, users
// and tokens would be there to read.
func checkPostgresTLS(c *pgx.ConnConfig) error {
	hosts := []pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, *f)
	}
	for _, h := range hosts {
		if h.TLSConfig == nil && !isNear(h.Host) {
			return fmt.Errorf("database URL: the connection to %s may go without TLS: say sslmode=verify-full, or require", h.Host)
		}
	}
	return nil
}

// isNear says whether a host is this machine, by a loopback address or a socket in the file system.
func isNear(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// durable turns synchronous commits on where the server has them off. Stronger settings stay.
func durable(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	return err
}

// migratePostgres brings the schema up to date. Of several gateways that start together one does, and the others wait
// for it: on a lock of the session rather than goose's, which looks again only each second.
func migratePostgres(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, migrationLimit)
	defer cancel()
	dir, err := fs.Sub(migrationsPostgres, "migrations_postgres")
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, migrationLock); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrationLock)
	}()
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithTableName("store_version"), goose.WithDisableGlobalRegistry(true))
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

// migrationLock names the lock of those that migrate: the first bytes of "rueda migrations" in SHA-256.
const migrationLock = 0x085636c2

// explainPostgres says in words what an operator can do about an error.
func explainPostgres(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch e.Code {
	case "28P01", "28000":
		return fmt.Errorf("the user or its password is refused, or pg_hba.conf does not let it in: %w", err)
	case "3D000":
		return fmt.Errorf("there is no such database; createdb makes one: %w", err)
	case "42501":
		return fmt.Errorf("the user may not do that; the database should be its own: %w", err)
	case "53300":
		return fmt.Errorf("the server has no connection left; raise max_connections or set pool_max_conns: %w", err)
	case "53100":
		return fmt.Errorf("the server's disk is full: %w", err)
	case "25006":
		return fmt.Errorf("the server is read-only, as a standby is: %w", err)
	}
	return err
}

// UseChain sets the key of the audit log's chain, before anything is written.
func (s *Postgres) UseChain(c audit.Chain) { s.chain = c }

// Chain is what UseChain has set.
func (s *Postgres) Chain() audit.Chain { return s.chain }

// Writer is the pool of connections by database/sql.
func (s *Postgres) Writer() *sql.DB { return s.db }

// Reader is the same as Writer.
func (s *Postgres) Reader() *sql.DB { return s.db }

// Dialect is the SQL that Writer and Reader understand.
func (s *Postgres) Dialect() string { return "postgres" }

// Close ends all connections.
func (s *Postgres) Close() error {
	err := s.db.Close()
	s.pool.Close()
	return err
}

// write runs f in a transaction of its own. One that another transaction's locks or a lost connection has undone is tried
// again, once.
func (s *Postgres) write(ctx context.Context, what string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	if err != nil && again(err) {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, explainPostgres(err))
	}
	return nil
}

// again says whether a transaction that failed changed nothing and may do better now.
func again(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "40001" || e.Code == "40P01" // serialization failure, deadlock
	}
	return pgconn.SafeToRetry(err)
}
