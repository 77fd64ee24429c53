package store

import (
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
)

// Place says for people where the database is: its file, or memory.
func (s *SQLite) Place() string {
	if s.path == "" {
		return "memory"
	}
	return s.path
}

// Place says for people where the database is. It has neither user nor password.
func (s *Postgres) Place() string {
	c := s.pool.Config().ConnConfig
	return "postgres " + postgresAt(c) + "/" + c.Database
}

// postgresAt is host and port of the server.
func postgresAt(c *pgx.ConnConfig) string { return net.JoinHostPort(c.Host, fmt.Sprint(c.Port)) }
