package store

import (
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
)

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
