package sqlusers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers driver sqlite

	"github.com/ruedahq/rueda/broker"
)

// Drivers.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// database is a read-only database.
type database struct {
	db       *sql.DB
	postgres bool
}

func open(driver, source string, connections int) (database, error) {
	if source == "" {
		return database{}, errors.New("which database? Its source is missing")
	}
	var d database
	var err error
	switch driver {
	case SQLite:
		// query_only also covers temporary tables and attached files
		name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: source}).EscapedPath(), RawQuery: url.Values{
			"mode": {"ro"}, "_pragma": {"query_only(1)", "busy_timeout(1000)"},
		}.Encode()}
		d.db, err = sql.Open("sqlite", name.String())
	case Postgres:
		d.postgres = true
		d.db, err = openPostgres(source)
	default:
		return database{}, fmt.Errorf("driver %q is neither %s nor %s", driver, SQLite, Postgres)
	}
	if err != nil {
		return database{}, err
	}
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
	d.db.SetConnMaxIdleTime(5 * time.Minute)
	return d, nil
}

// statementLimit ends queries whose caller has given up.
const statementLimit = "5000" // ms

func openPostgres(source string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(source)
	if err != nil { // it may quote the password
		return nil, errors.New("the source is no connection string like postgres://user:password@host/database?sslmode=verify-full")
	}
	hosts := []pgconn.FallbackConfig{{Host: cfg.Host, TLSConfig: cfg.TLSConfig}}
	for _, f := range cfg.Fallbacks {
		hosts = append(hosts, *f)
	}
	for _, h := range hosts {
		if h.TLSConfig == nil && !isLocal(h.Host) {
			return nil, fmt.Errorf("the connection to %s may be unencrypted: set sslmode=verify-full or sslmode=require", h.Host)
		}
	}
	cfg.RuntimeParams["default_transaction_read_only"] = "on"
	cfg.RuntimeParams["statement_timeout"] = statementLimit
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "rueda"
	}
	return stdlib.OpenDB(*cfg), nil
}

// isLocal reports whether host is this machine: a loopback address or a Unix socket.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (d database) close() error { return d.db.Close() }

// placeholder returns the parameter of a query.
func (q *query) placeholder(driver string) string {
	if driver == Postgres {
		return "$1"
	}
	return ":" + q.parameter
}

// checkText checks a query without a database.
func (q *query) checkText(driver string) error {
	own := q.placeholder(driver)
	name, other, others := "SQLite", "PostgreSQL", q.placeholder(Postgres)
	if driver == Postgres {
		name, other, others = other, name, q.placeholder(SQLite)
	}
	switch {
	case strings.Contains(q.text, own):
		return nil
	case strings.Contains(q.text, others):
		return &QueryError{q.name, fmt.Errorf("%s's parameter is %s; %s is %s's", name, own, others, other)}
	}
	return &QueryError{q.name, fmt.Errorf("it does not contain its parameter %s", own)}
}

// argument returns the value of a query's parameter.
func (d database) argument(q *query, value string) any {
	if d.postgres {
		return value
	}
	return sql.Named(q.parameter, value)
}

// check checks that the database can be read, and that the read-only setting of PostgreSQL is
// effective: a pooler may drop it.
func (d database) check(ctx context.Context) error {
	if !d.postgres {
		var version int64
		if err := d.db.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version); err != nil {
			return fmt.Errorf("read the database: %w", err)
		}
		return nil
	}
	var on string
	if err := d.db.QueryRowContext(ctx, "SHOW default_transaction_read_only").Scan(&on); err != nil {
		return d.explain(err)
	}
	if on != "on" {
		return errors.New("the session is not read-only: something in between drops default_transaction_read_only")
	}
	return nil
}

// columns returns the columns of a query. PostgreSQL describes it; SQLite runs it for an impossible
// user.
func (d database) columns(ctx context.Context, q *query) (names []string, err error) {
	if !d.postgres {
		rows, err := d.db.QueryContext(ctx, q.text, d.argument(q, "\u0001"))
		if err != nil {
			return nil, d.explain(err)
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		return rows.Columns()
	}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, d.explain(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = conn.Raw(func(driver any) error {
		pg, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("a connection of %T", driver)
		}
		about, err := pg.Conn().Prepare(ctx, "", q.text)
		if err != nil {
			return err
		}
		if n := len(about.ParamOIDs); n != 1 {
			return fmt.Errorf("it has %d parameters, not $1 alone", n)
		}
		for _, f := range about.Fields {
			names = append(names, f.Name)
		}
		return nil
	})
	if err != nil {
		return nil, d.explain(err)
	}
	return names, nil
}

// explain wraps errors with broker.ErrUnavailable if the database is unavailable, rather than the
// query wrong.
func (d database) explain(err error) error {
	var pgErr *pgconn.PgError
	classes := []string{"08", "53", "57", "58"} // SQLSTATE classes: connection, resources, operator, system
	switch {
	case errors.As(err, &pgErr) && !slices.Contains(classes, pgErr.Code[:min(2, len(pgErr.Code))]):
		return err
	case d.postgres && !errors.As(err, &pgErr) && isConnection(err):
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
	case pgErr != nil:
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
	}
	return err
}

func isConnection(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

// isForeign reports whether a value does not fit the type of the column, so that no row can have
// it. For logins it includes all data errors, because users must not be able to fake an outage. For
// queries by id, other data errors may be faults of the query, which must not end anybody's rights.
func isForeign(q *query, err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (q.name == "login" && strings.HasPrefix(pgErr.Code, "22") ||
		slices.Contains([]string{"22P02", "22003", "22007", "22008", "22021"}, pgErr.Code))
}

// ask returns the first rows of a query, at most the number most. Errors wrap
// broker.ErrUnavailable, except for broker.ErrNotFound if no row can have the value.
func (d database) ask(ctx context.Context, q *query, value string, most int) (list []row, err error) {
	defer func() {
		switch {
		case isForeign(q, err):
			err = broker.ErrNotFound
		case err != nil:
			err = fmt.Errorf("%w: query %s: %w", broker.ErrUnavailable, q.name, err)
		}
	}()
	rows, err := d.db.QueryContext(ctx, q.text, d.argument(q, value))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	if err := q.checkColumns(columns); err != nil { // the table may have changed
		return nil, err
	}
	for len(list) < most && rows.Next() {
		values := make([]any, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		r := row{}
		for i, c := range columns {
			r[c] = values[i]
		}
		list = append(list, r)
	}
	return list, rows.Err()
}
