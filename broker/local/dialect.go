package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// dialect is the SQL dialect of a database. Queries work in SQLite and PostgreSQL, except for what
// its methods return.
type dialect struct {
	postgres bool
}

// rebind replaces each ? outside of quotes in a query with $1, $2, ... for PostgreSQL.
func (d dialect) rebind(query string) string {
	if !d.postgres {
		return query
	}
	var b strings.Builder
	quote, n := byte(0), 0
	for i := range len(query) {
		switch c := query[i]; {
		case quote == 0 && (c == '\'' || c == '"'), c == quote:
			quote ^= c
			b.WriteByte(c)
		case c == '?' && quote == 0:
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// name returns a username parameter with the collation of the column.
func (d dialect) name() string {
	if d.postgres {
		return `CAST(? AS text) COLLATE "C"`
	}
	return "?"
}

// forUpdate returns the end of a SELECT of rows that the transaction will change. In SQLite the
// transaction already has the write lock.
func (d dialect) forUpdate() string {
	if d.postgres {
		return " FOR UPDATE"
	}
	return ""
}

// Time limits of PostgreSQL. An import may have a hundred thousand users.
const (
	askLimit    = 2 * time.Second
	importLimit = 10 * time.Minute
)

// limit returns ctx with a time limit. SQLite has a limit of its own.
func (d dialect) limit(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if d.postgres {
		return context.WithTimeout(ctx, most)
	}
	return ctx, func() {}
}

// watchPostgres is Watch for PostgreSQL, where triggers count and notify changes. Listen also calls
// its function every few seconds, so only a different count is a change.
func (b *Base) watchPostgres(ctx context.Context, changed func()) error {
	if b.listen == nil {
		return errors.New("watch the user base: nothing listens to the database")
	}
	known, err := b.countChanges(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	return b.listen(ctx, channel, func() {
		// After an error the count still differs at the next call.
		if n, err := b.countChanges(ctx); err == nil && n != known {
			known = n
			changed()
		}
	})
}

func (b *Base) countChanges(ctx context.Context) (n int64, err error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	err = b.reader.QueryRowContext(ctx, `SELECT n FROM users_changes WHERE one = 1`).Scan(&n)
	return n, err
}
