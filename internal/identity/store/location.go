package store

import (
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

// Transactions returns the times of the transactions of logins, refreshes and the audit log, and
// how many of them failed.
func (s *SQLite) Transactions() (took histogram.Histogram, failures uint64) { return s.writes.stats() }

// Transactions returns the same as that of SQLite.
func (s *Postgres) Transactions() (took histogram.Histogram, failures uint64) {
	return s.writes.stats()
}

// Location returns the path of the database file, or "memory".
func (s *SQLite) Location() string {
	if s.path == "" {
		return "memory"
	}
	return s.path
}

// Location describes the database without user and password.
func (s *Postgres) Location() string {
	c := s.pool.Config().ConnConfig
	return "postgres " + hostPort(c) + "/" + c.Database
}

// postgresAt returns host and port of the server.
func hostPort(c *pgx.ConnConfig) string { return net.JoinHostPort(c.Host, fmt.Sprint(c.Port)) }
