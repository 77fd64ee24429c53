package local

import (
	"strconv"
	"strings"
)

// dialect is the SQL of a database. Queries are written so that SQLite and PostgreSQL both understand them, but
// for what the methods give.
type dialect struct {
	postgres bool
}

// rebind turns each ? of a query, but for those within quotes, into the $1, $2, ... of PostgreSQL.
func (d dialect) rebind(query string) string {
	if !d.postgres {
		return query
	}
	var b strings.Builder
	quoted, n := false, 0
	for i := range len(query) {
		switch c := query[i]; {
		case c == '\'':
			quoted = !quoted
			b.WriteByte(c)
		case c == '?' && !quoted:
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// forUpdate ends a SELECT whose rows the transaction is about to change. SQLite's holds the write lock from its start.
func (d dialect) forUpdate() string {
	if d.postgres {
		return " FOR UPDATE"
	}
	return ""
}
